// SPDX-License-Identifier: Apache-2.0
// What many small objects cost: objects of 1 KiB in a store directory that is made for it and removed, first a tenth of
// them, then all; each time a restart, random gets, and the memory that the process has, beside what it was set to.
// Some are put through the engine; most are written as the rows that a put makes, 10,000 in one commit, which gives the
// same store in a tenth of the time.
// For people: `engine_objects_bench DIRECTORY [OBJECTS]`, by default 10,000,000, which needs 15 GiB of room.
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/log.h"
#include "base/random.h"
#include "engine/rows.h"
#include "engine/store_directory.h"
#include "engine/store_files.h"
#include "engine/tenant_accounts.h"
#include "base/checksum.h"
#include "meta/rocks_meta_store.h"
#include "rt/when_all.h"

namespace forebay::engine {
namespace {

constexpr size_t kDepth = 1024;  // puts on their way
constexpr uint64_t kObjectBytes = base::kKiB;
constexpr uint64_t kArenaBytes = 64 * base::kMiB;
constexpr uint64_t kDeviceBytes = base::kGiB;
constexpr uint64_t kPuts = 20'000;  // through the engine, each time
constexpr uint64_t kRowsOfACommit = 10'000;
constexpr uint64_t kRounds = 10;
constexpr uint64_t kGets = 20'000;  // of a round
constexpr uint64_t kWarmUp = 100'000;
constexpr uint64_t kMostObjects = 1'000'000'000;
constexpr const char* kBucket = "bench";

template <typename T>
T Must(Result<T> result) {
  if (!result.ok()) {
    fmt::print(stderr, "engine_objects_bench: {}\n", result.status().ToString());
    std::exit(1);
  }
  return *std::move(result);
}
void Must(const Status& status) { (void)Must(status.ok() ? Result<int>(0) : Result<int>(status)); }

class Seconds {
 public:
  double count() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

/// Of this process: anonymous memory and files that it maps.
uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t pages = 0;
  uint64_t resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::string KeyOf(uint64_t number) {
  // Spread over the keys, as names of hashes are.
  return fmt::format("{:016x}", number * 0x9e3779b97f4a7c15ULL);
}

struct Latencies {
  double p50_us = 0;
  double p90_us = 0;
  double p99_us = 0;
};

/// What puts of objects write, and the counters and the account with them.
class FillTransaction final : public meta::Transaction {
 public:
  using Rows = std::vector<std::pair<std::pair<meta::Family, std::string>, std::string>>;
  explicit FillTransaction(Rows rows) : rows_(std::move(rows)) {}
  Status Prepare(meta::View& /*view*/, meta::Batch& batch) override {
    for (const auto& [key, value] : rows_) batch.Put(key.first, key.second, value);
    return {};
  }
  bool needs_data_flush() const override { return false; }
  void Done(const Status& /*outcome*/) override {}

 private:
  const Rows rows_;
};

class Bench {
 public:
  explicit Bench(std::string directory) : path_(std::move(directory)), pattern_(base::kMiB, '\0') {
    random_.Fill(std::as_writable_bytes(std::span(pattern_)));
    store_ = Must(StoreDirectory::Create(path_, {.size_bytes = kDeviceBytes}, environment(), options_));
    Must(reactor_->BlockOn(engine().CreateBucket(Here(), {.name = kBucket})));
  }
  ~Bench() {
    Close();
    std::filesystem::remove_all(path_);
  }

  void PutUpTo(uint64_t objects) {
    const uint64_t first = next_;
    end_ = objects;
    const Seconds seconds;
    std::vector<rt::Task<Status>> writers;
    for (size_t i = 0; i < kDepth; ++i) writers.push_back(PutSome());
    for (const Status& status : reactor_->BlockOn(rt::WhenAll(std::move(writers)))) Must(status);
    fmt::print("put       {} objects of {} bytes in {:.0f} s: {:.0f} a second\n", objects - first, kObjectBytes,
               seconds.count(), static_cast<double>(objects - first) / seconds.count());
    std::fflush(stdout);
  }

  /// The same without the engine, which is closed meanwhile.
  void FillUpTo(uint64_t objects) {
    Close();
    const Seconds seconds;
    const uint64_t first = next_;
    {
      const auto meta = Must(OpenMeta(StorePaths(path_).meta(), {}, clock_));
      const Counters old = Must(DecodeCounters(*Must(meta->Get(meta::Family::kSystem, kCountersKey))));
      uint64_t version = old.next_version;
      while (next_ < objects) {
        FillTransaction::Rows rows;
        const uint64_t end = std::min(objects, next_ + kRowsOfACommit);
        for (; next_ < end; ++next_) AddRows(next_, version++, rows);
        Counters counters = old;
        counters.next_version = version;
        rows.push_back({{meta::Family::kSystem, std::string(kCountersKey)}, EncodeCounters(counters)});
        const std::string root = TenantKey(TenantId::kRoot);
        rows.push_back({{meta::Family::kSystem, root},
                        EncodeTenant(root, {.objects = next_, .bytes = next_ * kObjectBytes, .buckets = 1})});
        Must(reactor_->BlockOn(meta->Commit(*reactor_, std::make_unique<FillTransaction>(std::move(rows)))));
      }
    }
    fmt::print("filled    with {} objects in {:.0f} s\n", objects - first, seconds.count());
    std::fflush(stdout);
    store_ = Must(StoreDirectory::Open(path_, environment(), options_));
  }

  Latencies Get(uint64_t gets) {
    std::vector<double> took;
    took.reserve(gets);
    Must(reactor_->BlockOn(GetSome(gets, took)));
    std::ranges::sort(took);
    return {.p50_us = took[took.size() / 2], .p90_us = took[took.size() * 9 / 10], .p99_us = took[took.size() * 99 / 100]};
  }

  /// Prints a line about what is there.
  Latencies Measure() {
    (void)Get(kWarmUp);
    // A machine that others use too is late now and then: the least disturbed round tells most.
    std::vector<Latencies> rounds;
    for (uint64_t round = 0; round < kRounds; ++round) rounds.push_back(Get(kGets));
    const Latencies latencies = *std::ranges::min_element(rounds, {}, &Latencies::p99_us);
    const Latencies worst = *std::ranges::max_element(rounds, {}, &Latencies::p99_us);
    const uint64_t resident = ResidentBytes();
    const uint64_t set = SetBytes();
    fmt::print("get       of {} objects: p50 {:.0f} us, p90 {:.0f} us, p99 {:.0f} us (worst round {:.0f}); {} resident, set to {}: {:.2f} x\n",
               next_, latencies.p50_us, latencies.p90_us, latencies.p99_us, worst.p99_us, base::FormatSize(resident), base::FormatSize(set),
               static_cast<double>(resident) / static_cast<double>(set));
    std::fflush(stdout);
    return latencies;
  }

  void Restart() {
    Close();
    const Seconds seconds;
    store_ = Must(StoreDirectory::Open(path_, environment(), options_));
    const double opened = seconds.count();
    (void)Get(1);
    fmt::print("restart   in {:.2f} s, the first get after {:.2f} s; {} resident\n", opened, seconds.count(),
               base::FormatSize(ResidentBytes()));
    std::fflush(stdout);
  }

  /// Fsck of the rows.
  void Check() {
    Close();
    const Seconds seconds;
    const FsckReport report = Must(StoreDirectory::Check(path_, {}, environment()));
    if (!report.clean()) Must(Status::DataLoss("{}", report.errors.front()));
    fmt::print("fsck      of {} objects in {:.0f} s: clean\n", report.objects, seconds.count());
    store_ = Must(StoreDirectory::Open(path_, environment(), options_));
  }

 private:
  void AddRows(uint64_t number, uint64_t version, FillTransaction::Rows& rows) const {
    const std::string_view content(Content(number).data(), kObjectBytes);
    ObjectRecord record{.size_bytes = kObjectBytes,
                        .crc32c = base::Crc32c(AsBytes(content)),
                        .modified_ns = clock_.WallNow().time_since_epoch().count()};
    record.etag = fmt::format("{:016x}-{:08x}", version, record.crc32c);
    const std::string key = EncodeObjectKey(1, KeyOf(number), version);
    rows.push_back({{meta::Family::kObjects, key}, EncodeObject(key, record)});
    rows.push_back({{meta::Family::kInline, NumberKey(version)}, std::string(content)});
  }
  StoreDirectory::Environment environment() {
    return {.arena = *arena_, .clock = clock_, .random = secure_, .log = *log_};
  }
  Engine& engine() { return store_->engine(); }
  store::Context Here() { return {.reactor = *reactor_}; }
  void Close() {
    reactor_->BlockOn(engine().Drain(*reactor_));
    store_.reset();
  }

  /// The settings that bound what a store keeps in memory.
  uint64_t SetBytes() const {
    const meta::RocksMetaOptions meta;
    return kArenaBytes + options_.object_cache_bytes + meta.cache_bytes + meta.write_buffer_bytes;
  }
  std::span<const char> Content(uint64_t number) const {
    return std::span(pattern_).subspan(number * 64 % (pattern_.size() - kObjectBytes), kObjectBytes);
  }

  rt::Task<Status> PutSome() {
    const store::Context context = Here();
    while (next_ < end_) {
      const uint64_t number = next_++;
      FB_CO_ASSIGN(const std::unique_ptr<store::ObjectWriter> writer,
                   co_await engine().Put(context, kBucket, KeyOf(number), {.size_bytes = kObjectBytes}));
      FB_CO_ASSIGN(base::Buffer buffer, co_await writer->Allocate(context, kObjectBytes));
      std::memcpy(buffer.writable().data(), Content(number).data(), kObjectBytes);
      FB_CO_TRY(co_await writer->Write(context, std::move(buffer)));
      FB_CO_TRY((co_await writer->Commit(context, std::nullopt)).status());
    }
    co_return Status();
  }

  rt::Task<Status> GetSome(uint64_t gets, std::vector<double>& took) {
    const store::Context context = Here();
    for (uint64_t i = 0; i < gets; ++i) {
      const uint64_t number = random_.Below(next_);
      const Seconds seconds;
      FB_CO_ASSIGN(const std::unique_ptr<store::ObjectReader> reader,
                   co_await engine().Open(context, kBucket, KeyOf(number), {}));
      FB_CO_ASSIGN(const store::ReadData data, co_await reader->Read(context, 0, kObjectBytes));
      took.push_back(seconds.count() * 1e6);
      if (std::memcmp(data.buffers.front().data(), Content(number).data(), data.buffers.front().size()) != 0)
        co_return Status::DataLoss("object {} differs", KeyOf(number));
    }
    co_return Status();
  }

  const std::string path_;
  const EngineOptions options_{};
  base::SeededRandom random_{42};
  std::vector<char> pattern_;
  base::SystemClock clock_;
  base::SecureRandom secure_;
  const std::unique_ptr<base::Log> log_ = base::Log::Discard();
  const std::unique_ptr<base::Arena> arena_ = Must(base::Arena::Create(kArenaBytes));
  const std::unique_ptr<rt::Reactor> reactor_ = Must(rt::Reactor::Create());
  std::unique_ptr<StoreDirectory> store_;
  uint64_t next_ = 0;
  uint64_t end_ = 0;
};

void Run(const std::string& directory, uint64_t objects) {
  Bench bench(directory);
  bench.PutUpTo(std::min(kPuts, objects / 10 + 1));
  bench.FillUpTo(objects / 10 + 1);
  bench.Restart();
  const Latencies few = bench.Measure();
  bench.FillUpTo(objects - std::min(kPuts, objects / 10));
  bench.PutUpTo(objects);
  bench.Restart();
  const Latencies many = bench.Measure();
  fmt::print("p50 grew  {:.2f} x, p90 {:.2f} x, p99 {:.2f} x over ten times as many objects\n", many.p50_us / few.p50_us,
             many.p90_us / few.p90_us, many.p99_us / few.p99_us);
  std::fflush(stdout);
  bench.Check();
}

}  // namespace
}  // namespace forebay::engine

int main(int argc, char** argv) {
  const uint64_t objects = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 10'000'000;
  if (argc < 2 || argc > 3 || objects == 0 || objects > forebay::engine::kMostObjects) {
    fmt::print(stderr, "usage: engine_objects_bench DIRECTORY [OBJECTS]; the directory is made and removed\n");
    return 2;
  }
  ::mallopt(M_ARENA_MAX, 2);  // as forebay serve with one reactor
  forebay::engine::Run(argv[1], objects);
  return 0;
}
