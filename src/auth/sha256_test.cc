// SPDX-License-Identifier: Apache-2.0
#include "auth/sha256.h"

#include <gtest/gtest.h>

namespace forebay::auth {
namespace {

// The examples of FIPS 180-4 (NIST, "SHA-256 Example").
TEST(Sha256, AgreesWithTheStandardsExamples) {
  Sha256 abc;
  abc.Update(AsBytes("abc"));
  EXPECT_EQ(abc.FinishHex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  Sha256 two_blocks;
  two_blocks.Update(AsBytes("abcdbcdecdefdefgefghfghi"));
  two_blocks.Update(AsBytes("ghijhijkijkljklmklmnlmnomnopnopq"));
  EXPECT_EQ(two_blocks.FinishHex(), "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256, OfNothing) {
  EXPECT_EQ(Sha256().FinishHex(), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace
}  // namespace forebay::auth
