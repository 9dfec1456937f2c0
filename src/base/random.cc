// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>

#include "base/check.h"

namespace forebay::base {

uint64_t Random::Next64() {
  uint64_t value = 0;
  Fill(std::as_writable_bytes(std::span(&value, 1)));
  return value;
}

void SecureRandom::Fill(MutableByteView out) {
  while (!out.empty()) {
    const ssize_t got = getrandom(out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    FB_CHECK(got > 0);  // getrandom cannot fail otherwise on a kernel that has io_uring
    out = out.subspan(static_cast<size_t>(got));
  }
}

void SeededRandom::Fill(MutableByteView out) {
  while (!out.empty()) {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    z ^= z >> 31;
    const size_t take = std::min<size_t>(out.size(), sizeof(z));
    std::memcpy(out.data(), &z, take);
    out = out.subspan(take);
  }
}

}  // namespace forebay::base
