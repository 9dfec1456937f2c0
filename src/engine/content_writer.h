// SPDX-License-Identifier: Apache-2.0
// ContentWriter: takes content as it comes and brings it to where it stays: into reserved extents, a few device
// writes at a time, with a checksum of each block; up to kMaxInlineContent bytes stay in memory, for the metadata.
// What is never finished gives its units back once its writes have ended. Reactor-local to the reactor of the call
// that made it.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/arena.h"
#include "engine/core.h"
#include "engine/eviction.h"
#include "engine/new_content.h"
#include "rt/sync.h"
#include "store/object_store.h"

namespace forebay::engine {

class ContentWriter {
 public:
  /// Device writes in progress at a time, of at most kWriteBytes each.
  static constexpr size_t kMaxWrites = 8;
  static constexpr uint64_t kWriteBytes = base::kMiB;

  /// `core` is borrowed and outlives the writer. `name` is what messages call the object. A `size_bytes` that is
  /// known lets it choose extents; Write refuses more.
  ContentWriter(Core& core, rt::Reactor& reactor, std::string name, std::optional<uint64_t> size_bytes);

  /// As ObjectWriter.
  rt::Task<Result<base::Buffer>> Allocate(const store::Context& context, size_t size);
  rt::Task<Status> Write(const store::Context& context, base::Buffer data);

  /// Sends what it holds to the devices, but for what is no whole unit: before a wait for memory that it does not do itself.
  rt::Task<Status> SendHeld(const store::Context& context) { return Issue(context, Urgency::kWhole); }

  /// Ok while content is taken; otherwise why not.
  Status state() const;
  uint64_t size_bytes() const { return size_bytes_; }
  /// Content that is small goes to extents too. Before the first Write.
  void NeedExtents() { may_be_inline_ = false; }
  /// An extent ends after so many bytes, a multiple of the unit. With a size that was announced, before the first Write.
  void CutAt(uint64_t bytes) { cut_bytes_ = bytes; }
  /// As long as there is no more than that, and memory for it, content stays in memory. Before the first Write.
  void HoldBack(uint64_t bytes) { hold_back_bytes_ = bytes; }
  /// The caller has versions open: it does not wait until readers let go of space.
  void HoldsVersions() { wait_ = WaitForReaders::kNo; }
  /// Nothing is taken from here on.
  void End() { ended_ = true; }
  /// All content, when none of it went to a device; its memory is free then, and Finish is not called. After End.
  std::optional<std::string> TakeHeld();
  /// Waits until all content is written. Called once, after End.
  rt::Task<Result<NewContent>> Finish(const store::Context& context);

 private:
  /// What the device writes in progress need, which may outlive the writer.
  struct Shared {
    Shared(Core& engine_core, rt::Reactor& reactor)
        : core(engine_core),
          slots(reactor, kMaxWrites),
          writes(reactor),
          units(std::make_shared<ReservedUnits>(engine_core.allocator)) {}

    Core& core;
    rt::Semaphore slots;
    rt::WaitGroup writes;
    Status error;  // of the first write that failed
    const std::shared_ptr<ReservedUnits> units;  // shared with the content that was finished
  };
  /// Memory of one device write.
  struct WriteMemory;

  static rt::Task<void> WriteOut(std::shared_ptr<Shared> shared, rt::Reactor& reactor, uint32_t device,
                                 uint64_t offset, std::unique_ptr<WriteMemory> memory);

  /// What to send to the devices.
  enum class Urgency : uint8_t {
    kWorthIt,  // device writes of a good size
    kWhole,    // whole units: memory is short
    kLast,     // everything: nothing follows
  };

  Status Check(const base::Buffer& data) const;
  rt::Task<Status> Issue(const store::Context& context, Urgency urgency);
  rt::Task<Status> IssueOne(const store::Context& context, uint64_t bytes);
  rt::Task<Status> BeginExtent(const store::Context& context, Urgency urgency);
  uint64_t NextExtentBytes(Urgency urgency) const;
  std::unique_ptr<WriteMemory> TakePending(uint64_t bytes);
  void Checksum(ByteView bytes);
  void EndBlock();
  void TrimLastExtent();
  Status Fail(Status status);

  Core& core_;
  const std::string name_;
  const std::optional<uint64_t> announced_bytes_;
  const std::shared_ptr<Shared> shared_;  // shared with the writes in progress
  bool may_be_inline_ = true;
  uint64_t hold_back_bytes_ = 0;
  uint64_t cut_bytes_ = 0;
  bool ended_ = false;
  WaitForReaders wait_ = WaitForReaders::kYes;
  Status failure_;

  uint64_t size_bytes_ = 0;           // taken so far
  std::deque<base::Buffer> pending_;  // taken, not yet on its way to a device
  uint64_t pending_bytes_ = 0;
  std::vector<NewExtent> extents_;  // the last one is being filled
  uint64_t issued_bytes_ = 0;
  uint32_t content_crc32c_ = 0;  // of the ended blocks
  uint32_t block_crc32c_ = 0;    // of the block being filled
  uint64_t block_bytes_ = 0;
};

}  // namespace forebay::engine
