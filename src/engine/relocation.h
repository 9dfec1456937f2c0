// SPDX-License-Identifier: Apache-2.0
// Relocation: moves every extent of a device to the others, so that it can be taken out of the store. An extent keeps its
// number, and so do all maps of it: only the place in its record changes, in a transaction that looks whether the extent is
// still there. Readers that are open keep reading at the old place until they are closed. Content is verified on the way;
// what cannot be read stays.
// On a thread and reactor of its own: it reads rows and sleeps. Reactor-local. Goes before the engine.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/core.h"
#include "rt/task.h"

namespace forebay::engine {

struct RelocationOptions {
  uint64_t bytes_per_second = UINT64_MAX;
  std::function<bool()> stopped = [] { return false; };  // asked between extents
};

class Relocation {
 public:
  /// Off `device`, on which nothing new is put any more. `core` is borrowed.
  Relocation(Core& core, rt::Reactor& reactor, uint32_t device, RelocationOptions options)
      : core_(core), reactor_(reactor), device_(device), options_(std::move(options)) {}

  /// Until nothing is left on the device, which also takes until open readers and puts that were on their way have ended.
  /// Cancelled when stopped; ResourceExhausted when the others have no room; DataLoss when what is left cannot be read;
  /// errors of the metadata and the other devices. What was moved stays moved.
  rt::Task<Status> Run();

 private:
  struct Found {
    uint64_t extent = 0;
    ExtentRecord record;
  };
  /// The next extents on the device, from number `next_` on; none at the end.
  Result<std::vector<Found>> FindSome();
  rt::Task<Status> MoveSome(const std::vector<Found>& found);
  /// Reads and verifies; false when a block has no right copy.
  rt::Task<Result<bool>> ReadExtent(const ExtentRecord& record, MutableByteView memory);

  Core& core_;
  rt::Reactor& reactor_;
  const uint32_t device_;
  const RelocationOptions options_;
  uint64_t next_ = 0;       // number of the extent to look at next
  uint64_t unreadable_ = 0;  // extents of this pass
  uint64_t moved_bytes_ = 0;
  base::TimePoint begun_{};
};

}  // namespace forebay::engine
