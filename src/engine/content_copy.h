// SPDX-License-Identifier: Apache-2.0
// ContentCopy: new content that is put together from runs of open objects, from memory and from zeros, and written to
// extents of its own. What is on its way stands on the heap, a quarter of a MiB at most, so that nobody waits for memory
// of the arena who holds some. NewRuns: such content as runs of a map. Reactor-local in the call.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/arena.h"
#include "engine/content_writer.h"
#include "engine/core.h"
#include "engine/fetch.h"
#include "engine/new_content.h"
#include "engine/transactions.h"
#include "rt/task.h"

namespace forebay::engine {

class ContentCopy {
 public:
  /// Of `total_bytes`, not 0. `name` is what messages call the object.
  ContentCopy(Core& core, const store::Context& context, std::string name, uint64_t total_bytes);

  /// An extent ends after so many bytes, a multiple of the unit. Before the first is appended.
  void CutAt(uint64_t bytes) { writer_.CutAt(bytes); }
  /// Each appends, and gives the checksum of what it appended.
  rt::Task<Result<uint32_t>> AddRange(OpenVersionPtr from, uint64_t offset, uint64_t length);
  rt::Task<Result<uint32_t>> AddZeros(uint64_t length);
  rt::Task<Result<uint32_t>> Add(std::string_view bytes);

  /// All of it, in extents. After total_bytes were appended.
  rt::Task<Result<NewContent>> Finish();

 private:
  /// Writes what is staged, but for what does not fill a buffer, unless it is the last.
  rt::Task<Status> WriteStaged();

  const store::Context& context_;
  ContentWriter writer_;
  uint64_t left_;  // to append
  std::string staged_;
};

/// Hands out new content from its beginning on.
class NewRuns {
 public:
  explicit NewRuns(std::span<const NewExtent> extents, size_t first = 0) : extents_(extents), extent_(first) {}
  /// Appends the runs that the next `length` bytes are; what goes on with the last of `runs` is one with it.
  void Take(uint64_t length, std::vector<ContentRun>& runs);

 private:
  const std::span<const NewExtent> extents_;
  size_t extent_;
  uint64_t offset_ = 0;
};

/// The checksum of a range of an open version, from those of its blocks: only where a border cuts a block is it read.
rt::Task<Result<uint32_t>> SumOfRange(const store::Context& context, OpenVersionPtr version, uint64_t offset,
                                      uint64_t length);

}  // namespace forebay::engine
