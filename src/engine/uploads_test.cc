// SPDX-License-Identifier: Apache-2.0
// What uploads cost on the devices, and what fsck says of them. What they do is in the behaviour suite of ObjectStore, what
// a power cut leaves of them in tests/crash.
#include <gtest/gtest.h>

#include "engine/engine_fixture.h"
#include "engine/upload_rows.h"

namespace forebay::engine {
namespace {

using meta::Family;

class UploadsTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(twins_.CreateBucket().ok());
    upload_ = Begin("o");
  }

  store::UploadName Begin(const std::string& key) {
    const store::Context context = twins_.context();
    const auto begun = twins_.Run(twins_.engine().CreateUpload(context, "bucket", key, {}));
    EXPECT_TRUE(begun.ok());
    return {.bucket = "bucket", .key = key, .id = begun->id};
  }
  Result<store::ObjectInfo> Part(uint32_t number, const std::string& content) {
    return twins_.Run([](TwinStore& twins, store::UploadName upload, uint32_t which,
                         std::string bytes) -> rt::Task<Result<store::ObjectInfo>> {
      const store::Context context = twins.context();
      FB_CO_ASSIGN(const std::unique_ptr<store::ObjectWriter> writer,
                   co_await twins.engine().PutPart(context, upload, which, {.size_bytes = bytes.size()}));
      FB_CO_TRY(co_await twins.WriteTask(*writer, bytes));
      co_return co_await writer->Commit(context, std::nullopt);
    }(twins_, upload_, number, content));
  }
  Result<store::ObjectInfo> Complete(std::vector<store::PartRef> parts) {
    const store::Context context = twins_.context();
    return twins_.Run(twins_.engine().CompleteUpload(context, upload_, std::move(parts), {}));
  }
  uint64_t Used() { return twins_.engine().usage().used_bytes; }
  std::string Errors() {
    twins_.Close();
    std::string all;
    for (const std::string& error : twins_.Fsck(true).errors) all += error + "\n";
    return all;
  }
  std::pair<std::string, std::string> FirstRow(std::string_view prefix) {
    return *twins_.media()->First(Family::kSystem, prefix, PrefixEnd(prefix));
  }

  TwinStore twins_{{.arena_bytes = 64 * base::kMiB}};
  store::UploadName upload_;
};

TEST_F(UploadsTest, CompletingMovesNoContent) {
  std::vector<store::PartRef> parts;
  std::string whole;
  for (uint32_t number = 1; number <= 30; ++number) {
    const std::string content = RandomContent(number, (2 << 20) + 1);
    ASSERT_TRUE(Part(number, content).ok());
    parts.push_back({.number = number});
    whole += content;
  }
  const uint64_t used = Used();
  const store::StoreUsage before = twins_.engine().usage();
  ASSERT_TRUE(Complete(parts).ok());
  const store::StoreUsage after = twins_.engine().usage();
  EXPECT_EQ(Used(), used);
  EXPECT_LE(after.device_bytes_written - before.device_bytes_written, 2 * device::kUnit);  // the witness
  EXPECT_EQ(after.device_bytes_read, before.device_bytes_read);
  EXPECT_TRUE(twins_.Get("o").value_or("") == whole);
  EXPECT_EQ(Errors(), "");
}

TEST_F(UploadsTest, APartThatIsSentAgainGivesItsSpaceBack) {
  ASSERT_TRUE(Part(1, RandomContent(1, 8 << 20)).ok());
  ASSERT_TRUE(Part(1, RandomContent(2, 1 << 20)).ok());
  EXPECT_EQ(Used(), 1U << 20);
  ASSERT_TRUE(Part(2, RandomContent(3, 4 << 20)).ok());
  EXPECT_EQ(Used(), 5U << 20);
  ASSERT_TRUE(Complete({{.number = 2}}).ok());
  EXPECT_EQ(Used(), 4U << 20);
  ASSERT_TRUE(twins_.Delete("o").ok());
  EXPECT_EQ(Used(), 0U);
  EXPECT_EQ(Errors(), "");
}

TEST_F(UploadsTest, AnUploadThatIsGivenUpGivesItsSpaceBack) {
  for (uint32_t number = 1; number <= 5; ++number) ASSERT_TRUE(Part(number, RandomContent(number, 3 << 20)).ok());
  EXPECT_EQ(Used(), 15U << 20);
  twins_.Reopen();
  const store::Context context = twins_.context();
  ASSERT_TRUE(twins_.Run(twins_.engine().AbortUpload(context, upload_)).ok());
  EXPECT_EQ(Used(), 0U);
  EXPECT_EQ(Errors(), "");
}

TEST_F(UploadsTest, ALargeObjectOfPartsHasItsMapInSegments) {
  // 23 parts of 3 MiB + 1: the border at 64 MiB is inside of the last but one.
  std::vector<store::PartRef> parts;
  for (uint32_t number = 1; number <= 23; ++number) {
    ASSERT_TRUE(Part(number, RandomContent(number, (3 << 20) + 1)).ok());
    parts.push_back({.number = number});
  }
  const auto done = Complete(parts);
  ASSERT_TRUE(done.ok()) << done.status().ToString();
  EXPECT_EQ(done->size_bytes, 23 * ((3UL << 20) + 1));
  twins_.Reopen();
  const auto got = twins_.Get("o");
  ASSERT_TRUE(got.ok());
  for (uint32_t number = 1; number <= 23; ++number)
    EXPECT_TRUE(got->substr((number - 1) * ((3UL << 20) + 1), (3UL << 20) + 1) == RandomContent(number, (3 << 20) + 1))
        << number;
  EXPECT_EQ(Errors(), "");
}

TEST_F(UploadsTest, TooManyTinyPartsAreNoObject) {
  std::vector<store::PartRef> parts;
  for (uint32_t number = 1; number <= kMaxSegmentPieces + 1; ++number) {
    ASSERT_TRUE(Part(number, "x").ok());
    parts.push_back({.number = number});
  }
  const auto refused = Complete(parts);
  EXPECT_EQ(refused.status().code(), Code::kInvalidArgument);
  EXPECT_NE(refused.status().message().find("too small"), std::string::npos) << refused.status().ToString();
  parts.pop_back();
  ASSERT_TRUE(Complete(parts).ok());
  EXPECT_TRUE(twins_.Get("o").value_or("") == std::string(kMaxSegmentPieces, 'x'));
  EXPECT_EQ(Errors(), "");
}

TEST_F(UploadsTest, FsckFindsWhatIsWrongWithUploads) {
  ASSERT_TRUE(Part(2, RandomContent(1, 100'000)).ok());
  EXPECT_EQ(Errors(), "");
  const auto [part, part_value] = FirstRow(kPartPrefix);
  const auto [upload, upload_value] = FirstRow(kUploadPrefix);
  twins_.media()->Damage(Family::kSystem, upload, std::nullopt);
  const std::string orphan = Errors();
  EXPECT_NE(orphan.find("part 2 of upload"), std::string::npos) << orphan;
  EXPECT_NE(orphan.find("there is no such upload"), std::string::npos) << orphan;
  EXPECT_NE(orphan.find("the account of tenant 1"), std::string::npos) << orphan;
  twins_.media()->Damage(Family::kSystem, upload, upload_value);
  twins_.media()->Damage(Family::kSystem, part, std::nullopt);
  EXPECT_NE(Errors().find("is a leak"), std::string::npos);
  std::string bad = part_value;
  bad[3] = static_cast<char>(bad[3] ^ 1);
  twins_.media()->Damage(Family::kSystem, part, bad);
  EXPECT_NE(Errors().find("the part row"), std::string::npos);
  twins_.media()->Damage(Family::kSystem, part, part_value);
  EXPECT_EQ(Errors(), "");
}

TEST_F(UploadsTest, ADamagedPartRowIsNamedAndNothingIsCompleted) {
  ASSERT_TRUE(Part(1, RandomContent(1, 100'000)).ok());
  twins_.Close();
  const auto [part, value] = FirstRow(kPartPrefix);
  std::string bad = value;
  bad[3] = static_cast<char>(bad[3] ^ 1);
  twins_.media()->Damage(Family::kSystem, part, bad);
  twins_.Reopen();
  const auto done = Complete({{.number = 1}});
  EXPECT_EQ(done.status().code(), Code::kDataLoss);
  EXPECT_NE(done.status().message().find("the part row"), std::string::npos) << done.status().ToString();
  EXPECT_EQ(twins_.Get("o").status().code(), Code::kNotFound);
}

TEST_F(UploadsTest, WhatDoesNotFitLeavesTheUploadAsItWas) {
  ASSERT_TRUE(Part(1, RandomContent(1, 100 << 20)).ok());
  EXPECT_EQ(Part(2, RandomContent(2, 60 << 20)).status().code(), Code::kResourceExhausted);
  EXPECT_EQ(Part(1, RandomContent(3, 60 << 20)).status().code(), Code::kResourceExhausted) << "both need room at once";
  twins_.Turn();  // device writes that were under way end
  EXPECT_EQ(Used(), 100U << 20);
  ASSERT_TRUE(Complete({{.number = 1}}).ok());
  EXPECT_TRUE(twins_.Get("o").value_or("") == RandomContent(1, 100 << 20));
  EXPECT_EQ(Errors(), "");
}

}  // namespace
}  // namespace forebay::engine
