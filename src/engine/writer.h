// SPDX-License-Identifier: Apache-2.0
// Writer: one put in progress. Content goes to reserved extents as it comes, a few device writes at a time,
// with a checksum of each block; up to kMaxInlineContent bytes stay in memory and go into the metadata.
// Commit waits for the writes and hands one transaction to the committer. A writer that is destroyed before
// gives its units back once its writes have ended. Reactor-local to the reactor of the call that made it.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/arena.h"
#include "engine/core.h"
#include "engine/operations.h"
#include "engine/transactions.h"
#include "rt/sync.h"
#include "store/object_store.h"

namespace forebay::engine {

class Writer final : public store::ObjectWriter {
 public:
  /// Device writes of one put in progress at a time, of at most kWriteBytes each.
  static constexpr size_t kMaxWrites = 8;
  static constexpr uint64_t kWriteBytes = base::kMiB;

  /// `core` is borrowed and outlives the writer.
  Writer(Core& core, rt::Reactor& reactor, store::Operation operation, std::string bucket_name,
         uint64_t bucket, std::string key, store::PutOptions options);

  rt::Task<Result<base::Buffer>> Allocate(const store::Context& context, size_t size) override;
  rt::Task<Status> Write(const store::Context& context, base::Buffer data) override;
  rt::Task<Result<store::ObjectInfo>> Commit(const store::Context& context,
                                             std::optional<uint32_t> crc32c) override;

 private:
  /// What the writes in progress need, which may outlive the writer.
  struct Shared {
    Shared(Core& engine_core, rt::Reactor& reactor)
        : core(engine_core), slots(reactor, kMaxWrites), writes(reactor) {}
    ~Shared();

    Core& core;
    rt::Semaphore slots;
    rt::WaitGroup writes;
    Status error;               // of the first write that failed
    std::vector<UnitRun> runs;  // reserved; released with this unless `keep`
    bool keep = false;
  };
  /// Memory of one device write.
  struct WriteMemory;

  struct PendingCommit {
    std::shared_ptr<Shared> shared;
    PutOutcome outcome;
    std::shared_ptr<OnceOutcome> once;  // with an operation id
    Status status;
  };

  static rt::Task<void> CommitTo(Core& core, rt::Reactor& reactor, store::Operation operation,
                                 PutRequest request, std::shared_ptr<PendingCommit> pending);
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
  Status BeginExtent(const store::Context& context, Urgency urgency);
  uint64_t NextExtentBytes(Urgency urgency) const;
  std::unique_ptr<WriteMemory> TakePending(uint64_t bytes);
  void Checksum(ByteView bytes);
  void EndBlock();
  void TrimLastExtent();
  rt::Task<Status> FinishContent(const store::Context& context, PutRequest& request);
  Status Fail(Status status);

  Core& core_;
  store::Operation operation_;
  const std::string bucket_name_;
  const uint64_t bucket_;
  const std::string key_;
  store::PutOptions options_;
  const std::shared_ptr<Shared> shared_;  // shared with the writes in progress
  bool ended_ = false;
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
