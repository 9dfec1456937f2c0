// SPDX-License-Identifier: Apache-2.0
// One damage at a time, in the data blocks, the heads of the device, and every file that RocksDB wrote. Allowed: the store
// refuses to open or an object to be read, with an error that names it; or everything is right. Never: an object is missing
// without an error, or has other bytes.
// FOREBAY_SEED chooses the sample; FOREBAY_EXHAUSTIVE=1 takes every byte of the metadata.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "client.h"
#include "device/aligned_bytes.h"
#include "engine/superblock.h"
#include "inspector.h"
#include "lab.h"
#include "oracle.h"
#include "scale.h"

namespace forebay::crash {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kUnit = device::kUnit;

std::string ReadFile(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return std::move(out).str();
}

LabOptions SmallLab(std::string directory) {
  return {.directory = std::move(directory), .device_bytes = 4 * base::kMiB, .tier_bytes = 0};
}

/// A small store with every kind of object, tables and a log, closed, and what must be in it.
class DamageTest : public testing::Test {
 protected:
  void SetUp() override {
    seed_ = FromEnvironment("FOREBAY_SEED", 1);
    std::printf("FOREBAY_SEED=%llu\n", static_cast<unsigned long long>(seed_));
    const Status made = lab_.Make();
    ASSERT_TRUE(made.ok()) << made.ToString();
    // Twice the same sizes in the same places: so that there is old content to come back.
    Populate("early", 8);
    Reopen();  // moves what is in the log to tables
    if (HasFatalFailure()) return;
    old_ = lab_.disk().image();
    for (const auto& [key, operations] : oracle_.keys()) Delete(key);
    Reopen();
    Populate("early", 6);
    Reopen();
    Populate("late", 4);
    lab_.Close();
    image_ = lab_.Save();
    ASSERT_NO_FATAL_FAILURE(RestoreAndOpen());
    std::vector<std::string> violations;
    CheckContents(lab_, oracle_, 1000, violations);
    ASSERT_TRUE(violations.empty()) << violations.front();
  }

  void RestoreAndOpen() {
    lab_.Restore(image_);
    const Status opened = lab_.Open();
    ASSERT_TRUE(opened.ok()) << opened.ToString();
  }
  void Reopen() {
    lab_.Close();
    const Status opened = lab_.Open();
    ASSERT_TRUE(opened.ok()) << opened.ToString();
  }
  void Populate(const std::string& group, size_t count) {
    static constexpr uint64_t kSizes[] = {300'000, 1, 65'537, 4096, 0, 20'000, 1024, 4097};
    if (!lab_.is_open()) {
      ASSERT_TRUE(lab_.Open().ok());
    }
    for (size_t i = 0; i < count; ++i) {
      const std::string key = fmt::format("{}/{}", group, i);
      const uint64_t generation = oracle_.BeginPut(key, kSizes[i]);
      store::PutOptions options;
      options.metadata[kGenerationName] = std::to_string(generation);
      const auto info = lab_.Run(PutObject(lab_, key, oracle_.Content(generation), std::move(options)));
      ASSERT_TRUE(info.ok()) << info.status().ToString();
      oracle_.Acknowledged(generation, info->etag);
    }
  }
  void Delete(const std::string& key) {
    const store::Context context = lab_.context();
    const uint64_t operation = oracle_.BeginDelete(key);
    ASSERT_TRUE(lab_.Run(lab_.engine().Delete(context, Lab::kBucket, key, {})).ok());
    oracle_.Acknowledged(operation);
  }

  /// Calls `try_one(lab, inspector, index)` for each index below `count`, in several labs of their own: RocksDB sleeps a second
  /// where its background work meets damage, and openings wait for many threads.
  template <typename TryOne>
  Counts SideBySide(size_t count, TryOne try_one) {
    constexpr size_t kThreads = 6;
    AllowManyStores();
    std::atomic<size_t> next{0};
    base::Mutex mutex;
    Counts counts;
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        Lab lab(SmallLab(Lab::ScratchDirectory("copy")));
        Inspector inspector(lab, oracle_);
        for (size_t index = next++; index < count && !HasFailure(); index = next++) try_one(lab, inspector, index);
        base::MutexLock lock(mutex);
        counts.Add(inspector.counts);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return counts;
  }

  uint64_t seed_ = 1;
  base::SeededRandom random_{FromEnvironment("FOREBAY_SEED", 1)};
  Lab lab_{SmallLab(Lab::ScratchDirectory("damage"))};
  Oracle oracle_{1};
  Lab::Image image_;
  Bytes old_;  // of the device, before everything was replaced
  Inspector inspector_{lab_, oracle_};
};

// ---- data blocks ----

/// Where each unit of content lies. Found by looking for the content itself, not by asking the engine.
class BlockDamageTest : public DamageTest {
 protected:
  struct Unit {
    std::string key;
    uint64_t in_object = 0;
    uint64_t on_device = 0;
    uint64_t content = 0;  // bytes of the unit that are content; the rest is padding
  };

  void SetUp() override {
    DamageTest::SetUp();
    if (HasFatalFailure()) return;
    constexpr size_t kMark = 16;
    const Bytes& disk = image_.disks[0];
    std::map<std::string, uint64_t> places;
    for (uint64_t at = engine::kDataStart; at < disk.size(); at += kUnit)
      places.emplace(AsText(ByteView(disk).subspan(at, kMark)), at);
    for (const auto& [key, operations] : oracle_.keys()) {
      const Value generation = oracle_.Certain(key);
      if (!generation) continue;
      const std::string content = oracle_.Content(*generation);
      if (content.size() <= 1024) continue;  // in the metadata
      for (uint64_t at = 0; at < content.size(); at += kUnit) {
        Unit unit{.key = key, .in_object = at, .on_device = 0, .content = std::min<uint64_t>(kUnit, content.size() - at)};
        if (unit.content < kMark) {
          unit.on_device = units_.back().on_device + kUnit;
        } else {
          const auto found = places.find(content.substr(at, kMark));
          ASSERT_NE(found, places.end()) << key << " at " << at;
          unit.on_device = found->second;
        }
        units_.push_back(unit);
      }
    }
    ASSERT_GT(units_.size(), 150U);
  }

  /// Writes `bytes` (one unit) below the engine, looks, and puts the right ones back.
  /// `also`: another object that is damaged at this time.
  void Replace(const Unit& unit, ByteView bytes, const std::string& what, const std::string& also = {}) {
    const ByteView right = ByteView(image_.disks[0]).subspan(unit.on_device, kUnit);
    const bool harmless = std::equal(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(unit.content), right.begin());
    Write(unit.on_device, bytes);
    Look(unit, harmless, what, also);
    Write(unit.on_device, right);
  }
  void Look(const Unit& unit, bool harmless, const std::string& what, const std::string& also = {}) {
    const std::string text = fmt::format("{} {} of {}", what, unit.in_object, unit.key);
    EXPECT_EQ(inspector_.IsRight(unit.key, text), harmless) << text;
    ++(harmless ? inspector_.counts.intact : inspector_.counts.failed);
    // What else there is goes on being right.
    const Unit& other = units_[random_.Below(units_.size())];
    if (other.key != unit.key && other.key != also) EXPECT_TRUE(inspector_.IsRight(other.key, text));
  }
  void Write(uint64_t offset, ByteView bytes) {
    device::AlignedBytes aligned(bytes.size());
    std::ranges::copy(bytes, aligned.data());
    const ByteView view = aligned.view();
    ASSERT_TRUE(lab_.Run(lab_.disk().Write(lab_.reactor(), offset, {&view, 1})).ok());
    ASSERT_TRUE(lab_.Run(lab_.disk().Flush(lab_.reactor())).ok());
  }

  std::vector<Unit> units_;
};

TEST_F(BlockDamageTest, ABit) {
  for (const Unit& unit : units_) {
    for (uint64_t i = 0; i < Scaled(12); ++i) {
      const uint64_t at = random_.Below(kUnit);
      const auto bit = static_cast<unsigned>(random_.Below(8));
      lab_.disk().FlipBit(unit.on_device + at, bit);
      Look(unit, at >= unit.content, "a bit in");
      lab_.disk().FlipBit(unit.on_device + at, bit);
      if (HasFailure()) return;
    }
  }
  inspector_.counts.Report("a bit");
  EXPECT_TRUE(inspector_.ListingIsRight("bits"));
}

TEST_F(BlockDamageTest, Zeros) {
  const Bytes zeros(kUnit);
  for (const Unit& unit : units_) Replace(unit, zeros, "zeros in");
  inspector_.counts.Report("zeros");
}

TEST_F(BlockDamageTest, OldContent) {
  size_t stale = 0;
  for (const Unit& unit : units_) {
    const ByteView old = ByteView(old_).subspan(unit.on_device, kUnit);
    if (std::ranges::all_of(old, [](std::byte b) { return b == std::byte{0}; })) continue;
    ++stale;
    Replace(unit, old, "old content in");
  }
  inspector_.counts.Report("old content");
  EXPECT_GT(stale, 50U) << "few units were used twice";
}

TEST_F(BlockDamageTest, TheContentOfAnotherPlace) {
  for (const Unit& unit : units_) {
    for (uint64_t i = 0; i < Scaled(4); ++i) {
      const Unit& other = units_[random_.Below(units_.size())];
      const ByteView theirs = ByteView(image_.disks[0]).subspan(other.on_device, kUnit);
      if (other.on_device == unit.on_device) continue;
      Write(other.on_device, ByteView(image_.disks[0]).subspan(unit.on_device, kUnit));  // swapped: both are damaged
      Replace(unit, theirs, fmt::format("{} of {} in", other.in_object, other.key), other.key);
      Write(other.on_device, theirs);
      if (HasFailure()) return;
    }
  }
  inspector_.counts.Report("swapped");
}

// ---- the head of the device ----

TEST_F(DamageTest, ABitInTheHeadOfTheDevice) {
  using engine::kSuperblockBytes;
  using engine::kWitnessBytes;
  lab_.Close();
  const std::vector<std::pair<uint64_t, size_t>> places = {{engine::kSuperblockOffset, kSuperblockBytes},
                                                           {engine::kSuperblockCopyOffset, kSuperblockBytes},
                                                           {engine::kWitnessOffsets[0], kWitnessBytes},
                                                           {engine::kWitnessOffsets[1], kWitnessBytes}};
  struct Byte {
    uint64_t offset;  // of the head it belongs to
    size_t at;
    unsigned bit;
  };
  std::vector<Byte> bytes;
  for (const auto& [offset, size] : places)
    for (size_t at = 0; at < size; at += kSanitized ? 5 : 1)
      bytes.push_back({offset, at, static_cast<unsigned>(random_.Below(8))});
  const Counts counts = SideBySide(bytes.size(), [&](Lab& lab, Inspector& inspector, size_t index) {
    const Byte& byte = bytes[index];
    lab.Restore(image_);
    lab.disk().FlipBit(byte.offset + byte.at, byte.bit);
    inspector.OpenAndLook(fmt::format("byte {} at {} of the device", byte.at, byte.offset));
  });
  counts.Report("heads");
  // A version that seems newer is believed without a checksum, which a newer format may keep elsewhere.
  constexpr size_t kVersionBegin = 8, kVersionEnd = 12;
  const auto may_be_refused = std::ranges::count_if(bytes, [](const Byte& byte) {
    return byte.offset == engine::kSuperblockOffset && byte.at >= kVersionBegin && byte.at < kVersionEnd;
  });
  EXPECT_EQ(counts.failed, 0);
  EXPECT_LE(counts.refused, may_be_refused) << "there are two of each";
}

TEST_F(DamageTest, WithoutAnyWitnessItDoesNotOpen) {
  lab_.Restore(image_);
  for (const uint64_t offset : engine::kWitnessOffsets) lab_.disk().FlipBit(offset + 20, 3);
  EXPECT_EQ(lab_.Open().code(), Code::kDataLoss);
}

TEST_F(DamageTest, WithoutAnySuperblockItDoesNotOpen) {
  lab_.Restore(image_);
  for (const uint64_t offset : {engine::kSuperblockOffset, engine::kSuperblockCopyOffset}) lab_.disk().FlipBit(offset + 20, 3);
  EXPECT_EQ(lab_.Open().code(), Code::kDataLoss);
}

// ---- metadata ----

/// One byte of one file.
struct Place {
  fs::path file;
  uint64_t at;
  unsigned bit;
};

class MetadataDamageTest : public DamageTest {
 protected:
  /// Flips one bit in about `states` bytes of the files whose name has `part`.
  Counts FlipBits(const std::string& part, uint64_t states) {
    lab_.Close();
    std::vector<fs::path> files;
    uint64_t bytes = 0;
    for (const auto& entry : fs::directory_iterator(image_.metadata)) {
      if (entry.path().filename().string().find(part) == std::string::npos || entry.file_size() == 0) continue;
      files.push_back(entry.path());
      bytes += entry.file_size();
    }
    EXPECT_FALSE(files.empty());
    std::ranges::sort(files);
    const uint64_t step = std::getenv("FOREBAY_EXHAUSTIVE") != nullptr ? 1 : std::max<uint64_t>(1, bytes / states);
    std::vector<Place> places;
    uint64_t at = random_.Below(step);  // in all files, one behind the other
    for (const fs::path& file : files) {
      const uint64_t size = fs::file_size(file);
      for (; at < size; at += step) places.push_back({file, at, static_cast<unsigned>(random_.Below(8))});
      at -= size;
    }
    const Counts counts = SideBySide(places.size(), [&](Lab& lab, Inspector& inspector, size_t index) {
      TryOne(lab, inspector, places[index]);
    });
    std::printf("%llu bytes, ", static_cast<unsigned long long>(bytes));
    counts.Report(part);
    return counts;
  }

 private:
  void TryOne(Lab& lab, Inspector& inspector, const Place& place) const {
    const std::string original = ReadFile(place.file);
    std::string content = original;
    content[place.at] = static_cast<char>(content[place.at] ^ (1 << place.bit));
    lab.Restore(image_);
    const fs::path copy = fs::path(lab.metadata_directory()) / place.file.filename();
    fs::remove(copy);  // a link
    std::ofstream(copy, std::ios::binary) << content;
    inspector.OpenAndLook(fmt::format("{} byte {} of {} bit {}", place.file.filename().string(), place.at, content.size(),
                                      place.bit));
    EXPECT_EQ(ReadFile(place.file), original) << "the image was changed";
  }
};

TEST_F(MetadataDamageTest, ABitInTheLog) {
  const Counts counts = FlipBits(".log", Scaled(700));
  EXPECT_EQ(counts.intact + counts.failed, 0)
      << "the store was closed: every commit is witnessed, so that all damage is noticed";
}

TEST_F(MetadataDamageTest, ABitInATable) { FlipBits(".sst", Scaled(700)); }

TEST_F(MetadataDamageTest, ABitInTheManifest) { FlipBits("MANIFEST", Scaled(300)); }

TEST_F(MetadataDamageTest, ABitInCurrent) {
  const Counts counts = FlipBits("CURRENT", Scaled(16));
  EXPECT_EQ(counts.intact + counts.failed, 0);
}

}  // namespace
}  // namespace forebay::crash
