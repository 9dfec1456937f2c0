// SPDX-License-Identifier: Apache-2.0
#include "app/backend_choice.h"

#include "app/profile.h"
#include "rt/address.h"

namespace forebay::app {
namespace {

/// The port of kDefaultServer, where none is given.
std::string_view DefaultPort() { return kDefaultServer.substr(kDefaultServer.rfind(':')); }

/// Whether `where` says a port: behind the one colon of a name or number, or behind the bracket of [::1].
bool HasPort(std::string_view where) {
  const size_t colon = where.rfind(':');
  if (colon == std::string_view::npos) return false;
  return where.starts_with('[') ? where[colon - 1] == ']' : where.find(':') == colon;
}

Result<BackendChoice> ParseRemote(std::string_view where) {
  std::string server(where);
  if (!where.empty() && !HasPort(where)) server += DefaultPort();
  const Result<rt::HostPort> place = rt::SplitHostPort(server);
  if (!place.ok() || place->port == 0)
    return Status::InvalidArgument("--backend remote:{}: name the other server's control address, remote:HOST or "
                                   "remote:HOST:PORT (a numeric IPv6 address in brackets)",
                                   where);
  return BackendChoice(RemoteBackend{.server = std::move(server)});
}

}  // namespace

Result<BackendChoice> ParseBackend(std::string_view text) {
  if (text.empty()) return BackendChoice(EngineBackend{});
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  if (kind == "remote" && colon != std::string_view::npos) return ParseRemote(text.substr(colon + 1));
  if (kind == "directory" && colon != std::string_view::npos && colon + 1 != text.size())
    return BackendChoice(DirectoryBackend{.path = std::string(text.substr(colon + 1))});
  return Status::InvalidArgument(
      "--backend {}: known are directory:PATH, a directory of files, and remote:HOST[:PORT], another Forebay server", text);
}

}  // namespace forebay::app
