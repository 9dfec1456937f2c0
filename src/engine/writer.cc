// SPDX-License-Identifier: Apache-2.0
#include "engine/writer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/checksum.h"
#include "device/aligned_bytes.h"
#include "store/checks.h"

namespace forebay::engine {
namespace {

constexpr uint64_t kBlockBytes = uint64_t{1} << kWriterBlockShift;
/// The first extents of a put of unknown size: small objects should not reserve much, large ones want few
/// extents.
constexpr std::array<uint64_t, 3> kGrowth = {256 * base::kKiB, base::kMiB, kWriterExtentBytes};

}  // namespace

struct Writer::WriteMemory {
  std::vector<base::Buffer> buffers;         // keeps the memory
  std::vector<device::AlignedBytes> copies;  // of the tail with its padding, and of what was not aligned
  std::vector<ByteView> views;               // in order
};

Writer::Shared::~Shared() {
  if (keep) return;
  for (const UnitRun& run : runs) core.allocator.Release(run);
}

Writer::Writer(Core& core, rt::Reactor& reactor, store::Operation operation, std::string bucket_name,
               uint64_t bucket, std::string key, store::PutOptions options)
    : core_(core),
      operation_(operation),
      bucket_name_(std::move(bucket_name)),
      bucket_(bucket),
      key_(std::move(key)),
      options_(std::move(options)),
      shared_(std::make_shared<Shared>(core, reactor)) {}

Status Writer::Fail(Status status) {
  if (failure_.ok()) failure_ = status;
  return status;
}

rt::Task<Result<base::Buffer>> Writer::Allocate(const store::Context& context, size_t size) {
  FB_CO_TRY(store::CheckDeadline(context, "allocate"));
  if (size == 0) co_return Status::InvalidArgument("a buffer of 0 bytes: ask for at least 1");
  size = std::min(size, base::Arena::kMaxAllocation);
  if (std::optional<base::Buffer> buffer = core_.memory.TryAllocateUpTo(size)) co_return *std::move(buffer);
  // While it waits for memory a writer holds none back, or writers could wait for each other.
  FB_CO_TRY(co_await Issue(context, Urgency::kWhole));
  co_return co_await core_.memory.AllocateUpTo(context.reactor, context.deadline, size);
}

Status Writer::Check(const base::Buffer& data) const {
  if (ended_)
    return Status::FailedPrecondition("the put of `{}/{}` has ended; begin another one", bucket_name_, key_);
  FB_TRY(failure_);
  if (data.empty()) return {};
  if (size_bytes_ % device::kUnit != 0)
    return Status::InvalidArgument(
        "only the last buffer of `{}/{}` may have a size that is no multiple of {}", bucket_name_, key_,
        device::kUnit);
  FB_TRY(store::CheckObjectSize(size_bytes_, data.size()));
  const uint64_t size = size_bytes_ + data.size();
  return options_.size_bytes && size > *options_.size_bytes ? store::CheckAnnouncedSize(options_, size)
                                                            : Status();
}

rt::Task<Status> Writer::Write(const store::Context& context, base::Buffer data) {
  FB_CO_TRY(store::CheckDeadline(context, "write"));
  FB_CO_TRY(Check(data));
  if (data.empty()) co_return Status();
  size_bytes_ += data.size();
  pending_bytes_ += data.size();
  pending_.push_back(std::move(data));
  co_return co_await Issue(context, Urgency::kWorthIt);
}

rt::Task<Status> Writer::Issue(const store::Context& context, Urgency urgency) {
  const bool last = urgency == Urgency::kLast;
  if (urgency == Urgency::kWorthIt && extents_.empty()) {
    // Without an announced size a small object is held back until its size is known, and gets just the units
    // it needs.
    if (!options_.size_bytes && pending_bytes_ < kGrowth.front()) co_return Status();
    if (options_.size_bytes && *options_.size_bytes <= kMaxInlineContent) co_return Status();
  }
  while (pending_bytes_ != 0) {
    const uint64_t whole = base::RoundDown(pending_bytes_, device::kUnit);
    if (!last && whole == 0) co_return Status();
    if (extents_.empty() || extents_.back().length_bytes == extents_.back().run.length_bytes())
      FB_CO_TRY(Fail(BeginExtent(context, urgency)));
    const NewExtent& extent = extents_.back();
    const uint64_t room = std::min(kWriteBytes, extent.run.length_bytes() - extent.length_bytes);
    if (urgency == Urgency::kWorthIt && whole < room) co_return Status();
    FB_CO_TRY(co_await IssueOne(context, std::min(room, last ? pending_bytes_ : whole)));
  }
  co_return Status();
}

uint64_t Writer::NextExtentBytes(Urgency urgency) const {
  uint64_t want = kWriterExtentBytes;
  if (urgency == Urgency::kLast) {
    want = pending_bytes_;
  } else if (options_.size_bytes) {
    want = *options_.size_bytes - issued_bytes_;
  } else if (extents_.size() < kGrowth.size()) {
    want = kGrowth[extents_.size()];
  }
  // No extent crosses the border of a segment, so that each segment has a map of its own.
  want = std::min(want, kSegmentBytes - issued_bytes_ % kSegmentBytes);
  return std::min(want, kWriterExtentBytes);
}

Status Writer::BeginExtent(const store::Context& context, Urgency urgency) {
  FB_TRY(core_.health());
  const auto units = static_cast<uint32_t>(base::DivideUp(NextExtentBytes(urgency), device::kUnit));
  Result<UnitRun> run = core_.allocator.Reserve(units);
  if (!run.ok()) {
    core_.epochs.Collect();
    run = core_.allocator.Reserve(units);
    if (!run.ok()) return run.error();
  }
  EndBlock();
  extents_.push_back({.run = *run, .length_bytes = 0, .checksums = {}});
  shared_->runs.push_back(*run);
  if (units < Allocator::kSmallUnits) ZeroAhead(core_, context.reactor);
  return {};
}

rt::Task<Status> Writer::IssueOne(const store::Context& context, uint64_t bytes) {
  if (!co_await shared_->slots.Acquire(1, {.deadline = context.deadline}))
    co_return Fail(Status::DeadlineExceeded(
        "put of `{}/{}`: the device writes did not end before the deadline", bucket_name_, key_));
  if (!shared_->error.ok()) {
    shared_->slots.Release();
    co_return Fail(shared_->error);
  }
  NewExtent& extent = extents_.back();
  const uint64_t offset = extent.run.offset_bytes() + extent.length_bytes;
  std::unique_ptr<WriteMemory> memory = TakePending(bytes);
  extent.length_bytes += bytes;
  issued_bytes_ += bytes;
  shared_->writes.Add();
  if (core_.gates.Spawn(context.reactor,
                        WriteOut(shared_, context.reactor, extent.run.device, offset, std::move(memory))))
    co_return Status();
  shared_->writes.Done();
  shared_->slots.Release();
  co_return Fail(Status::Unavailable("the store is closing: put of `{}/{}` is refused", bucket_name_, key_));
}

/// The next `bytes` as memory for a device write; they are multiples of the unit but for the very last. Takes
/// their checksums.
std::unique_ptr<Writer::WriteMemory> Writer::TakePending(uint64_t bytes) {
  auto memory = std::make_unique<WriteMemory>();
  pending_bytes_ -= bytes;
  while (bytes != 0) {
    base::Buffer& front = pending_.front();
    const auto length = static_cast<size_t>(std::min<uint64_t>(front.size(), bytes));
    base::Buffer part = front.Slice(0, length);
    if (length == front.size()) {
      pending_.pop_front();
    } else {
      front = front.Slice(length, front.size() - length);
    }
    Checksum(part.view());
    const bool aligned = reinterpret_cast<uintptr_t>(part.data()) % device::kUnit == 0;
    const size_t direct = aligned ? base::RoundDown(length, device::kUnit) : 0;
    if (direct != 0) memory->views.push_back(part.view().first(direct));
    if (direct != length) {
      device::AlignedBytes& copy = memory->copies.emplace_back(length - direct);
      std::memcpy(copy.data(), part.data() + direct, length - direct);
      memory->views.push_back(copy.view());
    }
    memory->buffers.push_back(std::move(part));
    bytes -= length;
  }
  return memory;
}

/// `bytes` follow what the last extent has.
void Writer::Checksum(ByteView bytes) {
  while (!bytes.empty()) {
    const ByteView part = bytes.first(std::min<size_t>(bytes.size(), kBlockBytes - block_bytes_));
    block_crc32c_ = base::Crc32cExtend(block_crc32c_, part);
    block_bytes_ += part.size();
    if (block_bytes_ == kBlockBytes) EndBlock();
    bytes = bytes.subspan(part.size());
  }
}

void Writer::EndBlock() {
  if (block_bytes_ == 0) return;
  extents_.back().checksums.push_back(block_crc32c_);
  content_crc32c_ = base::Crc32cCombine(content_crc32c_, block_crc32c_, block_bytes_);
  block_crc32c_ = base::kCrc32cEmpty;
  block_bytes_ = 0;
}

rt::Task<void> Writer::WriteOut(std::shared_ptr<Shared> shared, rt::Reactor& reactor, uint32_t device,
                                uint64_t offset, std::unique_ptr<WriteMemory> memory) {
  const Status status = co_await shared->core.devices.Write(reactor, device, offset, memory->views);
  memory.reset();
  if (!status.ok() && shared->error.ok()) shared->error = status;
  shared->slots.Release();
  shared->writes.Done();
}

/// Gives back what the last extent has too much.
void Writer::TrimLastExtent() {
  if (extents_.empty()) return;
  NewExtent& extent = extents_.back();
  const auto used = static_cast<uint32_t>(base::DivideUp(extent.length_bytes, device::kUnit));
  core_.allocator.Release({.device = extent.run.device,
                           .first_unit = extent.run.first_unit + used,
                           .units = extent.run.units - used});
  extent.run.units = used;
  shared_->runs.back().units = used;
}

/// Brings all content to where it stays, as far as it can be without the commit.
rt::Task<Status> Writer::FinishContent(const store::Context& context, PutRequest& request) {
  if (extents_.empty() && size_bytes_ <= kMaxInlineContent) {
    for (const base::Buffer& buffer : pending_) request.inline_content.append(AsText(buffer.view()));
    pending_.clear();
    content_crc32c_ = base::Crc32c(AsBytes(request.inline_content));
  } else {
    FB_CO_TRY(co_await Issue(context, Urgency::kLast));
    EndBlock();
    TrimLastExtent();
    if (!co_await shared_->writes.Wait({.deadline = context.deadline}))
      co_return Status::DeadlineExceeded("put of `{}/{}`: the device writes did not end before the deadline",
                                         bucket_name_, key_);
    FB_CO_TRY(shared_->error);
  }
  request.size_bytes = size_bytes_;
  request.crc32c = content_crc32c_;
  co_return Status();
}

rt::Task<Result<store::ObjectInfo>> Writer::Commit(const store::Context& context,
                                                   std::optional<uint32_t> crc32c) {
  FB_CO_TRY(store::CheckDeadline(context, "commit"));
  FB_CO_TRY(Check({}));
  ended_ = true;
  FB_CO_TRY(store::CheckAnnouncedSize(options_, size_bytes_));
  FB_CO_TRY(core_.health());
  FB_CO_ASSIGN(operation_, store::CommitOperation(operation_, context, bucket_name_, key_, options_,
                                                  core_.operations.NowMs()));
  PutRequest request{.bucket_name = bucket_name_,
                     .bucket = bucket_,
                     .key = key_,
                     .condition = options_.condition,
                     .metadata = options_.metadata,
                     .etag = options_.etag};
  FB_CO_TRY(co_await FinishContent(context, request));
  FB_CO_TRY(store::CheckContent(crc32c, request.crc32c, bucket_name_, key_));
  request.extents = std::move(extents_);
  operation_.content = store::Content{.size_bytes = request.size_bytes, .crc32c = request.crc32c};
  auto pending = std::make_shared<PendingCommit>();  // shared with the commit, which goes on when the
                                                     // deadline comes first
  pending->shared = shared_;
  FB_CO_ASSIGN(const bool ended, co_await core_.gates.RunUntil(context.reactor, context.deadline,
                                                               CommitTo(core_, context.reactor, operation_,
                                                                        std::move(request), pending)));
  if (!ended) co_return CommitIsLate().WithContext(fmt::format("put of `{}/{}`", bucket_name_, key_));
  if (pending->once != nullptr) LetGoOfOperations(core_, context.reactor);  // also when the table is full
  FB_CO_TRY(pending->status);
  if (pending->once == nullptr) co_return std::move(pending->outcome.info);
  if (pending->once->earlier) co_return store::ResultOfPut(*pending->once->earlier, key_, options_.metadata);
  FB_CO_TRY(pending->once->refusal);
  co_return std::move(pending->outcome.info);
}

rt::Task<void> Writer::CommitTo(Core& core, rt::Reactor& reactor, store::Operation operation,
                                PutRequest request, std::shared_ptr<PendingCommit> pending) {
  std::unique_ptr<meta::Transaction> put = MakePut(core, std::move(request), &pending->outcome);
  if (!operation.id.IsNone()) {
    pending->once = std::make_shared<OnceOutcome>();
    put = MakeOnce(core.operations, operation, std::move(put), &pending->outcome.info,
                   pending->once);
  }
  pending->status = co_await core.meta->Commit(reactor, std::move(put));
  // A group that failed may be on the media all the same: its units must not be written again before a
  // restart looked.
  pending->shared->keep = pending->outcome.prepared;
}

}  // namespace forebay::engine
