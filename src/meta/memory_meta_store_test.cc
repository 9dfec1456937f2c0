// SPDX-License-Identifier: Apache-2.0
#include "meta/memory_meta_store.h"

#include "meta/meta_suite.h"

namespace forebay::meta {
namespace {

class MemoryPlace final : public MetaPlace {
 public:
  Result<std::unique_ptr<MetaStore>> Open(uint64_t witness, GroupHooks* hooks, CommitterOptions options) override {
    FB_ASSIGN(std::unique_ptr<MetaStore> store, MemoryMetaStore::Open(media_, witness, hooks, options));
    return store;
  }

 private:
  const std::shared_ptr<MemoryMedia> media_ = std::make_shared<MemoryMedia>();
};

INSTANTIATE_TEST_SUITE_P(Memory, MetaSuite,
                         ::testing::Values(MetaMaker{"memory", [] { return std::make_unique<MemoryPlace>(); }}),
                         [](const auto& info) { return info.param.name; });

TEST(MemoryMetaStoreTest, ADamagedCommitRowIsNamed) {
  const auto media = std::make_shared<MemoryMedia>();
  media->Damage(Family::kSystem, kCommitKey, "abc");
  EXPECT_EQ(MemoryMetaStore::Open(media, 0, nullptr).status().code(), Code::kDataLoss);
}

TEST(MemoryMetaStoreTest, AScanMayOutliveItsStore) {
  const auto reactor = *rt::Reactor::Create();
  std::unique_ptr<Scan> scan;
  {
    const auto store = *MemoryMetaStore::Open(std::make_shared<MemoryMedia>(), 0, nullptr);
    ASSERT_TRUE(reactor->BlockOn(store->Commit(*reactor, PutOne(Family::kMaps, "k", "v"))).ok());
    scan = store->NewScan(Family::kMaps, "");
  }
  scan->Seek("");
  ASSERT_TRUE(scan->Valid());
  EXPECT_EQ(scan->value(), "v");
}

}  // namespace
}  // namespace forebay::meta
