// SPDX-License-Identifier: Apache-2.0
// Power cuts below a store that holds a cache bucket beside a durable one, on devices so small that one displaces the other.
// After each cut the store opens; each durable object is what it was acknowledged to be; each cache object is some
// content that was put under its key, from end to end, or is gone; nothing else is said of it; and fsck finds no damage.
// FOREBAY_SEED takes one seed, or with FOREBAY_ROUNDS the first of so many.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "client.h"
#include "lab.h"
#include "oracle.h"
#include "scale.h"

namespace forebay::crash {
namespace {

constexpr const char* kCache = "cache";

class CacheCut {
 public:
  explicit CacheCut(uint64_t seed)
      : seed_(seed),
        random_(seed),
        lab_({.directory = Lab::ScratchDirectory(fmt::format("cache-{}", seed)),
              .devices = 1 + random_.Below(2),
              .device_bytes = 20 * base::kMiB,
              .write_buffer_bytes = 512 * base::kKiB << random_.Below(5),
              .tier_bytes = 0}) {}

  void Run() {
    ASSERT_TRUE(lab_.Make().ok());
    ASSERT_TRUE(lab_.Open().ok());
    ASSERT_TRUE(lab_.Run(lab_.engine().CreateBucket(lab_.context(), {.name = kCache, .bucket_class = store::BucketClass::kCache})).ok());
    const int lives = 3 + static_cast<int>(random_.Below(3));
    for (int life = 0; life < lives; ++life) {
      ASSERT_TRUE(lab_.Crash(random_, static_cast<int64_t>(random_.Below(random_.Below(4) == 0 ? 40 : 700))).ok());
      const Status opened = lab_.Open();
      EXPECT_TRUE(opened.ok() || !lab_.powered()) << Where() << opened.ToString();
      if (opened.ok()) Live();
      Look();
    }
  }

  uint64_t found = 0;    // cache objects after cuts
  uint64_t gone = 0;     // that were named, and whose content was not there
  uint64_t evicted = 0;

 private:
  std::string Where() const { return fmt::format("FOREBAY_SEED={}: ", seed_); }

  /// Works until the power is gone, or for a while.
  void Live() {
    for (int i = 0; i < 120; ++i) {
      const bool cache = random_.Below(3) != 0;
      const std::string key = fmt::format("{}{}", cache ? 'c' : 'd', random_.Below(cache ? 30 : 8));
      if (!(random_.Below(8) == 0 ? Delete(key, cache) : Put(key, cache))) break;
    }
    evicted += lab_.engine().usage().cache_evicted;
  }

  bool Put(const std::string& key, bool cache) {
    const uint64_t generation = puts_.size();
    const uint64_t size = random_.Below(random_.Below(4) == 0 ? 2 * base::kMiB : 40'000);
    puts_.emplace_back(key, size);
    const auto put = [&]() -> rt::Task<Status> {
      const store::Context context = lab_.context();
      const std::string content = ContentOf(seed_, key, generation, size);
      FB_CO_ASSIGN(const std::unique_ptr<store::ObjectWriter> writer,
                   co_await lab_.engine().Put(context, cache ? kCache : Lab::kBucket, key,
                                              {.metadata = {{kGenerationName, std::to_string(generation)}}}));
      for (size_t at = 0; at < content.size();) {
        FB_CO_ASSIGN(base::Buffer buffer, co_await writer->Allocate(context, content.size() - at));
        std::memcpy(buffer.writable().data(), content.data() + at, buffer.size());
        at += buffer.size();
        FB_CO_TRY(co_await writer->Write(context, std::move(buffer)));
      }
      co_return (co_await writer->Commit(context, std::nullopt)).status();
    };
    return Ended(lab_.Run(put()), key, cache, generation);
  }

  bool Delete(const std::string& key, bool cache) {
    const Status deleted = lab_.Run(lab_.engine().Delete(lab_.context(), cache ? kCache : Lab::kBucket, key, {}));
    return deleted.code() == Code::kNotFound || Ended(deleted, key, cache, std::nullopt);
  }

  /// False when the power is gone.
  bool Ended(const Status& status, const std::string& key, bool cache, const Value& value) {
    if (status.ok() && !cache) expected_[key] = value;
    if (status.ok()) return true;
    EXPECT_FALSE(lab_.powered()) << Where() << status.ToString();  // least of all for want of space
    if (!cache) maybe_ = {key, value};
    return false;
  }

  /// Cuts the power and looks at what is left.
  void Look() {
    ASSERT_TRUE(lab_.Crash(random_).ok());
    const Status opened = lab_.Open();
    ASSERT_TRUE(opened.ok()) << Where() << opened.ToString();
    for (const auto& [key, expected] : expected_) {
      const Value value = LookAt(Lab::kBucket, key);
      const bool maybe = maybe_ && maybe_->first == key && maybe_->second == value;
      EXPECT_TRUE(value == expected || maybe) << Where() << key;
    }
    if (maybe_) expected_[maybe_->first] = LookAt(Lab::kBucket, maybe_->first);
    maybe_.reset();
    for (int i = 0; i < 30; ++i)
      if (LookAt(kCache, fmt::format("c{}", i))) ++found;
    gone += lab_.engine().usage().cache_gone;
    lab_.Close();
    const Result<engine::FsckReport> report = lab_.Fsck();
    ASSERT_TRUE(report.ok()) << Where() << report.status().ToString();
    for (const std::string& error : report->errors) ADD_FAILURE() << Where() << "fsck: " << error;
    ASSERT_TRUE(lab_.Open().ok());
  }

  /// The generation, after the content was compared.
  Value LookAt(const char* bucket, const std::string& key) {
    const auto get = [&]() -> rt::Task<Result<Value>> {
      const store::Context context = lab_.context();
      FB_CO_ASSIGN(const std::unique_ptr<store::ObjectReader> reader, co_await lab_.engine().Open(context, bucket, key, {}));
      const Value generation = GenerationOf(reader->info());
      if (!generation || *generation >= puts_.size() || puts_[*generation].first != key)
        co_return Status::DataLoss("it says that it is of a put that never was");
      std::string content;
      while (content.size() < reader->info().size_bytes) {
        FB_CO_ASSIGN(const store::ReadData data,
                     co_await reader->Read(context, content.size(),
                                           std::min<uint64_t>(base::kMaxChunkBytes, reader->info().size_bytes - content.size())));
        for (const base::Buffer& buffer : data.buffers) content += AsText(buffer.view());
      }
      if (content != ContentOf(seed_, key, *generation, puts_[*generation].second))
        co_return Status::DataLoss("its content is another one");
      co_return generation;
    };
    const Result<Value> got = lab_.Run(get());
    if (got.ok()) return *got;
    EXPECT_EQ(got.status().code(), Code::kNotFound) << Where() << bucket << "/" << key << ": " << got.status().ToString();
    return std::nullopt;
  }

  const uint64_t seed_;
  base::SeededRandom random_;
  Lab lab_;
  std::vector<std::pair<std::string, uint64_t>> puts_;  // key and size of each, by generation
  std::map<std::string, Value> expected_;               // of durable keys
  std::optional<std::pair<std::string, Value>> maybe_;  // of the durable change that the cut met
};

TEST(CacheCutTest, CacheObjectsAreRightOrGoneAndDurableOnesThere) {
  uint64_t first = 1;
  uint64_t count = Scaled(60);
  if (std::getenv("FOREBAY_SEED") != nullptr) {
    first = FromEnvironment("FOREBAY_SEED", first);
    count = 1;
  }
  count = FromEnvironment("FOREBAY_ROUNDS", count);
  uint64_t found = 0;
  uint64_t gone = 0;
  uint64_t evicted = 0;
  for (uint64_t seed = first; seed < first + count && !HasFatalFailure(); ++seed) {
    CacheCut cut(seed);
    cut.Run();
    found += cut.found;
    gone += cut.gone;
    evicted += cut.evicted;
  }
  std::printf("%llu seeds: %llu cache objects found after cuts, %llu gone, %llu evicted\n",
              static_cast<unsigned long long>(count), static_cast<unsigned long long>(found),
              static_cast<unsigned long long>(gone), static_cast<unsigned long long>(evicted));
  // Each happens, or the test proves little.
  if (count < 50) return;
  EXPECT_GT(found, 0U);
  EXPECT_GT(gone, 0U);
  EXPECT_GT(evicted, 0U);
}

}  // namespace
}  // namespace forebay::crash
