// SPDX-License-Identifier: Apache-2.0
// What this machine has that decides how bytes move and how fast: for `forebay doctor`. Looks only; changes
// and loads nothing. Thread-safe: functions without state.
#pragma once

#include <string>
#include <vector>

namespace forebay::app {

enum class Verdict : uint8_t {
  kGood,     // as it should be
  kBetter,   // works; could be better, and `remedy` says how
  kMissing,  // what needs it does not work here
};

/// One thing that was looked at.
struct Finding {
  std::string what;  // "io_uring"
  Verdict verdict = Verdict::kGood;
  std::string found;   // "yes, kernel 6.1.0"
  std::string remedy;  // what to do for a better one; empty when there is nothing to do
};

/// io_uring, memlock, RDMA devices, GPUs, huge pages. `root` is "/" but in tests, where it is a directory
/// that looks like it.
std::vector<Finding> LookAtMachine(const std::string& root);

}  // namespace forebay::app
