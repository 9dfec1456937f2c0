// SPDX-License-Identifier: Apache-2.0
// Clock: time is passed in. Monotonic time drives deadlines and timers and never jumps; wall time is only for
// what people and other machines read (modification times, credential dates) and may jump at any moment.
// Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace forebay::base {

using Duration = std::chrono::nanoseconds;
using TimePoint = std::chrono::time_point<std::chrono::steady_clock, Duration>;
using WallTime = std::chrono::time_point<std::chrono::system_clock, Duration>;

/// A deadline that never comes.
constexpr TimePoint kNever = TimePoint::max();

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint Now() const = 0;
  virtual WallTime WallNow() const = 0;
};

class SystemClock final : public Clock {
 public:
  TimePoint Now() const override { return std::chrono::steady_clock::now(); }
  WallTime WallNow() const override { return std::chrono::system_clock::now(); }
};

/// Stands still until told to move. The two times move apart only through JumpWall.
class FakeClock final : public Clock {
 public:
  TimePoint Now() const override { return TimePoint(Duration(now_ns_.load())); }
  WallTime WallNow() const override { return WallTime(Duration(now_ns_.load() + wall_offset_ns_.load())); }
  void Advance(Duration by) { now_ns_ += by.count(); }
  void JumpWall(Duration by) { wall_offset_ns_ += by.count(); }

 private:
  std::atomic<int64_t> now_ns_{1'000'000'000};
  std::atomic<int64_t> wall_offset_ns_{1'700'000'000'000'000'000};  // a date in 2023
};

/// The longest wait taken from outside, so that adding it to a time point cannot overflow.
constexpr Duration kMaxWait = std::chrono::hours(24 * 365);

/// now + wait, saturating at kNever; a negative wait is now.
inline TimePoint DeadlineAfter(TimePoint now, Duration wait) {
  if (wait <= Duration::zero()) return now;
  return wait >= kMaxWait ? kNever : now + wait;
}

}  // namespace forebay::base
