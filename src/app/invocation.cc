// SPDX-License-Identifier: Apache-2.0
#include "app/invocation.h"

#include "app/exit_status.h"

namespace forebay::app {

std::expected<std::unique_ptr<Client>, Error> Invocation::Connect(unsigned connections,
                                                                  std::chrono::nanoseconds timeout) const {
  const Result<Profile> profile = ResolveProfile(flags, ProcessEnvironment());
  if (!profile.ok())
    return std::unexpected(Error{profile.status().code(), std::string(profile.status().message())});
  return Client::Connect({.server = profile->server,
                          .credentials_path = profile->credentials,
                          .capability_path = profile->capability,
                          .connections = connections,
                          .timeout = timeout,
                          .fabric = fabric.empty() ? ProcessEnvironment()("FOREBAY_FABRIC") : fabric,
                          .tls_directory = profile->tls});
}

int Fail(const Error& error) { return Fail(error.message); }

}  // namespace forebay::app
