// SPDX-License-Identifier: Apache-2.0
#include "auth/mac.h"

#include <string>

#include <gtest/gtest.h>

namespace forebay::auth {
namespace {

std::string Hex(ByteView bytes) { return base::ToHex(bytes); }

struct Vector {
  std::string key;
  std::string data;
  std::string tag;
};

// RFC 4231, test cases 1 to 4, 6 and 7.
const Vector kVectors[] = {
    {std::string(20, '\x0b'), "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7"},
    {"Jefe", "what do ya want for nothing?",
     "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
    {std::string(20, '\xaa'), std::string(50, '\xdd'),
     "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe"},
    {"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19",
     std::string(50, '\xcd'), "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b"},
    {std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First",
     "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"},
    {std::string(131, '\xaa'),
     "This is a test using a larger than block-size key and a larger than block-size data. The key needs to "
     "be hashed "
     "before being used by the HMAC algorithm.",
     "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2"},
};

TEST(MessageMac, MatchesRfc4231) {
  for (const Vector& vector : kVectors) {
    EXPECT_EQ(Hex(MessageMac(AsBytes(vector.key)).Compute(AsBytes(vector.data))), vector.tag) << vector.data;
  }
}

TEST(MessageMac, PartsAreOneMessage) {
  const MessageMac mac(AsBytes("Jefe"));
  EXPECT_EQ(Hex(mac.Compute(AsBytes("what do "), ByteView(), AsBytes("ya want "), AsBytes("for nothing?"))),
            kVectors[1].tag);
}

TEST(MessageMac, OneKeyServesManyMessages) {
  const MessageMac mac(AsBytes("Jefe"));
  const MessageMac::Tag other = mac.Compute(AsBytes("another message"));
  EXPECT_NE(Hex(other), kVectors[1].tag);
  EXPECT_EQ(Hex(MessageMac(mac).Compute(AsBytes(kVectors[1].data))), kVectors[1].tag);
}

TEST(MessageMac, VerifiesWholeAndCutTags) {
  const MessageMac mac(AsBytes("key"));
  const MessageMac::Tag tag = mac.Compute(AsBytes("message"));
  EXPECT_TRUE(mac.Verify(tag, AsBytes("mess"), AsBytes("age")));
  EXPECT_TRUE(mac.Verify(ByteView(tag).first(16), AsBytes("message")));
  EXPECT_FALSE(mac.Verify(ByteView(tag).first(15), AsBytes("message")));
  EXPECT_FALSE(mac.Verify(ByteView(), AsBytes("message")));
  EXPECT_FALSE(mac.Verify(ByteView(tag).first(16), AsBytes("messagf")));
}

TEST(MessageMac, RefusesEveryFlippedBit) {
  const MessageMac mac(AsBytes("key"));
  MessageMac::Tag tag = mac.Compute(AsBytes("message"));
  for (size_t bit = 0; bit < tag.size() * 8; ++bit) {
    tag[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_FALSE(mac.Verify(tag, AsBytes("message"))) << bit;
    tag[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

}  // namespace
}  // namespace forebay::auth
