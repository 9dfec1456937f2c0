// SPDX-License-Identifier: Apache-2.0
// fsck: proves that a closed store is consistent, or says what is not. It looks at every row: each decodes;
// each object has the content its record promises, each part of an upload too; each extent is referred to as often as it counts, lies
// inside of its device, overlaps no other, and the free-space bitmaps are exactly the union of all extents;
// no row is left that nothing refers to; the accounts of tenants are what their buckets hold; the results of operations are as
// many as are counted; the objects of cache buckets stand in their order, and in no other's. With
// verify_data it also reads every block and compares its checksum; one of a cache object that does not match is no error: the
// object is gone. It never changes anything. Reactor-local
// in the call; memory grows with the number of extents (some 100 bytes each).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/arena.h"
#include "engine/devices.h"
#include "meta/meta_store.h"
#include "rt/reactor.h"
#include "rt/task.h"

namespace forebay::engine {

struct FsckOptions {
  bool verify_data = false;
  size_t max_errors = 100;  // that are kept; all are counted
};

struct FsckReport {
  std::vector<std::string> errors;
  uint64_t error_count = 0;
  uint64_t buckets = 0;  // without the server's own and what is in it
  uint64_t objects = 0;  // versions, with delete markers
  uint64_t object_bytes = 0;
  uint64_t uploads = 0;     // in progress
  uint64_t operations = 0;  // whose results are kept
  uint64_t extents = 0;
  uint64_t extent_bytes = 0;
  uint64_t used_bytes = 0;  // of the devices
  uint64_t capacity_bytes = 0;
  uint64_t verified_bytes = 0;
  uint64_t cache_bytes = 0;         // of used_bytes: content of cache buckets
  uint64_t cache_objects_gone = 0;  // with verify_data: those whose content did not last, which is no damage
  bool clean() const { return error_count == 0; }
};

/// Blocks on the metadata between device reads. Fails only when it cannot go on at all; everything else is in
/// the report.
rt::Task<Result<FsckReport>> CheckStore(rt::Reactor& reactor, Devices& devices, meta::MetaStore& meta,
                                        FsckOptions options);

}  // namespace forebay::engine
