// SPDX-License-Identifier: Apache-2.0
#include "rt/task.h"

#include <cstdio>
#include <exception>

namespace forebay::rt::internal {

void ExceptionLeftTask() noexcept {
  try {
    throw;
  } catch (const std::exception& exception) {
    std::fprintf(stderr, "an exception left a coroutine: %s\n", exception.what());
  } catch (...) {
    std::fputs("an exception of unknown type left a coroutine\n", stderr);
  }
  std::terminate();
}

}  // namespace forebay::rt::internal
