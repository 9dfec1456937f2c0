// SPDX-License-Identifier: Apache-2.0
#include "auth/seal.h"

#include <gtest/gtest.h>

namespace forebay::auth {
namespace {

/// 00 01 02 ...: what the vector below was computed for with Go's crypto/cipher and crypto/hmac.
class CountingRandom final : public base::Random {
 public:
  void Fill(MutableByteView out) override {
    for (std::byte& byte : out) byte = static_cast<std::byte>(next_++);
  }

 private:
  uint8_t next_ = 0;
};

TEST(Sealer, GivesTheBytesThatAnotherImplementationGives) {
  CountingRandom random;
  const Secret root = Secret::Generate(random);   // 00 to 1f
  const Secret plain = Secret::Generate(random);  // 20 to 3f
  const Sealer sealer(root, random);
  EXPECT_EQ(base::ToHex(sealer.Seal(plain, "key/FB0")),
            "404142434445464748494a4b384040ee4d6d10f88d24565e1d0e19b8754b7c4cb64577aca65519c1e1712667f69cc27c"
            "32f05fa30fdd252da13a3fe9");
}

class SealerTest : public testing::Test {
 protected:
  base::SecureRandom random_;
  const Secret root_ = Secret::Generate(random_);
  const Secret plain_ = Secret::Generate(random_);
  const Sealer sealer_{root_, random_};
};

TEST_F(SealerTest, OpensWhatItSealed) {
  const Bytes sealed = sealer_.Seal(plain_, "key/A");
  EXPECT_EQ(sealed.size(), Sealer::kSealedBytes);
  EXPECT_TRUE(*sealer_.Open(sealed, "key/A") == plain_);
  EXPECT_NE(sealer_.Seal(plain_, "key/A"), sealed) << "each has a nonce of its own";
  EXPECT_TRUE(*Sealer(root_, random_).Open(sealed, "key/A") == plain_) << "after a restart";
}

TEST_F(SealerTest, RefusesEveryChange) {
  const Bytes sealed = sealer_.Seal(plain_, "key/A");
  for (size_t i = 0; i < sealed.size(); ++i) {
    Bytes bad = sealed;
    bad[i] ^= std::byte{1};
    EXPECT_EQ(sealer_.Open(bad, "key/A").status().code(), Code::kDataLoss) << i;
    EXPECT_EQ(sealer_.Open(ByteView(sealed).first(i), "key/A").status().code(), Code::kDataLoss) << i;
  }
  EXPECT_EQ(sealer_.Open(sealed, "key/B").status().code(), Code::kDataLoss);
  EXPECT_EQ(Sealer(plain_, random_).Open(sealed, "key/A").status().code(), Code::kDataLoss);
}

}  // namespace
}  // namespace forebay::auth
