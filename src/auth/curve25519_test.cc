// SPDX-License-Identifier: Apache-2.0
#include "auth/curve25519.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace forebay::auth {
namespace {

template <typename T>
T Hex(std::string_view text) {
  T value;
  EXPECT_TRUE(base::FromHex(text, value));
  return value;
}
Secret SecretOf(std::string_view text) {
  Secret secret;
  EXPECT_TRUE(base::FromHex(text, secret.mutable_view()));
  return secret;
}

// RFC 8032, section 7.1, test 3.
TEST(Ed25519Test, SignsAsTheSpecificationSays) {
  const Secret seed = SecretOf("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7");
  const std::byte message[] = {std::byte{0xaf}, std::byte{0x82}};
  EXPECT_EQ(base::ToHex(SigningKeyOf(seed)),
            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025");
  EXPECT_EQ(base::ToHex(Sign(seed, message)),
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
            "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a");
}

TEST(Ed25519Test, AnyChangedBitOfMessageOrSignatureIsRefused) {
  base::SeededRandom random(1);
  const Secret seed = Secret::Generate(random);
  const PublicKey key = SigningKeyOf(seed);
  Bytes message(40);
  random.Fill(message);
  Signature signature = Sign(seed, message);
  ASSERT_TRUE(IsSignedBy(key, message, signature));
  for (size_t bit = 0; bit < message.size() * 8; ++bit) {
    message[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(IsSignedBy(key, message, signature)) << bit;
    message[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  for (size_t bit = 0; bit < signature.size() * 8; ++bit) {
    signature[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(IsSignedBy(key, message, signature)) << bit;
    signature[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  EXPECT_FALSE(IsSignedBy(key, message, ByteView(signature).first(63)));
}

TEST(Ed25519Test, BytesThatAreNoKeySignNothing) {
  PublicKey none;
  none.fill(std::byte{0xff});
  EXPECT_FALSE(IsSignedBy(none, {}, Signature{}));
}

// RFC 7748, section 6.1.
TEST(X25519Test, AgreesAsTheSpecificationSays) {
  const Secret alice = SecretOf("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a");
  const Secret bob = SecretOf("5dab087e624a8a4b79e17f8b83800ee66f3bb1292618b6fd1c2f8b27ff88e0eb");
  EXPECT_EQ(base::ToHex(KeyShareOf(alice)), "8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
  EXPECT_EQ(base::ToHex(KeyShareOf(bob)), "de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
  const Result<Secret> shared = Agree(alice, KeyShareOf(bob));
  ASSERT_TRUE(shared.ok());
  EXPECT_EQ(base::ToHex(shared->view()), "4a5d9d5ba4ce2de1728e3bf480350f25e07e21c947d19e3376f09b3c1e161742");
  EXPECT_EQ(*Agree(bob, KeyShareOf(alice)), *shared);
}

// RFC 7748, section 6.1: with a point of small order everyone knows the result, zero.
TEST(X25519Test, PointsOfSmallOrderAreRefused) {
  base::SeededRandom random(1);
  const Secret mine = Secret::Generate(random);
  EXPECT_EQ(Agree(mine, PublicKey{}).status().code(), Code::kInvalidArgument);
  PublicKey one{std::byte{1}};
  EXPECT_EQ(Agree(mine, one).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace forebay::auth
