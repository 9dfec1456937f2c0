// SPDX-License-Identifier: Apache-2.0
#include "app/exit_status.h"

#include <cstdio>

#include <fmt/format.h>

namespace forebay::app {

int Fail(std::string_view message) {
  fmt::print(stderr, "forebay: {}\n", message);
  return kFailed;
}

int RefuseUsage(std::string_view message) {
  fmt::print(stderr, "forebay: {}\n", message);
  return kWrongUsage;
}

}  // namespace forebay::app
