// SPDX-License-Identifier: Apache-2.0
// Compose: an object made of runs of others, whose extents it shares. The sources are opened like for a read, runs that
// are too short to share are copied, edges of blocks are read for their checksums, and then one transaction takes place
// only if every source is still current; otherwise all starts over. Reactor-local in the call.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/core.h"
#include "rt/task.h"
#include "store/object_store.h"
#include "store/operations.h"

namespace forebay::engine {

struct ComposeRequest {
  std::string bucket_name;
  uint64_t bucket = 0;
  std::string key;
  std::vector<store::Source> sources;
  std::vector<uint64_t> source_buckets;  // their numbers
  store::PutOptions options;
  uint64_t upload = 0;  // not 0: it becomes part `part` of this upload of the key
  uint32_t part = 0;
};

/// Errors as ObjectStore::Compose. No result of `operation` was found before.
rt::Task<Result<store::ObjectInfo>> ComposeObject(Core& core, const store::Context& context,
                                                  store::Operation operation, ComposeRequest request);

}  // namespace forebay::engine
