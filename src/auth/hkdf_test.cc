// SPDX-License-Identifier: Apache-2.0
#include "auth/hkdf.h"

#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace forebay::auth {
namespace {

Bytes Counting(int first, int count) {
  Bytes bytes;
  for (int i = 0; i < count; ++i) bytes.push_back(static_cast<std::byte>(first + i));
  return bytes;
}

std::string Derive(ByteView input_key, ByteView salt, ByteView info, size_t size) {
  Bytes out(size);
  HkdfSha256(input_key, salt, info, out);
  return base::ToHex(out);
}

TEST(Hkdf, MatchesRfc5869Case1) {
  EXPECT_EQ(Derive(Bytes(22, std::byte{0x0b}), Counting(0, 13), Counting(0xf0, 10), 42),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
}

TEST(Hkdf, MatchesRfc5869Case2) {
  EXPECT_EQ(Derive(Counting(0, 80), Counting(0x60, 80), Counting(0xb0, 80), 82),
            "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb41c65e590e09"
            "da3275600c2f09b8"
            "367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87");
}

TEST(Hkdf, MatchesRfc5869Case3WithoutSaltAndInfo) {
  EXPECT_EQ(Derive(Bytes(22, std::byte{0x0b}), {}, {}, 42),
            "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8");
}

TEST(Hkdf, TheLongestOutputIsReached) {
  EXPECT_EQ(Derive(AsBytes("key"), {}, {}, kMaxHkdfBytes).size(), 2 * kMaxHkdfBytes);
}

// From Python's hmac module, following docs/security.md.
TEST(SessionKey, IsWhatTheDocumentSays) {
  Secret secret;
  const Bytes counting = Counting(0, 32);
  std::copy(counting.begin(), counting.end(), secret.mutable_view().begin());
  SessionNonce client_nonce;
  client_nonce.fill(std::byte{0x11});
  SessionNonce server_nonce;
  server_nonce.fill(std::byte{0x22});
  const Secret key = SessionKeyOf(secret, client_nonce, server_nonce, 0x0123456789abcdef, TenantId{7});
  EXPECT_EQ(base::ToHex(key.view()), "9a72fc3a51e71a5cb5282cc55f05757c77b3e4e07bb4248a182d58d27ed49f8a");
}

TEST(Secret, IsWipedWhenMovedFrom) {
  base::SeededRandom random(1);
  Secret from = Secret::Generate(random);
  const Secret copy = from;
  const Secret to = std::move(from);
  EXPECT_TRUE(to == copy);
  EXPECT_TRUE(from == Secret());  // NOLINT(bugprone-use-after-move): that is what is tested
  EXPECT_FALSE(to == from);       // NOLINT(bugprone-use-after-move)
}

static_assert(!fmt::is_formattable<Secret>::value, "a secret must not reach a log");

}  // namespace
}  // namespace forebay::auth
