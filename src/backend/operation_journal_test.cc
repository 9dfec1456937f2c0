// SPDX-License-Identifier: Apache-2.0
#include "backend/operation_journal.h"

#include <gtest/gtest.h>

#include "backend/directory_fixture.h"
#include "base/random.h"

namespace forebay::backend {
namespace {

using store::Operation;
using store::OperationKind;

class OperationJournalTest : public testing::Test {
 protected:
  void SetUp() override { Open(); }

  void Open() {
    journal_.reset();
    auto opened = OperationJournal::Open(
        directory_.get(), clock_,
        [this](const JournalEntry& intent) -> Result<bool> {
          asked_.push_back(intent.key);
          return took_place_;
        },
        *log_);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    journal_ = *std::move(opened);
  }
  Operation NewDelete(uint32_t fingerprint = 1) {
    return {.id = OperationId::Generate(journal_->NowMs(), random_),
            .tenant = TenantId::kRoot,
            .kind = OperationKind::kDelete,
            .fingerprint = fingerprint,
            .content = {},
            .asked_ms = journal_->NowMs()};
  }
  static JournalEntry On(const std::string& key) {
    JournalEntry intent;
    intent.bucket = "bucket";
    intent.key = key;
    intent.inode = 1;
    return intent;
  }
  /// Whether the operation has its result.
  bool Knows(Operation operation) {
    operation.asked_ms = journal_->NowMs();
    const auto found = journal_->Begin(operation);
    EXPECT_TRUE(found.ok()) << found.status().ToString();
    return found.ok() && found->has_value();
  }

  OwnDirectory own_;
  Descriptor directory_{::open(own_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  base::FakeClock clock_;
  base::SeededRandom random_{1};
  std::unique_ptr<base::Log> log_ = base::Log::Discard();
  std::unique_ptr<OperationJournal> journal_;
  bool took_place_ = false;
  std::vector<std::string> asked_;
};

TEST_F(OperationJournalTest, WhatIsDoneIsKeptAndWhatIsVoidIsNot) {
  const Operation done = NewDelete();
  const Operation void_one = NewDelete();
  const Operation refused = NewDelete();
  EXPECT_FALSE(Knows(done));
  journal_->Done(*journal_->Intend(done, On("a"), nullptr));
  journal_->Void(*journal_->Intend(void_one, On("b"), nullptr), void_one);
  journal_->Refuse(refused, Status::NotFound("there is none"));
  for (int round = 0; round < 2; ++round) {
    EXPECT_TRUE(Knows(done));
    EXPECT_FALSE(Knows(void_one));
    EXPECT_EQ((*journal_->Begin(refused))->refusal, Status::NotFound("there is none"));
    EXPECT_EQ(journal_->Begin([&] { Operation other = done; other.fingerprint = 2; return other; }()).status().code(),
              Code::kInvalidArgument);
    Open();
  }
  EXPECT_TRUE(asked_.empty());
}

TEST_F(OperationJournalTest, AfterACrashTheFileSystemSaysWhatTookPlace) {
  for (const bool took_place : {false, true}) {
    took_place_ = took_place;
    asked_.clear();
    const Operation earlier = NewDelete();
    const Operation last = NewDelete();
    ASSERT_TRUE(journal_->Intend(earlier, On("key"), nullptr).ok());
    ASSERT_TRUE(journal_->Intend(last, On("key"), nullptr).ok());
    Open();
    EXPECT_EQ(asked_, (std::vector<std::string>{"key"})) << "only the last change of a name is in doubt";
    EXPECT_TRUE(Knows(earlier)) << "the next one came after it";
    EXPECT_EQ(Knows(last), took_place);
  }
}

TEST_F(OperationJournalTest, ATornEndIsCutOffWhereverItIsTorn) {
  const Operation first = NewDelete();
  const Operation second = NewDelete();
  journal_->Done(*journal_->Intend(first, On("a"), nullptr));
  const std::string path = own_.path() + "/journal";
  const std::string before = ReadFile(path);
  journal_->Refuse(second, Status::NotFound("none"));
  const std::string after = ReadFile(path);
  ASSERT_GT(after.size(), before.size());
  for (size_t size = before.size(); size <= after.size(); ++size) {
    journal_.reset();
    WriteFile(path, after.substr(0, size));
    Open();
    EXPECT_TRUE(Knows(first));
    EXPECT_EQ(Knows(second), size == after.size());
  }
}

TEST_F(OperationJournalTest, VersionsOnlyGoUpWhateverTheClockDoes) {
  const uint64_t first = *journal_->NextVersion(0);
  EXPECT_EQ(first, static_cast<uint64_t>((clock_.WallNow() - std::chrono::milliseconds(10)).time_since_epoch().count()));
  EXPECT_GT(*journal_->NextVersion(0), first);
  EXPECT_EQ(*journal_->NextVersion(first + 1'000'000'000'000), first + 1'000'000'000'001);
  clock_.JumpWall(-std::chrono::hours(1000));
  const uint64_t last = *journal_->NextVersion(0);
  EXPECT_EQ(last, first + 1'000'000'000'002);
  const uint64_t time_ms = journal_->NowMs();
  Open();
  EXPECT_GT(*journal_->NextVersion(0), last);
  EXPECT_GE(journal_->NowMs(), time_ms - 1000) << "nor does the operation clock go back";
}

TEST_F(OperationJournalTest, WhatIsOverIsLetGoAndNeverActsAgain) {
  const Operation old = NewDelete();
  journal_->Refuse(old, Status::NotFound("none"));
  clock_.Advance(store::kOperationRetention + std::chrono::seconds(1));
  Operation again = old;
  again.asked_ms = journal_->NowMs();
  ASSERT_TRUE(journal_->Begin(NewDelete()).ok());  // each change lets go of some
  EXPECT_EQ(journal_->Begin(again).status().code(), Code::kFailedPrecondition);
  Open();
  again.asked_ms = old.asked_ms;  // as if the clock had gone back
  EXPECT_EQ(journal_->Begin(again).status().code(), Code::kOk) << "a journal that was not written anew has it still";
}

}  // namespace
}  // namespace forebay::backend
