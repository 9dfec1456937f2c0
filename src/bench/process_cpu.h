// SPDX-License-Identifier: Apache-2.0
// The processor time that this process has used so far, user and system, all threads.
// Thread-safe.
#pragma once

#include <sys/resource.h>

namespace forebay::bench {

inline double ProcessCpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace forebay::bench
