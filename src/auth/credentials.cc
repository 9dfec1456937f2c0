// SPDX-License-Identifier: Apache-2.0
#include "auth/credentials.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <optional>

namespace forebay::auth {

namespace {

constexpr size_t kMaxFileBytes = 4096;

/// Closes a descriptor; wipes nothing.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  const int fd_;
};

/// Text with a secret in it. Of fixed capacity: a string that grows leaves copies behind.
struct SecretText {
  std::array<char, kMaxFileBytes> chars;
  size_t size = 0;
  std::string_view view() const { return {chars.data(), size}; }
  void Append(std::string_view text) { size += text.copy(chars.data() + size, chars.size() - size); }
  ~SecretText() { Wipe(std::as_writable_bytes(std::span(chars))); }
};

Status ReadAll(const std::string& path, SecretText* text) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (file.get() < 0) {
    if (errno == ELOOP)
      return Status::PermissionDenied("credentials file {} is a symbolic link; name the file itself", path);
    return Status::FromErrno(errno, "open credentials file " + path);
  }
  struct stat info{};
  if (fstat(file.get(), &info) != 0) return Status::FromErrno(errno, "stat credentials file " + path);
  if (!S_ISREG(info.st_mode))
    return Status::InvalidArgument("credentials file {} is not a regular file", path);
  if ((info.st_mode & 077) != 0) {
    return Status::PermissionDenied(
        "credentials file {} is open to other users (mode {:04o}); close it with: chmod 600 {}", path,
        info.st_mode & 07777, path);
  }
  while (text->size < text->chars.size()) {
    const ssize_t count = read(file.get(), text->chars.data() + text->size, text->chars.size() - text->size);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Status::FromErrno(errno, "read credentials file " + path);
    if (count == 0) return Status();
    text->size += static_cast<size_t>(count);
  }
  return Status::InvalidArgument("credentials file {} has {} bytes or more; it is no credentials file", path,
                                 kMaxFileBytes);
}

std::string_view Trim(std::string_view text) {
  const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

std::optional<uint64_t> ParseNumber(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// The inside of "..." without escapes.
std::optional<std::string_view> ParseString(std::string_view text) {
  if (text.size() < 2 || text.front() != '"' || text.back() != '"') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  if (text.find_first_of("\"\\") != std::string_view::npos) return std::nullopt;
  return text;
}

/// The four fields, each at most once. Error texts name fields and never show values: one of them is the
/// secret.
struct Parser {
  std::optional<uint64_t> version;
  std::optional<uint64_t> tenant;
  std::optional<std::string> id;
  std::optional<Secret> secret;

  Status Line(std::string_view line) {
    line = Trim(line);
    if (line.empty() || line.front() == '#') return Status();
    const size_t equals = line.find('=');
    if (equals == std::string_view::npos) return Status::InvalidArgument("expected `name = value`");
    const std::string_view name = Trim(line.substr(0, equals));
    const std::string_view value = Trim(line.substr(equals + 1));
    if (name == "version") return Number("version", value, version);
    if (name == "tenant") return Number("tenant", value, tenant);
    if (name == "id") return Id(value);
    if (name == "secret") return SecretValue(value);
    return Status::InvalidArgument("unknown field; the fields are version, tenant, id and secret");
  }

  static Status Number(std::string_view name, std::string_view text, std::optional<uint64_t>& out) {
    if (out) return Status::InvalidArgument("`{}` is there twice", name);
    out = ParseNumber(text);
    if (!out) return Status::InvalidArgument("`{}` is not a number", name);
    return Status();
  }
  Status Id(std::string_view text) {
    if (id) return Status::InvalidArgument("`id` is there twice");
    const auto value = ParseString(text);
    if (!value || !IsCredentialId(*value)) {
      return Status::InvalidArgument("`id` is not 1 to {} of a-z, 0-9 and - in quotes",
                                     kMaxCredentialIdBytes);
    }
    id = *value;
    return Status();
  }
  Status SecretValue(std::string_view text) {
    if (secret) return Status::InvalidArgument("`secret` is there twice");
    const auto value = ParseString(text);
    Secret parsed;
    if (!value || !base::FromHex(*value, parsed.mutable_view())) {
      return Status::InvalidArgument("`secret` is not 64 hexadecimal digits in quotes");
    }
    secret = std::move(parsed);
    return Status();
  }

  Result<Credentials> Finish() {
    if (!version) return Status::InvalidArgument("`version` is missing");
    if (*version != 1) {
      return Status::InvalidArgument("its version is {}, this program reads version 1: use a newer forebay",
                                     *version);
    }
    if (!tenant || *tenant == 0) return Status::InvalidArgument("`tenant` is missing or 0");
    if (!id) return Status::InvalidArgument("`id` is missing");
    if (!secret) return Status::InvalidArgument("`secret` is missing");
    return Credentials{*id, TenantId{*tenant}, *std::move(secret)};
  }
};

Result<Credentials> Parse(std::string_view text, const std::string& path) {
  Parser parser;
  for (size_t number = 1; !text.empty(); ++number) {
    const size_t end = std::min(text.find('\n'), text.size());
    const Status status = parser.Line(text.substr(0, end));
    if (!status.ok()) return status.WithContext(fmt::format("credentials file {} line {}", path, number));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  Result<Credentials> result = parser.Finish();
  if (!result.ok()) return result.error().WithContext("credentials file " + path);
  return result;
}

/// Hex digits into memory that is wiped; base::ToHex would leave a string behind.
void AppendHex(ByteView bytes, SecretText* text) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (const std::byte byte : bytes) {
    text->Append(kDigits.substr(std::to_integer<size_t>(byte >> 4), 1));
    text->Append(kDigits.substr(std::to_integer<size_t>(byte & std::byte{15}), 1));
  }
}

Status WriteAndSync(const std::string& path, std::string_view text) {
  const Descriptor file(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (file.get() < 0) return Status::FromErrno(errno, "create " + path);
  if (fchmod(file.get(), 0600) != 0)
    return Status::FromErrno(errno, "chmod " + path);  // a umask may have taken more
  while (!text.empty()) {
    const ssize_t count = write(file.get(), text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Status::FromErrno(errno, "write " + path);
    text.remove_prefix(static_cast<size_t>(count));
  }
  if (fsync(file.get()) != 0) return Status::FromErrno(errno, "fsync " + path);
  return Status();
}

Status SyncDirectoryOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string directory = slash == std::string::npos ? "." : path.substr(0, std::max<size_t>(slash, 1));
  const Descriptor file(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (file.get() < 0) return Status::FromErrno(errno, "open directory " + directory);
  if (fsync(file.get()) != 0) return Status::FromErrno(errno, "fsync directory " + directory);
  return Status();
}

}  // namespace

bool IsCredentialId(std::string_view id) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  return !id.empty() && id.size() <= kMaxCredentialIdBytes && std::all_of(id.begin(), id.end(), allowed);
}

Credentials Credentials::Generate(base::Random& random) {
  std::array<std::byte, 4> suffix;
  random.Fill(suffix);
  return {"root-" + base::ToHex(suffix), TenantId::kRoot, Secret::Generate(random)};
}

Result<Credentials> Credentials::Load(const std::string& path) {
  SecretText text;
  FB_TRY(ReadAll(path, &text));
  return Parse(text.view(), path);
}

Status Credentials::Save(const std::string& path, base::Random& random) const {
  SecretText text;
  text.Append(
      "# A credential of Forebay: whoever can read this file can do what it allows. Keep it at mode 0600.\n");
  text.Append(
      fmt::format("version = 1\ntenant = {}\nid = \"{}\"\nsecret = \"", static_cast<uint64_t>(tenant), id));
  AppendHex(secret.view(), &text);
  text.Append("\"\n");

  const std::string temporary = fmt::format("{}.tmp-{:016x}", path, random.Next64());
  Status status = WriteAndSync(temporary, text.view());
  if (status.ok() && rename(temporary.c_str(), path.c_str()) != 0) {
    status = Status::FromErrno(errno, fmt::format("rename {} to {}", temporary, path));
  }
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status.WithContext("cannot save credentials");
  }
  return SyncDirectoryOf(path);
}

}  // namespace forebay::auth
