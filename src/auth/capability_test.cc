// SPDX-License-Identifier: Apache-2.0
#include "auth/capability.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "auth/capability_fuzz.h"
#include "auth/revocations.h"

namespace forebay::auth {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

constexpr base::WallTime kNow(std::chrono::milliseconds(1'700'000'000'000));

class CapabilityTest : public ::testing::Test {
 protected:
  CapabilityBlock Block() {
    CapabilityBlock block;
    random_.Fill(block.id);
    block.issuer = SigningKeyOf(server_);
    block.holder = SigningKeyOf(holder_);
    block.tenant = TenantId{7};
    block.epoch = 3;
    block.rights = RightSet::Proven().With(Right::kGet).With(Right::kList);
    block.issued = kNow;
    block.expires = kNow + 1h;
    block.rates = {.bytes_per_s = 1000, .operations_per_s = 0, .transfers = 4};
    block.bucket = "models";
    block.prefix = "llama/";
    return block;
  }
  HeldCapability Held() { return {*Capability::Issue(Block(), server_), holder_}; }
  static std::string TextOf(const HeldCapability& held) {
    SecretText text;
    held.AppendTo(&text);
    return std::string(text.view());
  }

  base::SeededRandom random_{5};
  const Secret server_ = Secret::Generate(random_);
  const Secret holder_ = Secret::Generate(random_);
};

TEST_F(CapabilityTest, SaysWhatWasIssued) {
  const Result<HeldCapability> read = HeldCapability::Parse(TextOf(Held()));
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  const Grant grant = read->capability().ToGrant();
  EXPECT_EQ(grant.tenant, TenantId{7});
  EXPECT_EQ(grant.epoch, 3U);
  EXPECT_EQ(grant.rights.ToString(), "get,list");
  EXPECT_EQ(grant.bucket, "models");
  EXPECT_EQ(grant.prefix, "llama/");
  EXPECT_EQ(grant.expires, kNow + 1h);
  EXPECT_EQ(grant.rates, (RateGrant{.bytes_per_s = 1000, .operations_per_s = 0, .transfers = 4}));
  EXPECT_EQ(grant.issuer, SigningKeyOf(server_));
}

/// The bytes of the ```hex block of the format's page, made by another implementation.
Bytes DocumentedChain() {
  std::ifstream page(FOREBAY_SOURCE_DIR "/docs/formats/capability.md");
  Bytes bytes;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("```")) {
      inside = line == "```hex";
    } else if (inside) {
      std::istringstream words(line.substr(4));
      for (std::string word; words >> word;) bytes.push_back(static_cast<std::byte>(std::stoi(word, nullptr, 16)));
    }
  }
  return bytes;
}

Secret Counting(unsigned from) {
  Secret secret;
  for (size_t i = 0; i < Secret::kSize; ++i) secret.mutable_view()[i] = static_cast<std::byte>(from + i);
  return secret;
}

TEST_F(CapabilityTest, MakesTheDocumentedBytes) {
  CapabilityBlock block = Block();
  for (size_t i = 0; i < block.id.size(); ++i) block.id[i] = static_cast<std::byte>(0x80 + i);
  block.issuer = SigningKeyOf(Counting(0));
  block.holder = SigningKeyOf(Counting(0x20));
  const Capability first = *Capability::Issue(block, Counting(0));
  for (size_t i = 0; i < block.id.size(); ++i) block.id[i] = static_cast<std::byte>(0x90 + i);
  block.issuer = block.holder;
  block.holder = SigningKeyOf(Counting(0x40));
  block.rights = RightSet::Proven().With(Right::kGet);
  block.prefix = "llama/7b/";
  block.issued = kNow + 1s;
  block.expires = kNow + 61s;
  const Capability second = *first.Extend(block, Counting(0x20));
  EXPECT_EQ(base::ToHex(second.encoded()), base::ToHex(DocumentedChain()));
  const Result<Capability> read = Capability::Decode(DocumentedChain());
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_TRUE(read->CheckSignatures().ok());
}

TEST_F(CapabilityTest, AnyOtherByteInItsTextIsRefused) {
  const HeldCapability parent = Held();
  for (const HeldCapability& held : {parent, *parent.Narrow({.expires = kNow + 1min}, kNow, random_)}) {
    const std::string text = TextOf(held);
    ASSERT_TRUE(HeldCapability::Parse(text).ok());
    for (size_t i = 0; i < text.size(); ++i) {
      for (const char other : {'0', 'f', 'A', ' ', '\n', '\0', static_cast<char>(text[i] ^ 1), static_cast<char>(text[i] ^ 0x20)}) {
        if (other == text[i]) continue;
        std::string changed = text;
        changed[i] = other;
        EXPECT_FALSE(HeldCapability::Parse(changed).ok()) << i << " " << static_cast<int>(other);
      }
    }
    for (size_t size = 0; size + 1 < text.size(); ++size)  // without the newline it is whole
      EXPECT_FALSE(HeldCapability::Parse(text.substr(0, size)).ok()) << size;
    EXPECT_FALSE(HeldCapability::Parse(text + "0").ok());
  }
}

// What a server sees: no change of the chain passes Decode and CheckSignatures.
TEST_F(CapabilityTest, AnyChangedBitOfTheChainIsRefused) {
  const HeldCapability held = *Held().Narrow({.prefix = "llama/7b/"}, kNow, random_);
  Bytes chain(held.capability().encoded().begin(), held.capability().encoded().end());
  for (size_t bit = 0; bit < chain.size() * 8; ++bit) {
    chain[bit / 8] ^= std::byte{1} << (bit % 8);
    const Result<Capability> read = Capability::Decode(chain);
    EXPECT_FALSE(read.ok() && read->CheckSignatures().ok()) << bit;
    chain[bit / 8] ^= std::byte{1} << (bit % 8);
  }
}

TEST_F(CapabilityTest, ACutChainIsOfNoUseToTheHolderOfTheLongOne) {
  const HeldCapability parent = Held();
  const HeldCapability child = *parent.Narrow({.prefix = "llama/7b/"}, kNow, random_);
  // The parent's chain is a prefix of the child's, but for the count.
  Bytes cut(child.capability().encoded().begin(), child.capability().encoded().end());
  cut.resize(parent.capability().encoded().size());
  cut[5] = std::byte{1};
  const Result<Capability> read = Capability::Decode(cut);
  ASSERT_TRUE(read.ok() && read->CheckSignatures().ok());
  EXPECT_NE(read->holder(), child.capability().holder()) << "what the child's key signs proves nothing for it";
}

TEST_F(CapabilityTest, BlocksOfTwoChainsCannotBeMixed) {
  const HeldCapability first = Held();
  const HeldCapability second = Held();  // same holder key, another id
  const HeldCapability child = *first.Narrow({.expires = kNow + 1min}, kNow, random_);
  Bytes mixed(second.capability().encoded().begin(), second.capability().encoded().end());
  const ByteView last = child.capability().encoded().subspan(first.capability().encoded().size());
  mixed.insert(mixed.end(), last.begin(), last.end());
  mixed[5] = std::byte{2};
  const Result<Capability> read = Capability::Decode(mixed);
  ASSERT_TRUE(read.ok()) << "each block is within the one before";
  EXPECT_EQ(read->CheckSignatures().code(), Code::kUnauthenticated);
}

TEST_F(CapabilityTest, RulesOfABlock) {
  const auto refused = [&](const std::function<void(CapabilityBlock&)>& change, const std::string& says) {
    CapabilityBlock block = Block();
    change(block);
    const Result<Capability> made = Capability::Issue(block, server_);
    ASSERT_EQ(made.status().code(), Code::kInvalidArgument) << says;
    EXPECT_THAT(std::string(made.status().message()), HasSubstr(says));
  };
  refused([](CapabilityBlock& block) { block.tenant = TenantId::kNone; }, "tenant");
  refused([](CapabilityBlock& block) { block.tenant = TenantId::kSystem; }, "tenant");
  refused([](CapabilityBlock& block) { block.bucket = ""; }, "no bucket");
  refused([](CapabilityBlock& block) { block.bucket = "No Bucket"; }, "No Bucket");
  refused([](CapabilityBlock& block) { block.prefix = std::string(1025, 'a'); }, "prefix");
  refused([](CapabilityBlock& block) { block.prefix = "\xff"; }, "UTF-8");
  refused([](CapabilityBlock& block) { block.expires = block.issued; }, "expires after");
  refused([](CapabilityBlock& block) { block.expires = block.issued + 91 * 24h; }, "90 days");
}

TEST_F(CapabilityTest, RatesAreOnlyLowered) {
  // Of Held: 1000 bytes a second, any number of operations, 4 transfers.
  const HeldCapability child =
      *Held().Narrow({.rates = {.operations_per_s = 10, .transfers = 3}}, kNow, random_);
  EXPECT_EQ(child.capability().ToGrant().rates,
            (RateGrant{.bytes_per_s = 1000, .operations_per_s = 10, .transfers = 3}));
  for (const RateGrant& more :
       {RateGrant{.bytes_per_s = 1001}, RateGrant{.operations_per_s = 11}, RateGrant{.transfers = 4}}) {
    const Status status = child.Narrow({.rates = more}, kNow, random_).status();
    EXPECT_EQ(status.code(), Code::kPermissionDenied) << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr("rates"));
  }
}

TEST_F(CapabilityTest, IsNarrowedSevenTimesAtMost) {
  HeldCapability held = Held();
  for (int i = 0; i < 7; ++i) held = *held.Narrow({.prefix = "llama/" + std::string(i, 'x')}, kNow, random_);
  EXPECT_TRUE(held.capability().CheckSignatures().ok());
  const Status status = held.Narrow({}, kNow, random_).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("issue a new one"));
}

TEST_F(CapabilityTest, HostileBytesAreRefused) {
  base::SeededRandom random(9);
  const HeldCapability held = *Held().Narrow({}, kNow, random_);
  const ByteView whole = held.capability().encoded();
  for (size_t size = 0; size < whole.size(); ++size) EXPECT_FALSE(Capability::Decode(whole.first(size)).ok());
  for (int i = 0; i < 5000; ++i) {
    Bytes bytes(whole.begin(), whole.end());
    for (uint64_t changes = 1 + random.Next64() % 8; changes > 0; --changes)
      bytes[random.Next64() % bytes.size()] = static_cast<std::byte>(random.Next64());
    FuzzCapability(bytes);
    const Result<Capability> read = Capability::Decode(bytes);  // reads no byte outside: asan watches
    if (read.ok() && bytes != Bytes(whole.begin(), whole.end())) {
      EXPECT_FALSE(read->CheckSignatures().ok());
    }
  }
}

// ---- a child can only narrow ----

/// The rules of narrowing, said a second time and in another way: a child allows nothing that its parent does not.
bool MayDo(const CapabilityBlock& block, Right right, const std::string& bucket, const std::string& key,
           base::WallTime at) {
  return block.rights.Has(right) && at < block.expires && (block.bucket.empty() || block.bucket == bucket) &&
         key.compare(0, block.prefix.size(), block.prefix) == 0;
}

TEST_F(CapabilityTest, AChildAllowsNothingThatItsParentDoesNot) {
  const char* const seed_text = std::getenv("FOREBAY_SEED");
  const uint64_t seed = seed_text != nullptr ? std::strtoull(seed_text, nullptr, 10) : 20261130;
  SCOPED_TRACE("FOREBAY_SEED=" + std::to_string(seed));
  base::SeededRandom random(seed);
  const std::vector<std::string> buckets = {"", "one", "two"};
  const std::vector<std::string> prefixes = {"", "a", "a/", "a/b", "b", "ab"};
  const std::vector<std::string> keys = {"a", "a/", "a/x", "a/b/c", "b", "b/x", "ab", "abc", "c"};
  const auto pick = [&](const auto& from) { return from[random.Next64() % from.size()]; };
  int made = 0;
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    CapabilityBlock block = Block();
    block.rights = RightSet::FromBits(random.Next64() % 32);
    block.bucket = pick(buckets);
    block.prefix = block.bucket.empty() ? "" : pick(prefixes);
    block.expires = kNow + std::chrono::minutes(1 + random.Next64() % 4);
    const HeldCapability parent(*Capability::Issue(block, server_), holder_);
    Narrowing narrowing;
    narrowing.rights = RightSet::FromBits(random.Next64() % 32 & (random.Next64() % 2 == 0 ? block.rights.bits() : 31U));
    narrowing.bucket = random.Next64() % 2 == 0 ? block.bucket : pick(buckets);
    narrowing.prefix = narrowing.bucket->empty() ? "" : pick(prefixes);
    narrowing.expires = kNow + std::chrono::minutes(1 + random.Next64() % 4);
    const Result<HeldCapability> child = parent.Narrow(narrowing, kNow, random_);
    bool more = false;  // does what was asked for allow anything that the parent does not?
    CapabilityBlock asked = block;
    asked.rights = *narrowing.rights;
    asked.bucket = *narrowing.bucket;
    asked.prefix = *narrowing.prefix;
    asked.expires = *narrowing.expires;
    for (const Right right : {Right::kGet, Right::kPut, Right::kList, Right::kDelete, Right::kAdmin}) {
      for (const std::string& key : keys) {
        for (int minute = 0; minute < 5; ++minute) {
          for (const std::string& bucket : {std::string("one"), std::string("two"), std::string("three")}) {
            const base::WallTime at = kNow + std::chrono::minutes(minute);
            more = more || (MayDo(asked, right, bucket, key, at) && !MayDo(block, right, bucket, key, at));
          }
        }
      }
    }
    if (child.ok()) {
      ++made;
      EXPECT_FALSE(more) << "a child got more than its parent";
      EXPECT_TRUE(child->capability().CheckSignatures().ok());
    } else {
      ++refused;
      EXPECT_EQ(child.status().code(), Code::kPermissionDenied) << child.status().ToString();
    }
  }
  EXPECT_GT(made, 100);
  EXPECT_GT(refused, 100);
}

// ---- what a server asks ----

class CheckCapabilityTest : public CapabilityTest {
 protected:
  CheckCapabilityTest() {
    path_ = ::testing::TempDir() + "/key-ring-" + std::to_string(random_.Next64()) + "-" + std::to_string(getpid());
    Result<std::unique_ptr<KeyRing>> ring = KeyRing::Open(path_, clock_, random_);
    EXPECT_TRUE(ring.ok()) << ring.status().ToString();
    ring_ = *std::move(ring);
  }
  ~CheckCapabilityTest() override { std::remove(path_.c_str()); }

  HeldCapability Issued() {
    CapabilityBlock block = Block();
    block.epoch = 0;
    block.issuer = ring_->current();
    return {*Capability::Issue(block, [this](ByteView text) { return *ring_->SignWith(ring_->current(), text); }), holder_};
  }
  Status Check(const HeldCapability& held, base::WallTime now = kNow) {
    return CheckCapability(held.capability(), *ring_, revocations_, now).status();
  }

  base::FakeClock clock_;  // stands at kNow, within a second
  std::string path_;
  std::unique_ptr<KeyRing> ring_;
  Revocations revocations_;
};

TEST_F(CheckCapabilityTest, TimeIsKeptToTheMillisecond) {
  const HeldCapability held = Issued();
  EXPECT_TRUE(Check(held).ok());
  EXPECT_TRUE(Check(held, kNow + 1h - 1ms).ok());
  EXPECT_THAT(std::string(Check(held, kNow + 1h).message()), HasSubstr("expired"));
  EXPECT_TRUE(Check(held, kNow - 5min).ok()) << "clocks of a cluster differ";
  EXPECT_THAT(std::string(Check(held, kNow - 5min - 1ms).message()), HasSubstr("future"));
}

TEST_F(CheckCapabilityTest, AStrangersSignatureIsRefused) {
  EXPECT_EQ(Check(Held()).code(), Code::kUnauthenticated);
}

TEST_F(CheckCapabilityTest, RevokingOneRevokesWhatWasNarrowedFromIt) {
  const HeldCapability parent = Issued();
  const HeldCapability child = *parent.Narrow({}, kNow, random_);
  const HeldCapability sibling = *parent.Narrow({}, kNow, random_);
  ASSERT_TRUE(revocations_.Revoke(TenantId{7}, child.capability().blocks()[1].id, kNow + 1h).ok());
  EXPECT_TRUE(Check(parent).ok());
  EXPECT_TRUE(Check(sibling).ok());
  EXPECT_EQ(Check(child).code(), Code::kUnauthenticated);
  ASSERT_TRUE(revocations_.Revoke(TenantId{7}, parent.capability().blocks()[0].id, kNow + 1h).ok());
  EXPECT_EQ(Check(sibling).code(), Code::kUnauthenticated);
}

TEST_F(CheckCapabilityTest, ATenantRevokesItsOwnOnlyAndTheRootTenantAll) {
  const HeldCapability held = Issued();
  const CapabilityId id = held.capability().blocks()[0].id;
  ASSERT_TRUE(revocations_.Revoke(TenantId{8}, id, kNow + 1h).ok());
  EXPECT_TRUE(Check(held).ok());
  ASSERT_TRUE(revocations_.Revoke(TenantId::kRoot, id, kNow + 1h).ok());
  EXPECT_EQ(Check(held).code(), Code::kUnauthenticated);
}

TEST_F(CheckCapabilityTest, ATenantCannotUseUpTheRoomOfOthers) {
  const auto revoke = [&](TenantId tenant) {
    CapabilityId id;
    random_.Fill(id);
    return revocations_.Revoke(tenant, id, kNow + 1h);
  };
  for (size_t i = 0; i < kMaxRevocationsOfTenant; ++i) ASSERT_TRUE(revoke(TenantId{7}).ok());
  EXPECT_EQ(revoke(TenantId{7}).code(), Code::kResourceExhausted);
  EXPECT_TRUE(revoke(TenantId{8}).ok());
  EXPECT_TRUE(revoke(TenantId::kRoot).ok());
}

TEST_F(CheckCapabilityTest, AnotherEpochRevokesAllOfATenant) {
  const HeldCapability held = Issued();
  revocations_.SetEpoch(TenantId{8}, 1);
  EXPECT_TRUE(Check(held).ok());
  revocations_.SetEpoch(TenantId{7}, 1);
  EXPECT_EQ(Check(held).code(), Code::kUnauthenticated);
}

TEST_F(CheckCapabilityTest, ARotatedKeyIsGoodForWhatItSigned) {
  const HeldCapability before = Issued();
  ASSERT_TRUE(ring_->Rotate(false).ok());
  EXPECT_TRUE(Check(before).ok());
  const HeldCapability after = Issued();
  EXPECT_NE(after.capability().issuer(), before.capability().issuer());
  EXPECT_TRUE(Check(after).ok());
  ASSERT_TRUE(ring_->Rotate(true).ok());
  EXPECT_EQ(Check(after).code(), Code::kUnauthenticated);
  EXPECT_EQ(ring_->size(), 1U);
}

TEST_F(CheckCapabilityTest, KeysOutliveAProcessAndGoWhenNothingNeedsThem) {
  const HeldCapability held = Issued();
  ASSERT_TRUE(ring_->Rotate(false).ok());
  ring_ = *KeyRing::Open(path_, clock_, random_);
  EXPECT_TRUE(Check(held).ok());
  clock_.Advance(kMaxCapabilityLifetime + 1s);
  ASSERT_TRUE(ring_->Rotate(false).ok());
  EXPECT_EQ(ring_->size(), 2U);
  EXPECT_EQ(Check(held).code(), Code::kUnauthenticated);
}

TEST_F(CheckCapabilityTest, RotationsAreBounded) {
  for (size_t i = 1; i < kMaxSigningKeys; ++i) ASSERT_TRUE(ring_->Rotate(false).ok());
  EXPECT_EQ(ring_->Rotate(false).code(), Code::kResourceExhausted);
  EXPECT_TRUE(ring_->Rotate(true).ok());
}

TEST_F(CheckCapabilityTest, ADamagedKeyFileIsRefusedByLine) {
  FILE* file = std::fopen(path_.c_str(), "a");
  std::fputs("key = \"12 zz\"\n", file);
  std::fclose(file);
  const Status status = KeyRing::Open(path_, clock_, random_).status();
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("line 4"));
}

}  // namespace
}  // namespace forebay::auth
