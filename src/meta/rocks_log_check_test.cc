// SPDX-License-Identifier: Apache-2.0
#include "meta/rocks_log_check.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "meta/rocks_meta_store.h"
#include "meta/temporary_directory.h"
#include "meta/test_transactions.h"
#include "rt/reactor.h"

namespace forebay::meta {
namespace {

constexpr size_t kBlock = 32768;

/// The log that RocksDB writes when `values` are committed one after another.
std::string MakeLog(const std::vector<std::string>& values) {
  const TemporaryDirectory directory;
  {
    const auto reactor = *rt::Reactor::Create();
    const auto store = *RocksMetaStore::Open({.path = directory.path() + "/meta", .create = true}, nullptr);
    for (const std::string& value : values) {
      const Status status =
          reactor->BlockOn(store->Commit(*reactor, PutOne(Family::kInline, "a key", value)));
      EXPECT_TRUE(status.ok()) << status.ToString();
    }
  }
  std::ostringstream log;
  for (const auto& entry : std::filesystem::directory_iterator(directory.path() + "/meta"))
    if (entry.path().extension() == ".log" && entry.file_size() > 0)
      log << std::ifstream(entry.path(), std::ios::binary).rdbuf();
  return std::move(log).str();
}

std::string Noise(size_t size) {
  base::SeededRandom random(size);
  std::string noise(size, '\0');
  for (char& c : noise) c = static_cast<char>(random.Below(256));
  return noise;
}

Status Check(const std::string& log) {
  return CheckLog("7.log", log.size(), [&](uint64_t offset, uint64_t size) -> Result<std::string> {
    EXPECT_LE(offset + size, log.size());
    return log.substr(offset, size);
  });
}

std::string Flip(std::string log, size_t bit) {
  log[bit / 8] = static_cast<char>(log[bit / 8] ^ (1 << bit % 8));
  return log;
}

TEST(LogCheckTest, AWholeLogPasses) {
  EXPECT_TRUE(Check("").ok());
  const std::string log = MakeLog({"short", Noise(3 * kBlock), std::string(5000, '\0'), "the last"});
  ASSERT_GT(log.size(), 3 * kBlock);
  const Status status = Check(log);
  EXPECT_TRUE(status.ok()) << status.ToString();
}

TEST(LogCheckTest, EveryBitOfARecordCounts) {
  for (const std::string& value : {Noise(700), std::string(3000, '\0')}) {
    const std::string log = MakeLog({"before", value});
    for (size_t bit = 0; bit < log.size() * 8; ++bit)
      ASSERT_EQ(Check(Flip(log, bit)).code(), Code::kDataLoss) << "bit " << bit << " of " << log.size() * 8;
  }
}

TEST(LogCheckTest, ABitCountsInEachPieceOfALongRecord) {
  const std::string log = MakeLog({Noise(4 * kBlock)});
  for (size_t bit = 0; bit < log.size() * 8; bit += 1009)
    ASSERT_EQ(Check(Flip(log, bit)).code(), Code::kDataLoss) << "bit " << bit << " of " << log.size() * 8;
}

TEST(LogCheckTest, OverwrittenBytesOfARecordCount) {
  const std::string value = Noise(2000);
  const std::string log = MakeLog({"before", value, "after"});
  const size_t begin = log.find(value);
  ASSERT_NE(begin, std::string::npos);
  for (size_t at = begin; at + 64 <= begin + value.size(); ++at) {
    std::string damaged = log;
    damaged.replace(at, 64, Noise(64));
    ASSERT_EQ(Check(damaged).code(), Code::kDataLoss) << "at " << at;
  }
}

TEST(LogCheckTest, ALogThatWasCutShortPasses) {
  const std::string log = MakeLog({"before", Noise(kBlock), Noise(300)});
  for (size_t size = 0; size < log.size(); ++size) {
    const Status status = Check(log.substr(0, size));
    ASSERT_TRUE(status.ok()) << "at " << size << ": " << status.ToString();
    if (size == 1000) size = log.size() - 1000;
  }
}

TEST(LogCheckTest, SectorsThatWereNeverWrittenPass) {
  const std::string before = MakeLog({"before"});
  for (const size_t size : {size_t{40}, size_t{1500}, 2 * kBlock}) {
    const std::string log = MakeLog({"before", Noise(size)});
    ASSERT_EQ(log.substr(0, before.size()), before);
    base::SeededRandom random(size);
    for (int round = 0; round < 1000; ++round) {
      std::string torn = log;
      for (size_t at = before.size(); at < torn.size(); at = (at / 512 + 1) * 512) {
        const size_t length = std::min((at / 512 + 1) * 512, torn.size()) - at;
        if (random.Below(2) == 0) torn.replace(at, length, std::string(length, '\0'));
      }
      const Status status = Check(torn);
      ASSERT_TRUE(status.ok()) << "round " << round << " of size " << size << ": " << status.ToString();
    }
  }
}

TEST(LogCheckTest, SpaceThatWasSetAsidePasses) {
  EXPECT_TRUE(Check(std::string(100'000, '\0')).ok());
  EXPECT_TRUE(Check(MakeLog({"one"}) + std::string(100'000, '\0')).ok());
}

TEST(LogCheckTest, ARefusalNamesTheLogAndThePlace) {
  const std::string before = MakeLog({"before"});
  const std::string log = MakeLog({"before", "after"});
  const Status status = Check(Flip(log, (before.size() + 20) * 8));
  EXPECT_NE(status.message().find(fmt::format("7.log: the record at byte {} ", before.size())),
            std::string_view::npos)
      << status.ToString();
}

TEST(LogCheckTest, AnyBytesGetAnAnswer) {
  for (size_t size = 1; size < 3 * kBlock; size += 1 + size / 3) (void)Check(Noise(size));
}

}  // namespace
}  // namespace forebay::meta
