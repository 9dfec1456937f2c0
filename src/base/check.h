// SPDX-License-Identifier: Apache-2.0
// FB_CHECK: the assertion for our own bugs only. Input, disk bytes and wire bytes never reach it; they get a
// Status. Enabled in every build, because a broken invariant in a store must not go on to acknowledge writes.
// Thread-safe.
#pragma once

namespace forebay::base {

/// Prints `file:line: check failed: expression` to stderr and aborts.
[[noreturn]] void CheckFailed(const char* file, int line, const char* expression) noexcept;

}  // namespace forebay::base

#define FB_CHECK(expression)                                                       \
  do {                                                                             \
    if (!(expression)) [[unlikely]]                                                \
      ::forebay::base::CheckFailed(__FILE__, __LINE__, #expression);               \
  } while (false)
