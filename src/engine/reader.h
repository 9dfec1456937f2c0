// SPDX-License-Identifier: Apache-2.0
// Reader: one open version. Blocks come from the memory tier, or from a device and are then verified against the checksum in
// their extent's record before anybody sees them. A block that does not match is read once more, then it is an error.
// While a reader lives the units of its version are not written again.
// Reactor-local in each call; several calls may be in progress.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/arena.h"
#include "engine/core.h"
#include "engine/object_state.h"
#include "store/object_store.h"

namespace forebay::engine {

class Reader final : public store::ObjectReader {
 public:
  /// `core` is borrowed and outlives the reader. The guard was entered before the state was looked up.
  Reader(Core& core, std::string bucket_name, ObjectStatePtr state, EpochSet::Guard guard)
      : core_(core), bucket_name_(std::move(bucket_name)), state_(std::move(state)), guard_(std::move(guard)) {}

  const store::ObjectInfo& info() const override { return state_->info; }
  rt::Task<Result<store::ReadData>> Read(const store::Context& context, uint64_t offset, uint64_t length) override;

 private:
  /// A part of one block that a read wants, in order.
  struct Part {
    uint32_t extent = 0;       // index into the state's extents
    uint32_t block = 0;
    uint64_t begin = 0;        // in the block
    uint64_t length = 0;
    uint64_t object_offset = 0;
    base::Buffer content;      // of the whole block, verified; empty while it is missing
  };

  std::vector<Part> PartsOf(uint64_t offset, uint64_t length) const;
  rt::Task<Result<store::ReadData>> ReadInline(const store::Context& context, uint64_t offset, uint64_t length);
  rt::Task<Status> Fetch(const store::Context& context, std::vector<Part>& parts);
  rt::Task<Status> FetchRun(rt::Reactor& reactor, std::span<Part> parts, std::span<base::Buffer> memory);
  rt::Task<Status> ReadAgain(rt::Reactor& reactor, const Part& part, base::Buffer& memory);
  store::ReadData Gather(const std::vector<Part>& parts) const;

  const ExtentRecord& RecordOf(const Part& part) const { return state_->extents[part.extent].record; }
  BlockKey KeyOf(const Part& part) const { return {state_->extents[part.extent].id, part.block}; }
  /// Content bytes of the part's block.
  uint64_t BlockBytes(const Part& part) const;
  uint64_t DeviceOffset(const Part& part) const;
  bool Matches(const Part& part, ByteView content) const;

  Core& core_;
  const std::string bucket_name_;
  const ObjectStatePtr state_;
  const EpochSet::Guard guard_;
};

}  // namespace forebay::engine
