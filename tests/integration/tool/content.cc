// SPDX-License-Identifier: Apache-2.0
#include "content.h"

#include <algorithm>
#include <cstring>

namespace forebay::integration {
namespace {

/// splitmix64 (Steele, Lea, Flood 2014).
uint64_t Next(uint64_t& state) {
  uint64_t z = (state += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace

uint64_t Mix(uint64_t seed, std::string_view name) {
  uint64_t state = seed ^ 0xcbf29ce484222325;
  for (const char c : name) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return Next(state);
}

void FillContent(uint64_t seed, std::string_view name, std::span<std::byte> out) {
  uint64_t state = Mix(seed, name);
  while (!out.empty()) {
    const uint64_t word = Next(state);
    const size_t count = std::min(sizeof word, out.size());
    std::memcpy(out.data(), &word, count);
    out = out.subspan(count);
  }
}

uint64_t MixedSize(uint64_t seed, std::string_view name) {
  uint64_t state = Mix(~seed, name);
  const uint64_t kind = Next(state) % 100;
  const uint64_t dice = Next(state);
  if (kind < 50) return dice % 1025;
  if (kind < 85) return dice % (64 * 1024);
  if (kind < 98) return dice % (1024 * 1024);
  return dice % (6 * 1024 * 1024);
}

std::vector<std::byte> MixedContent(uint64_t seed, std::string_view name) {
  std::vector<std::byte> content(MixedSize(seed, name));
  FillContent(seed, name, content);
  return content;
}

}  // namespace forebay::integration
