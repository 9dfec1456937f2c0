// SPDX-License-Identifier: Apache-2.0
// What `forebay df` says of a server's space: the table, the JSON, and what to do when room runs out.
// Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "control/client.h"

namespace forebay::app {

enum class Fullness : uint8_t { kOk, kNearlyFull, kFull };

/// Of data: nearly full from 95 % on, full when nothing is free.
Fullness FullnessOf(uint64_t used_bytes, uint64_t capacity_bytes);
/// Of metadata: full when less is free than the reserve, so that only deletes are taken. Nearly full when what is free
/// beyond it is less than the reserve again, or than lets the metadata grow from 95 % to 100 %.
Fullness FullnessOf(const store::MetadataSpace& metadata);

/// What to do, a line for each of data and metadata that is full or nearly so, without a newline at the end; empty when
/// neither is. Data counts as full when all devices together are.
std::string SpaceAdvice(const store::StoreSpace& space);

/// For people: several lines, each with its newline.
std::string SpaceTable(const control::ServerSpace& server);
/// An object a line: one for each device, one for the metadata, one for the store as a whole. All sizes in bytes.
std::string SpaceJson(const control::ServerSpace& server);

}  // namespace forebay::app
