// SPDX-License-Identifier: Apache-2.0
#include "auth/credentials.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "auth/secret_file.h"

namespace forebay::auth {

namespace {

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
  FB_TRY(ReadSecretFile("credentials file", path, true, &text));
  return Parse(text.view(), path);
}

Status Credentials::Save(const std::string& path, base::Random& random) const {
  SecretText text;
  text.Append(
      "# A credential of Forebay: whoever can read this file can do what it allows. Keep it at mode 0600.\n");
  text.Append(
      fmt::format("version = 1\ntenant = {}\nid = \"{}\"\nsecret = \"", static_cast<uint64_t>(tenant), id));
  text.AppendHex(secret.view());
  text.Append("\"\n");
  const Status saved = WriteSecretFile(path, text, random);
  return saved.WithContext("cannot save credentials");
}

}  // namespace forebay::auth
