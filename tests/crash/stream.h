// SPDX-License-Identifier: Apache-2.0
// The stream: several writers at once, each with a few keys of its own and a few that all share. They put (small and large,
// with and without conditions, announced and not, at once, in parts, by a rename, as a copy or by overwrites), overwrite, delete, read, and give puts up half way, until they have done
// their number or the power is gone. On its own keys a writer knows what each answer must be.
// Belongs to one thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lab.h"
#include "oracle.h"

namespace forebay::crash {

struct StreamOptions {
  uint64_t seed = 0;
  uint32_t writers = 4;
  uint32_t operations = 20;  ///< of each writer
  bool moves = false;        ///< meanwhile one device after the other is emptied and used again
};

/// Runs the stream on the open engine. Answers that are wrong while the power is on go to `violations`.
void RunStream(Lab& lab, Oracle& oracle, const StreamOptions& options, std::vector<std::string>& violations);

}  // namespace forebay::crash
