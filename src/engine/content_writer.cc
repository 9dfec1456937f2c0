// SPDX-License-Identifier: Apache-2.0
#include "engine/content_writer.h"

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

struct ContentWriter::WriteMemory {
  std::vector<base::Buffer> buffers;         // keeps the memory
  std::vector<device::AlignedBytes> copies;  // of the tail with its padding, and of what was not aligned
  std::vector<ByteView> views;               // in order
};

ContentWriter::ContentWriter(Core& core, rt::Reactor& reactor, std::string name, std::optional<uint64_t> size_bytes)
    : core_(core),
      name_(std::move(name)),
      announced_bytes_(size_bytes),
      shared_(std::make_shared<Shared>(core, reactor)) {}

Status ContentWriter::Fail(Status status) {
  if (failure_.ok()) failure_ = status;
  return status;
}

rt::Task<Result<base::Buffer>> ContentWriter::Allocate(const store::Context& context, size_t size) {
  FB_CO_TRY(store::CheckDeadline(context, "allocate"));
  if (size == 0) co_return Status::InvalidArgument("a buffer of 0 bytes: ask for at least 1");
  size = std::min(size, base::Arena::kMaxAllocation);
  if (std::optional<base::Buffer> buffer = core_.memory.TryAllocateUpTo(size)) co_return *std::move(buffer);
  // While it waits for memory a writer holds none back, or writers could wait for each other.
  FB_CO_TRY(co_await Issue(context, Urgency::kWhole));
  co_return co_await core_.memory.AllocateUpTo(context.reactor, context.deadline, size);
}

Status ContentWriter::state() const {
  if (ended_) return Status::FailedPrecondition("the put of `{}` has ended; begin another one", name_);
  return failure_;
}

Status ContentWriter::Check(const base::Buffer& data) const {
  FB_TRY(state());
  if (data.empty()) return {};
  if (size_bytes_ % device::kUnit != 0)
    return Status::InvalidArgument("only the last buffer of `{}` may have a size that is no multiple of {}", name_,
                                   device::kUnit);
  FB_TRY(store::CheckObjectSize(size_bytes_, data.size()));
  const uint64_t size = size_bytes_ + data.size();
  return size > announced_bytes_.value_or(size) ? store::CheckAnnouncedSize(announced_bytes_, size) : Status();
}

rt::Task<Status> ContentWriter::Write(const store::Context& context, base::Buffer data) {
  FB_CO_TRY(store::CheckDeadline(context, "write"));
  FB_CO_TRY(Check(data));
  if (data.empty()) co_return Status();
  size_bytes_ += data.size();
  pending_bytes_ += data.size();
  pending_.push_back(std::move(data));
  co_return co_await Issue(context, Urgency::kWorthIt);
}

rt::Task<Status> ContentWriter::Issue(const store::Context& context, Urgency urgency) {
  const bool last = urgency == Urgency::kLast;
  if (urgency == Urgency::kWorthIt && extents_.empty()) {
    if (pending_bytes_ <= hold_back_bytes_) co_return Status();
    // Without an announced size a small object is held back until its size is known, and gets just the units
    // it needs.
    if (!announced_bytes_ && pending_bytes_ < kGrowth.front()) co_return Status();
    if (announced_bytes_ && *announced_bytes_ <= kMaxInlineContent) co_return Status();
  }
  while (pending_bytes_ != 0) {
    const uint64_t whole = base::RoundDown(pending_bytes_, device::kUnit);
    if (!last && whole == 0) co_return Status();
    if (extents_.empty() || extents_.back().length_bytes == extents_.back().run.length_bytes())
      FB_CO_TRY(Fail(co_await BeginExtent(context, urgency)));
    const NewExtent& extent = extents_.back();
    const uint64_t room = std::min(kWriteBytes, extent.run.length_bytes() - extent.length_bytes);
    if (urgency == Urgency::kWorthIt && whole < room) co_return Status();
    FB_CO_TRY(co_await IssueOne(context, std::min(room, last ? pending_bytes_ : whole)));
  }
  co_return Status();
}

uint64_t ContentWriter::NextExtentBytes(Urgency urgency) const {
  uint64_t want = kWriterExtentBytes;
  if (urgency == Urgency::kLast) {
    want = pending_bytes_;
  } else if (announced_bytes_) {
    want = *announced_bytes_ - issued_bytes_;
  } else if (extents_.size() < kGrowth.size()) {
    want = kGrowth[extents_.size()];
  }
  if (issued_bytes_ < cut_bytes_) want = std::min(want, cut_bytes_ - issued_bytes_);
  // No extent crosses the border of a segment, so that each segment has a map of its own.
  want = std::min(want, kSegmentBytes - issued_bytes_ % kSegmentBytes);
  return std::min(want, kWriterExtentBytes);
}

rt::Task<Status> ContentWriter::BeginExtent(const store::Context& context, Urgency urgency) {
  FB_CO_TRY(core_.health());
  const auto units = static_cast<uint32_t>(base::DivideUp(NextExtentBytes(urgency), device::kUnit));
  FB_CO_ASSIGN(const UnitRun run, co_await ReserveUnits(core_, context, units, wait_));
  EndBlock();
  extents_.push_back({.run = run, .length_bytes = 0, .checksums = {}});
  shared_->units->Add(run);
  if (units < Allocator::kSmallUnits) ZeroAhead(core_, context.reactor);
  co_return Status();
}

rt::Task<Status> ContentWriter::IssueOne(const store::Context& context, uint64_t bytes) {
  if (!co_await shared_->slots.Acquire(1, {.deadline = context.deadline}))
    co_return Fail(Status::DeadlineExceeded(
        "put of `{}`: the device writes did not end before the deadline", name_));
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
  co_return Fail(Status::Unavailable("the store is closing: put of `{}` is refused", name_));
}

/// The next `bytes` as memory for a device write; they are multiples of the unit but for the very last. Takes
/// their checksums.
std::unique_ptr<ContentWriter::WriteMemory> ContentWriter::TakePending(uint64_t bytes) {
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
void ContentWriter::Checksum(ByteView bytes) {
  while (!bytes.empty()) {
    const ByteView part = bytes.first(std::min<size_t>(bytes.size(), kBlockBytes - block_bytes_));
    block_crc32c_ = base::Crc32cExtend(block_crc32c_, part);
    block_bytes_ += part.size();
    if (block_bytes_ == kBlockBytes) EndBlock();
    bytes = bytes.subspan(part.size());
  }
}

void ContentWriter::EndBlock() {
  if (block_bytes_ == 0) return;
  extents_.back().checksums.push_back(block_crc32c_);
  content_crc32c_ = base::Crc32cCombine(content_crc32c_, block_crc32c_, block_bytes_);
  block_crc32c_ = base::kCrc32cEmpty;
  block_bytes_ = 0;
}

rt::Task<void> ContentWriter::WriteOut(std::shared_ptr<Shared> shared, rt::Reactor& reactor, uint32_t device,
                                uint64_t offset, std::unique_ptr<WriteMemory> memory) {
  const Status status = co_await shared->core.devices.Write(reactor, device, offset, memory->views);
  memory.reset();
  if (!status.ok() && shared->error.ok()) shared->error = status;
  shared->slots.Release();
  shared->writes.Done();
}

/// Gives back what the last extent has too much.
void ContentWriter::TrimLastExtent() {
  if (extents_.empty()) return;
  NewExtent& extent = extents_.back();
  extent.run.units = static_cast<uint32_t>(base::DivideUp(extent.length_bytes, device::kUnit));
  shared_->units->TrimLast(extent.run.units);
}

std::optional<std::string> ContentWriter::TakeHeld() {
  if (!extents_.empty() || size_bytes_ > hold_back_bytes_) return std::nullopt;
  std::string held;
  held.reserve(size_bytes_);
  for (const base::Buffer& buffer : pending_) held += AsText(buffer.view());
  pending_.clear();
  return held;
}

rt::Task<Result<NewContent>> ContentWriter::Finish(const store::Context& context) {
  NewContent content{.size_bytes = size_bytes_};
  if (extents_.empty() && size_bytes_ <= (may_be_inline_ ? kMaxInlineContent : 0)) {
    for (const base::Buffer& buffer : pending_) content.inline_content.append(AsText(buffer.view()));
    pending_.clear();
    content.crc32c = base::Crc32c(AsBytes(content.inline_content));
    co_return content;
  }
  FB_CO_TRY(co_await Issue(context, Urgency::kLast));
  EndBlock();
  TrimLastExtent();
  if (!co_await shared_->writes.Wait({.deadline = context.deadline}))
    co_return Status::DeadlineExceeded("put of `{}`: the device writes did not end before the deadline", name_);
  FB_CO_TRY(shared_->error);
  content.crc32c = content_crc32c_;
  content.extents = std::move(extents_);
  content.units = shared_->units;
  co_return content;
}

}  // namespace forebay::engine
