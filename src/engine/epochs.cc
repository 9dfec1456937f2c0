// SPDX-License-Identifier: Apache-2.0
#include "engine/epochs.h"

#include <algorithm>
#include <thread>

#include "base/check.h"

namespace forebay::engine {
namespace {

size_t Stripe(size_t stripes) {
  const uint64_t id = std::hash<std::thread::id>{}(std::this_thread::get_id());
  return static_cast<size_t>((id * 0x9e3779b97f4a7c15) >> 32) % stripes;
}

}  // namespace

EpochSet::~EpochSet() {
  for (const Count& count : counts_) FB_CHECK(count.readers.load() == 0);  // a reader outlived its engine
}

EpochSet::Guard EpochSet::Enter() {
  const size_t stripe = Stripe(kStripes);
  while (true) {
    const uint64_t epoch = current_.load();
    const size_t place = (epoch % 2) * kStripes + stripe;
    counts_[place].readers.fetch_add(1);
    // Only when the epoch stands still does the count keep it from moving on twice.
    if (current_.load() == epoch) return Guard(this, place);
    counts_[place].readers.fetch_sub(1);
  }
}

void EpochSet::Leave(size_t place) {
  const bool last = counts_[place].readers.fetch_sub(1) == 1;
  if (!last || retired_count_.load() == 0) return;
  base::MutexLock lock(mutex_);
  CollectSome(kBatch);  // the rest goes with who comes next
}

bool EpochSet::Empty(uint64_t epoch) const {
  for (size_t stripe = 0; stripe < kStripes; ++stripe)
    if (counts_[(epoch % 2) * kStripes + stripe].readers.load() != 0) return false;
  return true;
}

void EpochSet::Retire(std::vector<UnitRun> runs) {
  if (runs.empty()) return;
  base::MutexLock lock(mutex_);
  retired_count_.fetch_add(runs.size());
  for (const UnitRun& run : runs) retired_bytes_.fetch_add(run.length_bytes(), std::memory_order_relaxed);
  const uint64_t epoch = current_.load();
  if (retired_.empty() || retired_.back().epoch != epoch) retired_.push_back({.epoch = epoch, .runs = {}});
  retired_.back().runs.insert(retired_.back().runs.end(), runs.begin(), runs.end());
  CollectSome(std::max(kBatch, 2 * runs.size()));  // more than comes in
}

void EpochSet::Collect() {
  while (true) {
    base::MutexLock lock(mutex_);
    if (CollectSome(kBatch) < kBatch) return;
  }
}

size_t EpochSet::CollectSome(size_t most) {
  if (retired_.empty()) return 0;
  // What was retired in epoch e may be known to readers of e - 1 and e. Nobody of e - 1 is left once e + 1
  // has begun, and nobody of e once e + 2 has.
  const uint64_t target = retired_.back().epoch + 2;
  uint64_t epoch = current_.load();
  while (epoch < target && Empty(epoch + 1)) current_.store(++epoch);
  size_t done = 0;
  while (!retired_.empty() && retired_.front().epoch + 2 <= epoch && done < most) {
    std::deque<UnitRun>& runs = retired_.front().runs;
    for (; !runs.empty() && done < most; ++done) {
      retired_bytes_.fetch_sub(runs.front().length_bytes(), std::memory_order_relaxed);
      reclaim_(runs.front());
      runs.pop_front();
    }
    if (runs.empty()) retired_.pop_front();
  }
  retired_count_.fetch_sub(done);
  return done;
}

}  // namespace forebay::engine
