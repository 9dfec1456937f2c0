// SPDX-License-Identifier: Apache-2.0
#include "auth/rpc_auth.h"

#include <array>
#include <charconv>

#include "auth/mac.h"

namespace forebay::auth {

namespace {

constexpr std::string_view kVersion = "v1";
constexpr size_t kMaxProofBytes = 256;
constexpr int64_t kMaxSkewMs = std::chrono::milliseconds(kMaxRpcClockSkew).count();

int64_t UnixMs(base::WallTime time) {
  return std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

MessageMac::Tag TagOf(const Secret& secret, std::string_view method, std::string_view ms,
                      std::string_view nonce) {
  return MessageMac(secret.view())
      .Compute(AsBytes("forebay-rpc-v1\n"), AsBytes(method), AsBytes("\n"), AsBytes(ms), AsBytes("\n"),
               AsBytes(nonce));
}

/// The fields as they were sent: the tag covers their text.
struct Proof {
  std::string_view id;
  std::string_view ms_text;
  std::string_view nonce_text;
  int64_t ms = 0;
  RpcNonce nonce{};
  MessageMac::Tag tag{};
};

bool ParseProof(std::string_view text, Proof* proof) {
  if (text.size() > kMaxProofBytes) return false;
  std::array<std::string_view, 5> fields;
  for (size_t i = 0; i < fields.size(); ++i) {
    const size_t end = text.find(' ');
    if ((end == std::string_view::npos) != (i + 1 == fields.size())) return false;
    fields[i] = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), fields[i].size() + 1));
  }
  proof->id = fields[1];
  proof->ms_text = fields[2];
  proof->nonce_text = fields[3];
  if (fields[0] != kVersion || !IsCredentialId(proof->id)) return false;
  // 15 digits last for 30,000 years and keep every sum below overflow.
  if (proof->ms_text.empty() || proof->ms_text.size() > 15 || proof->ms_text.front() == '-') return false;
  const std::string_view ms = proof->ms_text;
  const auto [parsed_to, error] = std::from_chars(ms.data(), ms.data() + ms.size(), proof->ms);
  if (error != std::errc() || parsed_to != ms.data() + ms.size()) return false;
  return base::FromHex(proof->nonce_text, proof->nonce) && base::FromHex(fields[4], proof->tag);
}

Status Malformed() {
  return Status::Unauthenticated("metadata `{}` is not `v1 <credential id> <unix ms> <nonce> <tag>`",
                                 kRpcAuthKey);
}

}  // namespace

std::string SignRpc(const Credentials& credentials, std::string_view method, base::WallTime now,
                    base::Random& random) {
  RpcNonce nonce;
  random.Fill(nonce);
  const std::string nonce_text = base::ToHex(nonce);
  const std::string ms_text = std::to_string(UnixMs(now));
  const MessageMac::Tag tag = TagOf(credentials.secret, method, ms_text, nonce_text);
  return fmt::format("{} {} {} {} {}", kVersion, credentials.id, ms_text, nonce_text, base::ToHex(tag));
}

RpcAuthenticator::RpcAuthenticator(CredentialLookup lookup, const base::Clock& clock, size_t max_nonces)
    : lookup_(std::move(lookup)), clock_(clock), nonces_(UnixMs(clock.WallNow()), kMaxSkewMs, max_nonces) {}

Result<Credentials> RpcAuthenticator::Verify(std::string_view method, std::string_view text) {
  Proof proof;
  if (!ParseProof(text, &proof)) return Malformed();
  std::optional<Credentials> credentials = lookup_(proof.id);
  if (!credentials) {
    return Status::Unauthenticated(
        "this server does not know credential `{}`; use the credentials file of its directory", proof.id);
  }
  const MessageMac::Tag expected = TagOf(credentials->secret, method, proof.ms_text, proof.nonce_text);
  if (!EqualInConstantTime(expected, proof.tag)) {
    return Status::Unauthenticated("the proof for credential `{}` is not made with its secret for {}",
                                   proof.id, method);
  }
  // From here on the caller holds the secret: it may be told about clocks, and it uses up memory.
  const int64_t now_ms = UnixMs(clock_.WallNow());
  if (proof.ms > now_ms + kMaxSkewMs || proof.ms < now_ms - kMaxSkewMs) {
    return Status::Unauthenticated(
        "the caller's clock is {} s {} the server's, at most {} s are allowed; set the clocks",
        std::abs(proof.ms - now_ms) / 1000, proof.ms > now_ms ? "ahead of" : "behind", kMaxSkewMs / 1000);
  }
  switch (nonces_.Use(now_ms, proof.ms, proof.nonce)) {
    case NonceCache::Answer::kFresh:
      return *std::move(credentials);
    case NonceCache::Answer::kReplay:
      return Status::Unauthenticated("this proof was used before; make a new one for each call");
    case NonceCache::Answer::kTooOld:
      break;
  }
  return Status::Unauthenticated(
      "the proof was made {} ms before the oldest time this server can still check for replays (its start, "
      "or what it saw "
      "before its clock went back); try again, and when it stays so set the clocks and restart the server",
      nonces_.floor_ms() + 1 - proof.ms);
}

}  // namespace forebay::auth
