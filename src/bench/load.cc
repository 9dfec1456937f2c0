// SPDX-License-Identifier: Apache-2.0
#include "bench/load.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
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
  if (!(spec.requests_per_second >= 0 && spec.requests_per_second <= 10e6)) return bad("at most 10 million requests a second");
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

class Slot;

/// What all slots of a run share. A slot that has nothing in flight is handed to Idle, and starts again when it is told to.
class Run {
 public:
  Run(const LoadSpec& spec, std::string bucket, uint64_t objects)
      : spec_(spec), bucket_(std::move(bucket)), objects_(objects), watch_(spec.watch != nullptr ? *spec.watch : own_watch_) {}

  const LoadSpec& spec() const { return spec_; }
  const std::string& bucket() const { return bucket_; }
  bool once() const { return spec_.operation == Operation::kGet && spec_.heat == Heat::kCold; }

  bool paced() const { return spec_.requests_per_second > 0; }

  /// Runs all of it on these slots, until the last one is idle.
  void Go(const std::vector<std::unique_ptr<Slot>>& slots);
  void Idle(Slot& slot, uint64_t operations);

  /// The index of the next object, or nothing when the run is over.
  std::optional<uint64_t> Take(uint64_t count) {
    if (over()) return std::nullopt;
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
  bool over() const {
    return failed_.load(std::memory_order_relaxed) || watch_.stop.load(std::memory_order_relaxed) ||
           SteadyClock::now() >= until_;
  }
  void Pace();

  const LoadSpec spec_;
  const std::string bucket_;
  const uint64_t objects_;
  LoadWatch own_watch_;
  LoadWatch& watch_;
  SteadyClock::time_point until_;
  std::vector<Slot*> idle_;  // guarded by mutex_
  std::condition_variable changed_;
  std::atomic<uint64_t> next_{0};
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  Error error_;
};

/// One request in flight. Unless the run is paced it is started again from its own callback, on its client's thread.
class Slot {
 public:
  Slot(Run& run, Client& client) : run_(run), client_(client) {
    memory_.resize(run.spec().object_bytes * run.spec().batch);
    base::SeededRandom(reinterpret_cast<uintptr_t>(this)).Fill(memory_);
  }

  /// `due`: when the request should have begun, if not now.
  void Start(SteadyClock::time_point due) {
    const unsigned batch = run_.spec().batch;
    const std::optional<uint64_t> index = run_.Take(batch);
    if (!index) return run_.Idle(*this, 0);
    started_ = due;
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
    const SteadyClock::time_point now = SteadyClock::now();
    if (!result) {
      run_.Fail(result.error());
    } else {
      latency_.Add(static_cast<uint64_t>((now - started_).count()));
      operations_ += operations;
    }
    run_.Idle(*this, result ? operations : 0);
  }

  Run& run_;
  Client& client_;
  Bytes memory_;
  std::optional<Region> region_;
  SteadyClock::time_point started_;
  uint64_t operations_ = 0;
  Histogram latency_;
};

void Run::Go(const std::vector<std::unique_ptr<Slot>>& slots) {
  until_ = SteadyClock::now() + spec_.duration;
  watch_.running = true;
  if (paced()) {
    for (const auto& slot : slots) idle_.push_back(slot.get());
    Pace();
  } else {
    for (const auto& slot : slots) slot->Start(SteadyClock::now());
  }
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return idle_.size() == slots.size(); });
  watch_.running = false;
}

void Run::Idle(Slot& slot, uint64_t operations) {
  watch_.operations.fetch_add(operations, std::memory_order_relaxed);
  if (!paced() && operations != 0) return slot.Start(SteadyClock::now());
  const std::scoped_lock lock(mutex_);
  idle_.push_back(&slot);
  changed_.notify_one();
}

/// Starts each request when it is due, or as soon after it as a slot is idle.
void Run::Pace() {
  const auto begin = SteadyClock::now();
  for (uint64_t number = 0; !over(); ++number) {
    const std::chrono::duration<double> after(static_cast<double>(number) / spec_.requests_per_second);
    const auto due = begin + std::chrono::duration_cast<SteadyClock::duration>(after);
    std::this_thread::sleep_until(std::min(due, until_));
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !idle_.empty(); });
    Slot& slot = *idle_.back();
    idle_.pop_back();
    lock.unlock();
    slot.Start(due);
  }
}

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

/// Of nothing for whoever may not ask.
auto StatsOf(Client& client) {
  auto stats = client.Stats();
  if (!stats && stats.error().code == Code::kPermissionDenied) return decltype(stats)(ServerStats{});
  return stats;
}

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
  std::vector<std::unique_ptr<Slot>> slots;
  for (const auto& client : clients) {
    for (unsigned i = 0; i < spec.depth; ++i) slots.push_back(std::make_unique<Slot>(run, *client));
  }
  LoadReport report;
  report.path = clients.front()->path();
  const auto server_before = StatsOf(*clients.front());
  if (!server_before) return std::unexpected(server_before.error());
  const double cpu = ProcessCpuSeconds();
  const auto start = SteadyClock::now();
  run.Go(slots);
  report.seconds = std::chrono::duration<double>(SteadyClock::now() - start).count();
  report.client_cpu_seconds = ProcessCpuSeconds() - cpu;
  if (const auto error = run.error()) return std::unexpected(*error);
  const auto server_after = StatsOf(*clients.front());
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
