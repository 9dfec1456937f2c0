// SPDX-License-Identifier: Apache-2.0
#include "auth/mac.h"

// The low-level interface is deprecated, but it is the only one of OpenSSL 3 that restarts from a saved state
// without an allocation and a provider look-up for each message: it is three times as fast on the short
// messages of the data plane.
#define OPENSSL_SUPPRESS_DEPRECATED
#include <openssl/sha.h>

#include "auth/secret.h"

namespace forebay::auth {

namespace {

void Hash(SHA256_CTX* context, ByteView bytes) { SHA256_Update(context, bytes.data(), bytes.size()); }

template <typename State>
void StartWith(State& state, std::array<std::byte, SHA256_CBLOCK> block, std::byte pad) {
  static_assert(sizeof(state.bytes) == sizeof(SHA256_CTX) && alignof(State) >= alignof(SHA256_CTX));
  for (std::byte& byte : block) byte ^= pad;
  SHA256_CTX context;
  SHA256_Init(&context);
  Hash(&context, block);
  std::memcpy(state.bytes.data(), &context, sizeof(context));
  Wipe(block);
  Wipe(std::as_writable_bytes(std::span(&context, 1)));
}

template <typename State>
SHA256_CTX Resume(const State& state) {
  SHA256_CTX context;
  std::memcpy(&context, state.bytes.data(), sizeof(context));
  return context;
}

MessageMac::Tag Finish(SHA256_CTX* context) {
  MessageMac::Tag tag;
  SHA256_Final(reinterpret_cast<unsigned char*>(tag.data()), context);  // wipes the context's block
  return tag;
}

}  // namespace

MessageMac::MessageMac(ByteView key) {
  std::array<std::byte, SHA256_CBLOCK> block{};
  if (key.size() <= block.size()) {
    if (!key.empty()) std::memcpy(block.data(), key.data(), key.size());
  } else {
    SHA256_CTX context;
    SHA256_Init(&context);
    Hash(&context, key);
    const Tag hashed = Finish(&context);
    std::memcpy(block.data(), hashed.data(), hashed.size());
  }
  StartWith(inner_, block, std::byte{0x36});
  StartWith(outer_, block, std::byte{0x5c});
  Wipe(block);
}

MessageMac::~MessageMac() {
  Wipe(inner_.bytes);
  Wipe(outer_.bytes);
}

MessageMac::Tag MessageMac::Compute(std::span<const ByteView> parts) const {
  SHA256_CTX context = Resume(inner_);
  for (ByteView part : parts) Hash(&context, part);
  const Tag inner = Finish(&context);
  context = Resume(outer_);
  Hash(&context, inner);
  return Finish(&context);
}

bool MessageMac::Verify(ByteView tag, std::span<const ByteView> parts) const {
  if (tag.size() < kMinTagSize || tag.size() > kSize) return false;
  const Tag expected = Compute(parts);
  return EqualInConstantTime(tag, ByteView(expected).first(tag.size()));
}

}  // namespace forebay::auth
