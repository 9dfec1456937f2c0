// SPDX-License-Identifier: Apache-2.0
#include "bench/load.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <latch>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/limits.h"
#include "base/random.h"
#include "bench/process_cpu.h"

namespace forebay::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

std::string KeyOf(uint64_t index) { return fmt::format("object-{:08}", index); }

Error CheckSpec(const LoadSpec& spec) {
  const auto bad = [](std::string message) { return Error{Code::kInvalidArgument, std::move(message)}; };
  if (spec.object_bytes == 0 || spec.object_bytes > base::kGiB) return bad("--size is 1 byte to 1 GiB");
  if (spec.depth == 0 || spec.depth > 256) return bad("--depth is 1 to 256");
  if (spec.threads == 0 || spec.threads > 64) return bad("--threads is 1 to 64");
  if (spec.batch == 0 || spec.batch > base::kMaxBatchItems)
    return bad(fmt::format("--batch is 1 to {}", base::kMaxBatchItems));
  if (spec.batch > 1 && spec.operation == Operation::kPut) return bad("--batch is for gets");
  if (spec.object_bytes * spec.batch * spec.depth * spec.threads > 4 * base::kGiB)
    return bad("size x batch x depth x threads is more than 4 GiB of buffers: lower one of them");
  return {Code::kOk, {}};
}

uint64_t ChooseObjects(const LoadSpec& spec) {
  if (spec.objects != 0) return std::max<uint64_t>(spec.objects, spec.batch);
  const uint64_t in_flight = uint64_t{spec.depth} * spec.threads * spec.batch;
  if (spec.operation == Operation::kGet && spec.heat == Heat::kCold)
    return std::max(in_flight, 2 * base::kGiB / std::max<uint64_t>(spec.object_bytes, 4096));
  // Few enough to stay in the memory tier, enough that concurrent requests meet different objects.
  return std::clamp<uint64_t>(64 * base::kMiB / spec.object_bytes,
                              std::max<uint64_t>(1, std::min<uint64_t>(spec.batch, 256)), 1024);
}

/// What all slots of a run share. Slots call Take until it gives nothing, then Finish.
class Run {
 public:
  Run(const LoadSpec& spec, std::string bucket, uint64_t objects)
      : spec_(spec), bucket_(std::move(bucket)), objects_(objects) {}

  const LoadSpec& spec() const { return spec_; }
  const std::string& bucket() const { return bucket_; }
  bool once() const { return spec_.operation == Operation::kGet && spec_.heat == Heat::kCold; }

  void Begin() { until_ = SteadyClock::now() + spec_.duration; }
  /// The index of the next object, or nothing when the run is over.
  std::optional<uint64_t> Take(uint64_t count) {
    if (failed_.load(std::memory_order_relaxed) || SteadyClock::now() >= until_) return std::nullopt;
    const uint64_t index = next_.fetch_add(count, std::memory_order_relaxed);
    if (once() && index + count > objects_) return std::nullopt;
    return index % (objects_ - count + 1);
  }
  void Fail(const Error& error) {
    const std::scoped_lock lock(mutex_);
    if (!failed_.exchange(true)) error_ = error;
  }
  std::optional<Error> error() {
    const std::scoped_lock lock(mutex_);
    return failed_ ? std::optional(error_) : std::nullopt;
  }

 private:
  const LoadSpec spec_;
  const std::string bucket_;
  const uint64_t objects_;
  SteadyClock::time_point until_;
  std::atomic<uint64_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  Error error_;
};

/// One request in flight, restarted from its own callback: everything happens on its client's thread.
class Slot {
 public:
  Slot(Run& run, Client& client, std::latch& done) : run_(run), client_(client), done_(done) {
    memory_.resize(run.spec().object_bytes * run.spec().batch);
    base::SeededRandom(reinterpret_cast<uintptr_t>(this)).Fill(memory_);
  }

  void Next() {
    const unsigned batch = run_.spec().batch;
    const std::optional<uint64_t> index = run_.Take(batch);
    if (!index) {
      done_.count_down();
      return;
    }
    started_ = SteadyClock::now();
    if (run_.spec().operation == Operation::kPut) {
      client_.PutAsync(run_.bucket(), KeyOf(*index), memory_, {},
                       [this](std::expected<PutResult, Error> result) { Ended(result, 1); });
    } else if (batch == 1) {
      client_.GetAsync(
          run_.bucket(), KeyOf(*index), memory_, {},
          [this](std::expected<GetResult, Error> result) { Ended(CheckSize(std::move(result)), 1); });
    } else {
      GetBatch(*index);
    }
  }

  uint64_t operations() const { return operations_; }
  const Histogram& latency() const { return latency_; }

 private:
  void GetBatch(uint64_t first) {
    if (!region_) {
      auto region = client_.RegisterRegion(memory_);
      if (!region) return Ended(std::expected<void, Error>(std::unexpected(region.error())), 0);
      region_.emplace(*std::move(region));
    }
    const uint64_t size = run_.spec().object_bytes;
    std::vector<GetItem> items(run_.spec().batch);
    for (uint64_t i = 0; i < items.size(); ++i) {
      items[i].bucket = run_.bucket();
      items[i].key = KeyOf(first + i);
      items[i].region_offset = i * size;
      items[i].length = size;
    }
    client_.GetBatchAsync(*region_, std::move(items), {},
                          [this](std::expected<BatchResult<GetResult>, Error> result) {
                            if (result) {
                              for (auto& item : *result) {
                                if (auto checked = CheckSize(std::move(item)); !checked)
                                  return Ended(checked, 0);
                              }
                            }
                            Ended(result, run_.spec().batch);
                          });
  }

  std::expected<GetResult, Error> CheckSize(std::expected<GetResult, Error> result) const {
    if (result && result->size != run_.spec().object_bytes)
      return std::unexpected(Error{Code::kDataLoss, fmt::format("got {} bytes of an object of {}",
                                                                result->size, run_.spec().object_bytes)});
    return result;
  }

  template <typename T>
  void Ended(const std::expected<T, Error>& result, unsigned operations) {
    if (!result) {
      run_.Fail(result.error());
    } else {
      latency_.Add(static_cast<uint64_t>((SteadyClock::now() - started_).count()));
      operations_ += operations;
    }
    Next();
  }

  Run& run_;
  Client& client_;
  std::latch& done_;
  Bytes memory_;
  std::optional<Region> region_;
  SteadyClock::time_point started_;
  uint64_t operations_ = 0;
  Histogram latency_;
};

/// Puts objects [0, count), several in flight.
std::expected<void, Error> PutAll(Client& client, const std::string& bucket, uint64_t count,
                                  uint64_t object_bytes) {
  LoadSpec fill;
  fill.operation = Operation::kPut;
  fill.object_bytes = object_bytes;
  const auto depth = static_cast<unsigned>(std::clamp<uint64_t>(64 * base::kMiB / object_bytes, 1, 64));
  Bytes content(object_bytes);
  base::SeededRandom(7).Fill(content);
  std::mutex mutex;
  std::condition_variable changed;
  unsigned in_flight = 0;
  std::optional<Error> failure;
  for (uint64_t i = 0; i < count; ++i) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return in_flight < depth; });
    if (failure) break;
    ++in_flight;
    lock.unlock();
    client.PutAsync(bucket, KeyOf(i), content, {}, [&](std::expected<PutResult, Error> result) {
      const std::scoped_lock inner(mutex);
      if (!result && !failure) failure = result.error();
      --in_flight;
      changed.notify_all();
    });
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return in_flight == 0; });
  if (failure) return std::unexpected(*failure);
  return {};
}

/// Reads each object once, so that a hot run finds it in the memory tier.
std::expected<void, Error> WarmUp(Client& client, const std::string& bucket, uint64_t count,
                                  uint64_t object_bytes) {
  Bytes memory(object_bytes);
  for (uint64_t i = 0; i < count; ++i) {
    if (auto got = client.Get(bucket, KeyOf(i), memory); !got) return std::unexpected(got.error());
  }
  return {};
}

/// A bucket that goes away with everything in it.
class ScratchBucket {
 public:
  static std::expected<ScratchBucket, Error> Create(Client& client) {
    base::SecureRandom random;
    std::string name = fmt::format("forebay-bench-{:016x}", random.Next64());
    if (auto created = client.CreateBucket(name); !created) return std::unexpected(created.error());
    return ScratchBucket(client, std::move(name));
  }
  ScratchBucket(ScratchBucket&& other) noexcept
      : client_(other.client_), name_(std::exchange(other.name_, {})) {}
  ScratchBucket& operator=(ScratchBucket&&) = delete;
  ~ScratchBucket() {
    // Best effort: what cannot be removed because the server is gone is removed by nobody.
    for (bool more = !name_.empty(); more;) {
      const auto page = client_.List(name_);
      if (!page) return;
      for (const ObjectInfo& object : page->objects) (void)client_.Remove(name_, object.key);
      more = page->truncated;
      if (!more) (void)client_.DeleteBucket(name_);
    }
  }
  const std::string& name() const { return name_; }

 private:
  ScratchBucket(Client& client, std::string name) : client_(client), name_(std::move(name)) {}
  Client& client_;
  std::string name_;
};

}  // namespace

std::expected<LoadReport, Error> RunLoad(const LoadSpec& spec, const Connector& connect) {
  if (Error error = CheckSpec(spec); error.code != Code::kOk) return std::unexpected(std::move(error));
  std::vector<std::unique_ptr<Client>> clients;
  for (unsigned i = 0; i < spec.threads; ++i) {
    auto client = connect();
    if (!client) return std::unexpected(client.error());
    clients.push_back(*std::move(client));
  }
  auto bucket = ScratchBucket::Create(*clients.front());
  if (!bucket) return std::unexpected(bucket.error());
  const uint64_t objects = ChooseObjects(spec);
  if (spec.operation == Operation::kGet) {
    if (auto put = PutAll(*clients.front(), bucket->name(), objects, spec.object_bytes); !put)
      return std::unexpected(put.error());
    if (spec.heat == Heat::kHot) {
      if (auto warm = WarmUp(*clients.front(), bucket->name(), objects, spec.object_bytes); !warm)
        return std::unexpected(warm.error());
    }
  }
  Run run(spec, bucket->name(), objects);
  std::latch done(static_cast<ptrdiff_t>(spec.depth) * spec.threads);
  std::vector<std::unique_ptr<Slot>> slots;
  for (const auto& client : clients) {
    for (unsigned i = 0; i < spec.depth; ++i) slots.push_back(std::make_unique<Slot>(run, *client, done));
  }
  LoadReport report;
  report.path = clients.front()->path();
  const auto server_before = clients.front()->Stats();
  if (!server_before) return std::unexpected(server_before.error());
  const double cpu = ProcessCpuSeconds();
  const auto start = SteadyClock::now();
  run.Begin();
  for (const auto& slot : slots) slot->Next();
  done.wait();
  report.seconds = std::chrono::duration<double>(SteadyClock::now() - start).count();
  report.client_cpu_seconds = ProcessCpuSeconds() - cpu;
  if (const auto error = run.error()) return std::unexpected(*error);
  const auto server_after = clients.front()->Stats();
  if (!server_after) return std::unexpected(server_after.error());
  report.server_cpu_seconds = std::chrono::duration<double>(server_after->cpu - server_before->cpu).count();
  report.device_flushes = server_after->device_flushes - server_before->device_flushes;
  for (const auto& slot : slots) {
    report.operations += slot->operations();
    report.latency.Merge(slot->latency());
  }
  report.bytes = report.operations * spec.object_bytes;
  return report;
}

}  // namespace forebay::bench
