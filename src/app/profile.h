// SPDX-License-Identifier: Apache-2.0
// Profile: how a command finds its server without flags. Order: flag, environment, profile file, default. A
// server that became ready writes the profile of its user ($XDG_STATE_HOME/forebay/profile.toml, else
// ~/.local/state/...), so that in a second terminal every command works with no flags; the last server
// started wins. Thread-safe: no state.
#pragma once

#include <functional>
#include <string>

#include "base/status.h"

namespace forebay::app {

constexpr std::string_view kDefaultServer = "127.0.0.1:7400";

struct Profile {
  std::string server;       // host:port of the control plane
  std::string credentials;  // path of a credentials file
  std::string capability{};   // path of a capability file; then credentials are not needed. Never saved
  std::string tls = {};     // a directory of certificates; empty: no TLS

  friend bool operator==(const Profile&, const Profile&) = default;
};

/// Looks up an environment variable; empty when unset. Passed in for tests.
using Environment = std::function<std::string(const std::string& name)>;
Environment ProcessEnvironment();

/// Where the profile of this user is; empty when neither XDG_STATE_HOME nor HOME is set.
std::string ProfilePath(const Environment& environment);

/// NotFound when there is none, InvalidArgument naming file and line when it is malformed.
Result<Profile> LoadProfile(const std::string& path);
/// Replaces the file atomically, making its directory when needed. Mode 0600.
Status SaveProfile(const std::string& path, const Profile& profile);
/// Removes the file when it still is `profile`: a server that stops does not take away another's.
void RemoveProfile(const std::string& path, const Profile& profile);

/// Fills what the flags left empty. A capability, by flag or environment, stands in for credentials; a flag for either beats the
/// environment. InvalidArgument for flags of both; FailedPrecondition saying what to do when neither is to be found.
Result<Profile> ResolveProfile(const Profile& flags, const Environment& environment);

}  // namespace forebay::app
