// SPDX-License-Identifier: Apache-2.0
#include "auth/capability.h"

#include <algorithm>
#include <utility>

#include "auth/sha256.h"
#include "base/codec.h"
#include "base/limits.h"

namespace forebay::auth {

namespace {

constexpr std::string_view kMagic = "FBCP";
constexpr uint8_t kVersion = 1;
constexpr size_t kHeadBytes = 6;  // magic, version, number of blocks
constexpr std::string_view kSignedPrefix = "forebay capability v1\n";
constexpr std::string_view kTextPrefix = "fbcap1-";
/// Milliseconds since 1970 that a block may name: up to the year 2255, so that no sum of nanoseconds overflows.
constexpr uint64_t kMaxUnixMs = 9'000'000'000'000;

uint64_t UnixMs(base::WallTime time) {
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
  return static_cast<uint64_t>(std::max<int64_t>(ms, 0));
}
base::WallTime FromUnixMs(uint64_t ms) { return base::WallTime(std::chrono::milliseconds(ms)); }

void Encode(const CapabilityBlock& block, std::string* out) {
  base::Encoder encoder(out);
  encoder.Raw(block.id);
  encoder.Raw(block.issuer);
  encoder.Raw(block.holder);
  encoder.U64(static_cast<uint64_t>(block.tenant));
  encoder.U64(block.epoch);
  encoder.U32(block.rights.bits());
  encoder.U64(UnixMs(block.issued));
  encoder.U64(UnixMs(block.expires));
  encoder.U64(block.rates.bytes_per_s);
  encoder.U64(block.rates.operations_per_s);
  encoder.U32(block.rates.transfers);
  encoder.U16(static_cast<uint16_t>(block.bucket.size()));
  encoder.Raw(block.bucket);
  encoder.U16(static_cast<uint16_t>(block.prefix.size()));
  encoder.Raw(block.prefix);
}

std::string_view Text(base::Decoder& in, size_t limit) {
  const uint16_t size = in.U16();
  if (size > limit) in.Fail();
  return in.Raw(in.failed() ? 0 : size);
}

bool Decode(std::string_view body, CapabilityBlock* block) {
  base::Decoder in(body);
  in.Raw(block->id);
  in.Raw(block->issuer);
  in.Raw(block->holder);
  block->tenant = TenantId{in.U64()};
  block->epoch = in.U64();
  const uint32_t rights = in.U32();
  const uint64_t issued = in.U64();
  const uint64_t expires = in.U64();
  block->rates.bytes_per_s = in.U64();
  block->rates.operations_per_s = in.U64();
  block->rates.transfers = in.U32();
  block->bucket = Text(in, base::kMaxBucketNameBytes);
  block->prefix = Text(in, base::kMaxKeyBytes);
  if (!in.Finish("block").ok() || (rights & ~RightSet::kAllBits) != 0 || issued > kMaxUnixMs ||
      expires > kMaxUnixMs)
    return false;
  block->rights = RightSet::FromBits(rights);
  block->issued = FromUnixMs(issued);
  block->expires = FromUnixMs(expires);
  return true;
}

/// The rules that a block keeps by itself.
Status CheckBlock(const CapabilityBlock& block) {
  if (block.tenant == TenantId::kNone || block.tenant == TenantId::kSystem)
    return Status::InvalidArgument("a capability is of a tenant, and {} is none", static_cast<uint64_t>(block.tenant));
  if (block.bucket.empty() && !block.prefix.empty())
    return Status::InvalidArgument("a capability with a prefix names no bucket");
  if (!block.bucket.empty()) FB_TRY(base::CheckBucketName(block.bucket));
  if (block.prefix.size() > base::kMaxKeyBytes || !base::IsUtf8(block.prefix))
    return Status::InvalidArgument("the prefix of a capability is at most {} bytes of UTF-8", base::kMaxKeyBytes);
  if (block.expires <= block.issued)
    return Status::InvalidArgument("a capability expires after it was issued; this one does not");
  if (block.expires - block.issued > kMaxCapabilityLifetime)
    return Status::InvalidArgument("a capability lasts at most {} days", kMaxCapabilityLifetime.count());
  return {};
}

Grant GrantOf(const CapabilityBlock& block) {
  return {.tenant = block.tenant,
          .rights = block.rights,
          .bucket = block.bucket,
          .prefix = block.prefix,
          .rates = block.rates,
          .expires = block.expires,
          .name = "capability " + base::ToHex(block.id)};
}

/// The rules between a block and its parent.
Status CheckWithin(const CapabilityBlock& parent, const CapabilityBlock& child) {
  if (child.issuer != parent.holder)
    return Status::InvalidArgument("a capability was not narrowed by the holder of the one before");
  if (child.tenant != parent.tenant || child.epoch != parent.epoch || child.issued < parent.issued)
    return Status::InvalidArgument("a narrowed capability has another tenant or epoch, or is older than its parent");
  return GrantOf(parent).CheckCovers(GrantOf(child));
}

/// What is signed of a block: its body and, by their digest, all bytes of the chain before it.
std::string SignedText(std::string_view before, std::string_view body) {
  Sha256 digest;
  digest.Update(AsBytes(before));
  std::string text(kSignedPrefix);
  text += digest.FinishHex();
  text += '\n';
  text += body;
  return text;
}

}  // namespace

Result<Capability> Capability::Issue(const CapabilityBlock& block, const Secret& seed) {
  return Issue(block, [&seed](ByteView message) { return auth::Sign(seed, message); });
}

Result<Capability> Capability::Issue(const CapabilityBlock& block,
                                     const std::function<Signature(ByteView)>& sign) {
  Capability made;
  std::string head(kMagic);
  head += static_cast<char>(kVersion);
  head += '\0';  // blocks: counted by Append
  made.encoded_.assign(AsBytes(head).begin(), AsBytes(head).end());
  FB_TRY(made.Append(block, sign));
  return made;
}

Status Capability::Append(const CapabilityBlock& block, const std::function<Signature(ByteView)>& sign) {
  FB_TRY(CheckBlock(block));
  if (!blocks_.empty()) FB_TRY(CheckWithin(blocks_.back(), block));
  std::string body;
  Encode(block, &body);
  if (blocks_.size() == kMaxCapabilityBlocks ||
      encoded_.size() + 2 + body.size() + sizeof(Signature) > kMaxCapabilityBytes)
    return Status::InvalidArgument("a capability is narrowed at most {} times and has at most {} bytes; issue a new one",
                                   kMaxCapabilityBlocks - 1, kMaxCapabilityBytes);
  // The head's count is not signed: Decode compares it, and a chain without its last block is of no use without that holder's
  // key.
  const std::string_view before = AsText(encoded_).substr(kHeadBytes);
  const Signature signature = sign(AsBytes(SignedText(before, body)));
  std::string encoded(AsText(encoded_));
  base::Encoder encoder(&encoded);
  encoder.U16(static_cast<uint16_t>(body.size()));
  ranges_.emplace_back(encoded.size(), body.size());
  encoder.Raw(body);
  encoder.Raw(signature);
  blocks_.push_back(block);
  // What a reader will see: times in whole milliseconds.
  blocks_.back().issued = FromUnixMs(UnixMs(block.issued));
  blocks_.back().expires = FromUnixMs(UnixMs(block.expires));
  encoded[kHeadBytes - 1] = static_cast<char>(blocks_.size());
  encoded_.assign(AsBytes(encoded).begin(), AsBytes(encoded).end());
  return {};
}

Result<Capability> Capability::Decode(ByteView encoded) {
  const Status malformed = Status::InvalidArgument("not a capability of version {}, or a damaged one", kVersion);
  if (encoded.size() > kMaxCapabilityBytes) return malformed;
  base::Decoder in(encoded);
  const std::string_view magic = in.Raw(kMagic.size());
  const uint8_t version = in.U8();
  const uint8_t count = in.U8();
  if (in.failed() || magic != kMagic || version != kVersion || count == 0 || count > kMaxCapabilityBlocks)
    return malformed;
  Capability read;
  read.encoded_.assign(encoded.begin(), encoded.end());
  for (uint8_t i = 0; i < count; ++i) {
    const uint16_t size = in.U16();
    const size_t at = encoded.size() - in.remaining();
    CapabilityBlock block;
    const std::string_view body = in.Raw(size);
    in.Raw(sizeof(Signature));
    if (in.failed() || !auth::Decode(body, &block)) return malformed;
    FB_TRY(CheckBlock(block));
    if (i > 0) FB_TRY(CheckWithin(read.blocks_.back(), block));
    read.ranges_.emplace_back(at, size);
    read.blocks_.push_back(std::move(block));
  }
  if (in.remaining() != 0) return malformed;
  return read;
}

Result<Capability> Capability::Extend(const CapabilityBlock& block, const Secret& seed) const {
  Capability longer = *this;
  FB_TRY(longer.Append(block, [&seed](ByteView message) { return auth::Sign(seed, message); }));
  return longer;
}

Status Capability::CheckSignatures() const {
  const std::string_view all = AsText(encoded_);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    const auto [at, size] = ranges_[i];
    const std::string_view before = all.substr(kHeadBytes, at - 2 - kHeadBytes);
    if (!IsSignedBy(blocks_[i].issuer, AsBytes(SignedText(before, all.substr(at, size))),
                    AsBytes(all.substr(at + size, sizeof(Signature)))))
      return Status::Unauthenticated("a signature of the capability is wrong: it was changed, or forged");
  }
  return {};
}

Grant Capability::ToGrant() const {
  Grant grant = GrantOf(blocks_.back());
  grant.issuer = issuer();
  grant.epoch = blocks_.back().epoch;
  for (size_t i = 0; i < blocks_.size(); ++i) {
    Sha256 digest;
    digest.Update(ByteView(encoded_).first(ranges_[i].first + ranges_[i].second));
    grant.blocks.push_back({.id = blocks_[i].id, .rates = blocks_[i].rates, .digest = digest.FinishHex()});
  }
  return grant;
}

Result<HeldCapability> HeldCapability::Parse(std::string_view text) {
  const Status malformed = Status::InvalidArgument("not a capability as `forebay cap issue` prints it, or a changed one");
  if (text.ends_with('\n')) text.remove_suffix(1);
  if (!text.starts_with(kTextPrefix)) return malformed;
  text.remove_prefix(kTextPrefix.size());
  const size_t size = text.size() / 2;
  if (text.size() % 2 != 0 || size <= Secret::kSize || size > kMaxCapabilityBytes + Secret::kSize ||
      text.find_first_not_of("0123456789abcdef") != std::string_view::npos)
    return malformed;
  Bytes bytes(size - Secret::kSize);
  Secret seed;
  if (!base::FromHex(text.substr(0, bytes.size() * 2), bytes) ||
      !base::FromHex(text.substr(bytes.size() * 2), seed.mutable_view()))
    return malformed;
  Result<Capability> capability = Capability::Decode(bytes);
  if (!capability.ok() || !capability->CheckSignatures().ok() || SigningKeyOf(seed) != capability->holder())
    return malformed;  // whichever rule it is that a changed byte broke
  return HeldCapability(*std::move(capability), std::move(seed));
}

Result<HeldCapability> HeldCapability::Load(const std::string& path) {
  SecretText text;
  FB_TRY(ReadSecretFile("capability file", path, false, &text));
  Result<HeldCapability> held = Parse(text.view());
  if (!held.ok()) return held.status().WithContext("capability file " + path);
  return held;
}

void HeldCapability::AppendTo(SecretText* text) const {
  text->Append(kTextPrefix);
  text->AppendHex(capability_.encoded());
  text->AppendHex(seed_.view());
  text->Append("\n");
}

Result<HeldCapability> HeldCapability::Narrow(const Narrowing& narrowing, base::WallTime now,
                                              base::Random& random) const {
  const CapabilityBlock& parent = capability_.blocks().back();
  Secret seed = Secret::Generate(random);
  CapabilityBlock block = parent;
  random.Fill(block.id);
  block.issuer = parent.holder;
  block.holder = SigningKeyOf(seed);
  block.issued = std::max(now, parent.issued);  // this clock may be behind the server's
  if (narrowing.rights) block.rights = *narrowing.rights;
  if (narrowing.bucket) block.bucket = *narrowing.bucket;
  if (narrowing.prefix) block.prefix = *narrowing.prefix;
  if (narrowing.expires) block.expires = *narrowing.expires;
  block.rates = narrowing.rates.Within(parent.rates);
  FB_ASSIGN(Capability capability, capability_.Extend(block, seed_));
  return HeldCapability(std::move(capability), std::move(seed));
}

}  // namespace forebay::auth
