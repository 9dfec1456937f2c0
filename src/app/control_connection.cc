// SPDX-License-Identifier: Apache-2.0
#include "app/control_connection.h"

#include "app/json.h"
#include "auth/capability.h"
#include "auth/credentials.h"
#include "auth/rpc_auth.h"
#include "auth/tls_files.h"

namespace forebay::app {

Result<std::unique_ptr<ControlConnection>> ControlConnection::Open(const Invocation& invocation) {
  FB_ASSIGN(const Profile profile, ResolveProfile(invocation.flags, ProcessEnvironment()));
  auth::Identity identity;
  if (!profile.capability.empty()) {
    FB_ASSIGN(identity, auth::HeldCapability::Load(profile.capability));
  } else {
    FB_ASSIGN(identity, auth::Credentials::Load(profile.credentials));
  }
  auto connection = std::make_unique<ControlConnection>();
  control::ControlClientOptions options{.server = profile.server};
  if (!profile.tls.empty()) {
    FB_ASSIGN(auth::TlsFiles files,
              auth::TlsFiles::Load(profile.tls, auth::CertificateUse::kClient, connection->clock_.WallNow()));
    options.tls = std::make_shared<const auth::TlsFiles>(std::move(files));
  }
  FB_ASSIGN(connection->client_, control::ControlClient::Create(std::move(options), std::move(identity),
                                                                connection->clock_, connection->random_));
  return connection;
}

std::string FormatWallTime(base::WallTime time) {
  return FormatTime(std::chrono::time_point_cast<std::chrono::system_clock::duration>(time));
}

}  // namespace forebay::app
