// SPDX-License-Identifier: Apache-2.0
#include "app/profile.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <utility>

#include <toml++/toml.h>

namespace forebay::app {
namespace {

std::string FirstNonEmpty(std::string a, std::string b, std::string c) {
  if (!a.empty()) return a;
  return b.empty() ? c : b;
}

std::string ToToml(const Profile& profile) {
  std::ostringstream out;
  toml::table table{{"server", profile.server}, {"credentials", profile.credentials}};
  if (!profile.tls.empty()) table.insert("tls", profile.tls);
  out << table << "\n";
  return std::move(out).str();
}

}  // namespace

Environment ProcessEnvironment() {
  return [](const std::string& name) {
    const char* value =
        std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): nothing here sets variables
    return std::string(value == nullptr ? "" : value);
  };
}

std::string ProfilePath(const Environment& environment) {
  if (const std::string state = environment("XDG_STATE_HOME"); !state.empty())
    return state + "/forebay/profile.toml";
  if (const std::string home = environment("HOME"); !home.empty())
    return home + "/.local/state/forebay/profile.toml";
  return {};
}

Result<Profile> LoadProfile(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) return Status::NotFound("there is no profile {}", path);
  try {
    const toml::table table = toml::parse_file(path);
    Profile profile;
    profile.server = table["server"].value_or(std::string());
    profile.credentials = table["credentials"].value_or(std::string());
    profile.tls = table["tls"].value_or(std::string());
    return profile;
  } catch (const toml::parse_error& broken) {
    return Status::InvalidArgument(
        "the profile {} is malformed at line {}: {}; delete it, a server writes it anew", path,
        broken.source().begin.line, broken.description());
  }
}

Status SaveProfile(const std::string& path, const Profile& profile) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  if (error) return Status::FromErrno(error.value(), "create the directory of " + path);
  std::string temporary = path + ".XXXXXX";
  const int fd = mkstemp(temporary.data());
  if (fd < 0) return Status::FromErrno(errno, "write " + path);
  const std::string text = ToToml(profile);
  const bool written = write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int write_error = errno;
  close(fd);
  if (!written || std::rename(temporary.c_str(), path.c_str()) != 0) {
    const Status status = Status::FromErrno(written ? errno : write_error, "write " + path);
    unlink(temporary.c_str());
    return status;
  }
  return {};
}

void RemoveProfile(const std::string& path, const Profile& profile) {
  const Result<Profile> current = LoadProfile(path);
  if (current.ok() && *current == profile) unlink(path.c_str());
}

Result<Profile> ResolveProfile(const Profile& flags, const Environment& environment) {
  if (!flags.credentials.empty() && !flags.capability.empty())
    return Status::InvalidArgument("--credentials and --cap are two ways to say who you are: give one");
  Profile resolved = flags;
  if (resolved.server.empty()) resolved.server = environment("FOREBAY_SERVER");
  if (resolved.credentials.empty() && resolved.capability.empty()) resolved.capability = environment("FOREBAY_CAP");
  if (resolved.credentials.empty() && resolved.capability.empty())
    resolved.credentials = environment("FOREBAY_CREDENTIALS");
  if (resolved.tls.empty()) resolved.tls = environment("FOREBAY_TLS");
  const bool identified = !resolved.credentials.empty() || !resolved.capability.empty();
  if (!resolved.server.empty() && identified) return resolved;
  Profile saved;
  if (const std::string path = ProfilePath(environment); !path.empty()) {
    Result<Profile> loaded = LoadProfile(path);
    if (loaded.ok()) {
      saved = *std::move(loaded);
    } else if (loaded.status().code() != Code::kNotFound) {
      return loaded.status();
    }
  }
  // Whether there is TLS is a matter of that server, and not of another one.
  if (resolved.tls.empty() && (resolved.server.empty() || resolved.server == saved.server))
    resolved.tls = saved.tls;
  resolved.server = FirstNonEmpty(resolved.server, saved.server, std::string(kDefaultServer));
  if (!identified) resolved.credentials = saved.credentials;
  if (resolved.credentials.empty() && resolved.capability.empty())
    return Status::FailedPrecondition(
        "no credentials: start a server with `forebay serve` as this user, or name its file with "
        "--credentials DIR/credentials or FOREBAY_CREDENTIALS, or a capability with --cap FILE or FOREBAY_CAP");
  return resolved;
}

}  // namespace forebay::app
