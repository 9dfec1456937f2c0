// SPDX-License-Identifier: Apache-2.0
// Progress: a line on stderr that says how far a long transfer is; silent unless stderr is a terminal.
// Reactor-local.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace forebay::app {

class Progress {
 public:
  /// `total_bytes` 0: unknown.
  Progress(std::string what, uint64_t total_bytes);
  /// Clears the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void Add(uint64_t bytes);

 private:
  const std::string what_;
  const uint64_t total_bytes_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point shown_;
  uint64_t bytes_ = 0;
  bool visible_ = false;
};

}  // namespace forebay::app
