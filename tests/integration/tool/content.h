// SPDX-License-Identifier: Apache-2.0
// Content that follows from a seed and a name alone, so that whoever reads an object knows what must be in it.
// Thread-safe: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace forebay::integration {

/// A well-mixed number that follows from both.
uint64_t Mix(uint64_t seed, std::string_view name);

/// Fills `out` with the content of `name`.
void FillContent(uint64_t seed, std::string_view name, std::span<std::byte> out);

/// The size of an object of a mixed load: mostly up to 1 KiB, many up to 64 KiB, some up to 1 MiB, a few up to 6 MiB.
uint64_t MixedSize(uint64_t seed, std::string_view name);

std::vector<std::byte> MixedContent(uint64_t seed, std::string_view name);

}  // namespace forebay::integration
