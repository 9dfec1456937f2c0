// SPDX-License-Identifier: Apache-2.0
#include "app/control_connection.h"

#include "app/json.h"
#include "auth/credentials.h"

namespace forebay::app {

Result<std::unique_ptr<ControlConnection>> ControlConnection::Open(const Invocation& invocation) {
  FB_ASSIGN(const Profile profile, ResolveProfile(invocation.flags, ProcessEnvironment()));
  FB_ASSIGN(auth::Credentials credentials, auth::Credentials::Load(profile.credentials));
  auto connection = std::make_unique<ControlConnection>();
  FB_ASSIGN(connection->client_,
            control::ControlClient::Create({.server = profile.server}, std::move(credentials),
                                           connection->clock_, connection->random_));
  return connection;
}

std::string FormatWallTime(base::WallTime time) {
  return FormatTime(std::chrono::time_point_cast<std::chrono::system_clock::duration>(time));
}

}  // namespace forebay::app
