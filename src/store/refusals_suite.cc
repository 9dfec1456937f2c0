// SPDX-License-Identifier: Apache-2.0
// What a backend cannot do it refuses by name, and only that.
#include "store/store_suite.h"

namespace forebay::store {
namespace {

TEST_P(StoreSuite, RefusesByNameWhatItCannotDo) {
  const Context context = MakeContext();
  const auto expect = [](Refusal refusal, const Status& status, std::initializer_list<const char*> words) {
    if (!Refuses(refusal)) {
      EXPECT_TRUE(Is(status, Code::kOk));
      return;
    }
    EXPECT_TRUE(Is(status, Code::kUnimplemented));
    for (const char* const word : words) EXPECT_NE(status.message().find(word), std::string_view::npos) << status.ToString();
  };
  expect(Refusal::kCacheClass, Run(store().CreateBucket(context, {.name = "cache", .bucket_class = BucketClass::kCache})),
         {"cache", "without"});
  expect(Refusal::kVersioning, Run(store().CreateBucket(context, {.name = "versions", .versioning = Versioning::kOn})),
         {"version", "versions"});
  ASSERT_TRUE(Is(Run(store().CreateBucket(context, {.name = "plain"})), Code::kOk));
  expect(Refusal::kVersioning, Run(store().UpdateBucket(context, "plain", {.versioning = Versioning::kOn})),
         {"version", "plain"});
  for (const char* const key : {"part-1", "part-2", "other"}) ASSERT_TRUE(Is(Put(key, key), Code::kOk));
  expect(Refusal::kRenamePrefix, Run(store().RenamePrefix(context, kBucket, "part-", "piece-")).status(),
         {"part-", "piece-", "one by one"});
  const bool renamed = !Refuses(Refusal::kRenamePrefix);
  EXPECT_EQ(Get(renamed ? "piece-1" : "part-1").value_or(""), "part-1") << "all of it or nothing";
  // What was refused left nothing, so the names are free.
  if (Refuses(Refusal::kCacheClass)) EXPECT_TRUE(Is(Run(store().CreateBucket(context, {.name = "cache"})), Code::kOk));
  if (Refuses(Refusal::kVersioning)) EXPECT_TRUE(Is(Run(store().CreateBucket(context, {.name = "versions"})), Code::kOk));
}

}  // namespace
}  // namespace forebay::store
