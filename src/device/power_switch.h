// SPDX-License-Identifier: Apache-2.0
// PowerSwitch: cuts the power of everything that shares it, at one moment: each operation that changes media asks Use
// first. A test gives it a number of operations to live, or cuts it by hand.
// Thread-safe. Outlives what it feeds.
#pragma once

#include <atomic>
#include <cstdint>

namespace forebay::device {

class PowerSwitch {
 public:
  static constexpr int64_t kForever = INT64_MAX;

  /// Goes off by itself after `operations` uses.
  explicit PowerSwitch(int64_t operations = kForever) : left_(operations) {}

  /// Counts one operation; false when the power is off, and the operation must not happen.
  bool Use() {
    if (left_.fetch_sub(1) > 0) return true;
    left_ = 0;  // stays off, whatever the number of later uses
    return false;
  }
  bool on() const { return left_.load() > 0; }
  void Cut() { left_ = 0; }

 private:
  std::atomic<int64_t> left_;
};

}  // namespace forebay::device
