// SPDX-License-Identifier: Apache-2.0
// How much of a test to run: all of it in a plain build, a part where a sanitizer makes everything several times slower.
// FOREBAY_SEED and FOREBAY_ROUNDS choose by hand.
// Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace forebay::crash {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FOREBAY_CRASH_SANITIZED 1
#endif
#endif
#ifdef FOREBAY_CRASH_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

/// `full`, or the part of it that a sanitizer build runs.
constexpr uint64_t Scaled(uint64_t full) { return kSanitized ? (full + 9) / 10 : full; }

/// A number from the environment.
inline uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace forebay::crash
