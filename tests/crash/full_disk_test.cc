// SPDX-License-Identifier: Apache-2.0
// Full disks: the data device and the metadata's file system, which are separate cases. A put is refused with the way out,
// a delete still works, and once there is room everything goes on; nothing that was acknowledged is lost on the way.
#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <vector>

#include "client.h"
#include "lab.h"
#include "oracle.h"
#include "scale.h"

namespace forebay::crash {
namespace {

class FullDiskTest : public testing::Test {
 protected:
  void Make(LabOptions options) {
    options.directory = Lab::ScratchDirectory("full");
    oracle_ = std::make_unique<Oracle>(1);
    lab_ = std::make_unique<Lab>(options);
    ASSERT_TRUE(lab_->Make().ok());
    Open();
  }
  void Open() {
    const Status opened = lab_->Open();
    ASSERT_TRUE(opened.ok()) << opened.ToString();
  }

  Status Put(const std::string& key, uint64_t size) {
    const uint64_t generation = oracle_->BeginPut(key, size);
    store::PutOptions options;
    options.metadata[kGenerationName] = std::to_string(generation);
    bool committing = false;
    const auto info = lab_->Run(PutObject(*lab_, key, oracle_->Content(generation), std::move(options), std::nullopt, &committing));
    if (info.ok()) oracle_->Acknowledged(generation, info->etag);
    if (!info.ok() && (!committing || lab_->engine().health().ok())) oracle_->HadNoEffect(generation);
    return info.status();
  }
  Status Delete(const std::string& key) {
    const store::Context context = lab_->context();
    const uint64_t operation = oracle_->BeginDelete(key);
    const Status status = lab_->Run(lab_->engine().Delete(context, Lab::kBucket, key, {}));
    if (status.ok()) oracle_->Acknowledged(operation);
    if (!status.ok() && lab_->engine().health().ok()) oracle_->HadNoEffect(operation);
    return status;
  }
  void CheckAll(const std::string& when) {
    std::vector<std::string> violations;
    SettleContents(CheckContents(*lab_, *oracle_, 5, violations), *oracle_);
    for (const std::string& violation : violations) ADD_FAILURE() << when << ": " << violation;
  }
  void CloseAndFsck() {
    lab_->Close();
    const Result<engine::FsckReport> report = lab_->Fsck();
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    for (const std::string& error : report->errors) ADD_FAILURE() << "fsck: " << error;
  }

  FileSpace space_;
  std::unique_ptr<Oracle> oracle_;
  std::unique_ptr<Lab> lab_;
};

TEST_F(FullDiskTest, AFullDataDeviceTakesDeletesAndThenPutsThreeTimes) {
  Make({.device_bytes = 4 * base::kMiB});
  for (int round = 0; round < 3; ++round) {
    int stored = 0;
    Status refused;
    for (;; ++stored) {
      refused = Put(fmt::format("{}/{}", round, stored), 100'000);
      if (!refused.ok()) break;
      ASSERT_LT(stored, 31) << "3 MiB hold 30 objects of 25 units";
    }
    EXPECT_EQ(refused.code(), Code::kResourceExhausted) << refused.ToString();
    EXPECT_NE(refused.message().find("delete objects, or add a device"), std::string_view::npos) << refused.ToString();
    EXPECT_TRUE(lab_->engine().health().ok()) << "full is not broken";
    EXPECT_TRUE(Put("a small one needs no block", 500).ok());
    CheckAll("full");
    for (int i = 0; i < stored; i += 2) EXPECT_TRUE(Delete(fmt::format("{}/{}", round, i)).ok());
    EXPECT_TRUE(Put(fmt::format("{}/again", round), 200'000).ok());
    for (int i = 1; i < stored; i += 2) EXPECT_TRUE(Delete(fmt::format("{}/{}", round, i)).ok());
    CheckAll("after the deletes");
    CloseAndFsck();
    Open();
    CheckAll("after a restart");
  }
}

TEST_F(FullDiskTest, WhenTheMetadataHasLittleRoomOnlyWhatFreesSpaceGoesOn) {
  Make({.device_bytes = 4 * base::kMiB, .space = &space_});
  ASSERT_TRUE(Put("a", 5000).ok());
  ASSERT_TRUE(Put("b", 50).ok());
  space_.Set(FileSpace::Room::kLow);
  const auto space = lab_->Run(lab_->engine().GetSpace(lab_->context()));
  ASSERT_TRUE(space.ok()) << space.status().ToString();
  EXPECT_LT(space->metadata.free_bytes, space->metadata.reserve_bytes);
  for (const uint64_t size : {50, 5000}) {
    const Status refused = Put("c", size);
    EXPECT_EQ(refused.code(), Code::kResourceExhausted) << refused.ToString();
    EXPECT_NE(refused.message().find("delete objects, or make room"), std::string_view::npos) << refused.ToString();
  }
  EXPECT_TRUE(Delete("a").ok());
  EXPECT_TRUE(lab_->engine().health().ok());
  space_.Set(FileSpace::Room::kEnough);
  EXPECT_TRUE(Put("c", 5000).ok());
  CheckAll("with room again");
  CloseAndFsck();
}

/// The metadata's file system is full from its nth write on, for every n until all goes well: in the log, in a table, in the
/// manifest, while working and while opening.
TEST_F(FullDiskTest, WhenTheMetadataIsFullNothingThatWasAcknowledgedIsLost) {
  AllowManyStores();
  int refused_puts = 0, refused_openings = 0;
  bool filled = true;
  int64_t n = 0;
  for (; filled && !HasFailure(); n += kSanitized ? 5 : 1) {
    SCOPED_TRACE(fmt::format("full after {} writes", n));
    space_.Set(FileSpace::Room::kEnough);
    Make({.device_bytes = 4 * base::kMiB, .space = &space_});
    ASSERT_TRUE(Put("before", 5000).ok());
    lab_->Close();
    const uint64_t refusals = space_.refusals();
    space_.FillAfter(n);
    Status status = lab_->Open();
    if (!status.ok()) ++refused_openings;
    for (int i = 0; status.ok() && i < 4; ++i) {
      status = i == 2 ? Delete("before") : Put(fmt::format("key-{}", i), 3000);
      if (!status.ok()) ++refused_puts;
    }
    filled = space_.refusals() != refusals;
    if (!status.ok()) {
      EXPECT_EQ(status.code(), Code::kResourceExhausted) << status.ToString();
      EXPECT_NE(status.message().find("meta"), std::string_view::npos) << "which disk? " << status.ToString();
      if (lab_->is_open() && !lab_->engine().health().ok()) {  // a write failed half way: what is on the disk is not known
        const Status next = Delete("key-0");
        EXPECT_EQ(next.code(), Code::kFailedPrecondition) << next.ToString();
        EXPECT_NE(next.message().find("restart"), std::string_view::npos) << next.ToString();
      }
    }
    lab_->Close();
    space_.Set(FileSpace::Room::kEnough);
    Open();
    if (HasFailure()) return;
    CheckAll("with room again");
    EXPECT_TRUE(Put("afterwards", 5000).ok());
    CloseAndFsck();
  }
  std::printf("%lld stores: %d openings and %d operations refused\n", static_cast<long long>(n), refused_openings, refused_puts);
  EXPECT_GT(refused_openings, 0);
  EXPECT_GT(refused_puts, 0);
}

}  // namespace
}  // namespace forebay::crash
