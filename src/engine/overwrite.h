// SPDX-License-Identifier: Apache-2.0
// Overwrites: OverwriteWriter puts new content in the place of a run of an object, TruncateObject gives one another size.
// What a change needs of the object as it is, it looks at before: the pieces of the run, their checksum, and bytes around
// it when the run does not begin and end where the grain is. One transaction takes place only if all that is the same
// still; otherwise the look is taken again, and content that is written stays. Reactor-local to the reactor of the call.
#pragma once

#include <optional>
#include <string>

#include "engine/content_writer.h"
#include "engine/core.h"
#include "rt/task.h"
#include "store/object_store.h"
#include "store/operations.h"

namespace forebay::engine {

/// Up to so much content stands in one extent with what is copied around it; more stays in extents of its own.
constexpr uint64_t kHeldBytes = 64 * base::kKiB;
/// The end of an object that grows by small appends is in grains; whenever it passes a multiple of this, what came before
/// is put together into one extent.
constexpr uint64_t kTailBytes = 64 * base::kKiB;
/// Pieces of a segment of a small object, from which on its overwrites have a coarser grain.
constexpr uint64_t kMostFinePieces = 2048;

/// The grain of overwrites in a segment that has so many pieces, of an object that has so many segments: what is
/// written anew begins and ends at multiples of it, or at the object's end. So the pieces of an object, all of which are in
/// memory while it is open, are never more than some millions, whatever is overwritten.
uint64_t GrainOf(uint64_t pieces, uint64_t segments);

class OverwriteWriter final : public store::ObjectWriter {
 public:
  /// `core` is borrowed and outlives the writer.
  OverwriteWriter(Core& core, rt::Reactor& reactor, store::Operation operation, std::string bucket_name, uint64_t bucket,
                  std::string key, store::OverwriteOptions options);

  rt::Task<Result<base::Buffer>> Allocate(const store::Context& context, size_t size) override {
    return content_.Allocate(context, size);
  }
  rt::Task<Status> Write(const store::Context& context, base::Buffer data) override {
    return content_.Write(context, std::move(data));
  }
  rt::Task<Result<store::ObjectInfo>> Commit(const store::Context& context, std::optional<uint32_t> crc32c) override;

 private:
  Core& core_;
  store::Operation operation_;
  const std::string bucket_name_;
  const uint64_t bucket_;
  const std::string key_;
  const store::OverwriteOptions options_;
  ContentWriter content_;
};

/// Errors as ObjectStore::Truncate. No result of `operation` was found before.
rt::Task<Result<store::ObjectInfo>> TruncateObject(Core& core, const store::Context& context, store::Operation operation,
                                                   std::string bucket_name, uint64_t bucket, std::string key,
                                                   uint64_t size_bytes, store::Condition condition);

}  // namespace forebay::engine
