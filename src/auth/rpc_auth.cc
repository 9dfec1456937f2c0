// SPDX-License-Identifier: Apache-2.0
#include "auth/rpc_auth.h"

#include <array>
#include <charconv>

#include "auth/mac.h"

namespace forebay::auth {

/// The fields as they were sent: tags and signatures cover their text.
struct RpcAuthenticator::Fields {
  std::string_view version;
  std::string_view who;  // a credential's id, or a capability's chain
  std::string_view ms_text;
  std::string_view nonce_text;
  std::string_view proof_text;
  int64_t ms = 0;
  RpcNonce nonce{};
};

namespace {

constexpr std::string_view kByCredential = "v1";
constexpr std::string_view kByCapability = "v2";
constexpr int64_t kMaxSkewMs = std::chrono::milliseconds(kMaxRpcClockSkew).count();

int64_t UnixMs(base::WallTime time) {
  return std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

/// What is signed: "forebay-rpc-v1\nmethod\nms\nnonce".
std::string SignedText(std::string_view version, std::string_view method, std::string_view ms,
                       std::string_view nonce) {
  return fmt::format("forebay-rpc-{}\n{}\n{}\n{}", version, method, ms, nonce);
}

Status Malformed() {
  return Status::Unauthenticated(
      "metadata `{}` is neither `v1 <credential id> <unix ms> <nonce> <tag>` nor "
      "`v2 <capability> <unix ms> <nonce> <signature>`",
      kRpcAuthKey);
}

}  // namespace

std::string SignRpc(const Identity& identity, std::string_view method, base::WallTime now, base::Random& random) {
  RpcNonce nonce;
  random.Fill(nonce);
  const std::string nonce_text = base::ToHex(nonce);
  const std::string ms = std::to_string(UnixMs(now));
  if (const auto* credentials = std::get_if<Credentials>(&identity)) {
    const MessageMac::Tag tag = MessageMac(credentials->secret.view())
                                    .Compute(AsBytes(SignedText(kByCredential, method, ms, nonce_text)));
    return fmt::format("{} {} {} {} {}", kByCredential, credentials->id, ms, nonce_text, base::ToHex(tag));
  }
  if (const auto* held = std::get_if<HeldCapability>(&identity)) {
    const Signature signature = held->Sign(AsBytes(SignedText(kByCapability, method, ms, nonce_text)));
    return fmt::format("{} {} {} {} {}", kByCapability, base::ToHex(held->capability().encoded()), ms, nonce_text,
                       base::ToHex(signature));
  }
  return {};
}

RpcAuthenticator::RpcAuthenticator(CredentialLookup lookup, CapabilityCheck check, const base::Clock& clock,
                                   size_t max_nonces)
    : lookup_(std::move(lookup)),
      check_(std::move(check)),
      clock_(clock),
      nonces_(UnixMs(clock.WallNow()), kMaxSkewMs, max_nonces) {}

Result<RpcAuthenticator::Fields> RpcAuthenticator::Parse(std::string_view text) {
  if (text.size() > kMaxRpcProofBytes) return Malformed();
  std::array<std::string_view, 5> fields;
  for (size_t i = 0; i < fields.size(); ++i) {
    const size_t end = text.find(' ');
    if ((end == std::string_view::npos) != (i + 1 == fields.size())) return Malformed();
    fields[i] = text.substr(0, end);
    text.remove_prefix(std::min(text.size(), fields[i].size() + 1));
  }
  Fields proof{.version = fields[0],
               .who = fields[1],
               .ms_text = fields[2],
               .nonce_text = fields[3],
               .proof_text = fields[4]};
  // 15 digits last for 30,000 years and keep every sum below overflow.
  const std::string_view ms = proof.ms_text;
  if (ms.empty() || ms.size() > 15 || ms.front() == '-') return Malformed();
  const auto [parsed_to, error] = std::from_chars(ms.data(), ms.data() + ms.size(), proof.ms);
  if (error != std::errc() || parsed_to != ms.data() + ms.size()) return Malformed();
  if (!base::FromHex(proof.nonce_text, proof.nonce)) return Malformed();
  return proof;
}

Result<Proven> RpcAuthenticator::Verify(std::string_view method, std::string_view text) {
  FB_ASSIGN(const Fields proof, Parse(text));
  Result<Proven> proven = Malformed();
  if (proof.version == kByCredential) proven = VerifyCredential(method, proof);
  if (proof.version == kByCapability) proven = VerifyCapability(method, proof);
  // From here on the caller holds the secret: it may be told about clocks, and it uses up memory.
  if (proven.ok()) FB_TRY(UseOnce(proof));
  return proven;
}

Result<Proven> RpcAuthenticator::VerifyCredential(std::string_view method, const Fields& proof) const {
  MessageMac::Tag tag;
  if (!IsCredentialId(proof.who) || !base::FromHex(proof.proof_text, tag)) return Malformed();
  std::optional<Credentials> credentials = lookup_(proof.who);
  if (!credentials) {
    return Status::Unauthenticated(
        "this server does not know credential `{}`; use the credentials file of its directory", proof.who);
  }
  const std::string text = SignedText(kByCredential, method, proof.ms_text, proof.nonce_text);
  if (!EqualInConstantTime(MessageMac(credentials->secret.view()).Compute(AsBytes(text)), tag)) {
    return Status::Unauthenticated("the proof for credential `{}` is not made with its secret for {}", proof.who,
                                   method);
  }
  return Proven{.grant = std::make_shared<const Grant>(Grant::Root(credentials->id)),
                .secret = std::move(credentials->secret)};
}

Result<Proven> RpcAuthenticator::VerifyCapability(std::string_view method, const Fields& proof) const {
  Signature signature;
  Bytes chain(proof.who.size() / 2);
  if (!base::FromHex(proof.who, chain) || !base::FromHex(proof.proof_text, signature)) return Malformed();
  const Result<Capability> capability = Capability::Decode(chain);
  if (!capability.ok()) return Status::Unauthenticated("{}", capability.status().message());
  if (check_ == nullptr) return Status::Unauthenticated("this server takes no capabilities");
  FB_ASSIGN(Grant grant, check_(*capability));
  const std::string text = SignedText(kByCapability, method, proof.ms_text, proof.nonce_text);
  if (!IsSignedBy(capability->holder(), AsBytes(text), signature))
    return Status::Unauthenticated("the proof for {} is not made with its holder's key for {}", grant.name, method);
  return Proven{.grant = std::make_shared<const Grant>(std::move(grant)), .holder = capability->holder()};
}

Status RpcAuthenticator::UseOnce(const Fields& proof) {
  const int64_t now_ms = UnixMs(clock_.WallNow());
  if (proof.ms > now_ms + kMaxSkewMs || proof.ms < now_ms - kMaxSkewMs) {
    return Status::Unauthenticated(
        "the caller's clock is {} s {} the server's, at most {} s are allowed; set the clocks",
        std::abs(proof.ms - now_ms) / 1000, proof.ms > now_ms ? "ahead of" : "behind", kMaxSkewMs / 1000);
  }
  switch (nonces_.Use(now_ms, proof.ms, proof.nonce)) {
    case NonceCache::Answer::kFresh:
      return {};
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
