// SPDX-License-Identifier: Apache-2.0
#include "app/progress.h"

#include <unistd.h>

#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include "base/bytes.h"

namespace forebay::app {

using Clock = std::chrono::steady_clock;

Progress::Progress(std::string what, uint64_t total_bytes)
    : what_(std::move(what)),
      total_bytes_(total_bytes),
      terminal_(isatty(STDERR_FILENO) == 1),
      start_(Clock::now()),
      shown_(start_) {}

Progress::~Progress() {
  if (visible_) fmt::print(stderr, "\r\033[K");
}

void Progress::Add(uint64_t bytes) {
  bytes_ += bytes;
  if (!terminal_) return;
  const auto now = Clock::now();
  if (now - shown_ < std::chrono::milliseconds(200)) return;
  shown_ = now;
  visible_ = true;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const auto rate = static_cast<uint64_t>(static_cast<double>(bytes_) / seconds);
  if (total_bytes_ != 0)
    fmt::print(stderr, "\r\033[K{}  {} of {}  {}/s", what_, base::FormatSize(bytes_),
               base::FormatSize(total_bytes_), base::FormatSize(rate));
  else
    fmt::print(stderr, "\r\033[K{}  {}  {}/s", what_, base::FormatSize(bytes_), base::FormatSize(rate));
  std::fflush(stderr);
}

}  // namespace forebay::app
