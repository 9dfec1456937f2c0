// SPDX-License-Identifier: Apache-2.0
#include "engine/content_copy.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checksum.h"
#include "engine/reader.h"
#include "store/checks.h"

namespace forebay::engine {
namespace {

/// Of a range whose checksum is worked out in one go.
constexpr uint64_t kChecksumStepBytes = 16 * base::kMiB;
constexpr uint64_t kBufferBytes = 64 * base::kKiB;

rt::Task<Result<uint32_t>> SumOfPart(const store::Context& context, const OpenVersionPtr& version,
                                     const BlockPart& part) {
  if (part.is_hole()) co_return base::Crc32cZeros(part.length);
  const ExtentRecord& record = version->state->extents[part.extent].record;
  const uint64_t block_begin = uint64_t{part.block} << record.block_shift;
  const uint64_t block_bytes = std::min(uint64_t{1} << record.block_shift, record.length_bytes - block_begin);
  if (part.length == block_bytes) co_return record.checksums[part.block];
  Reader reader(version);
  FB_CO_ASSIGN(const store::ReadData data, co_await reader.Read(context, part.object_offset, part.length));
  co_return data.crc32c;
}

}  // namespace

ContentCopy::ContentCopy(Core& core, const store::Context& context, std::string name, uint64_t total_bytes)
    : core_(core),
      context_(context),
      writer_(core, context.reactor, std::move(name), total_bytes),
      left_(total_bytes) {
  writer_.NeedExtents();
}

rt::Task<Result<uint32_t>> ContentCopy::AddRange(OpenVersionPtr from, uint64_t offset, uint64_t length) {
  Reader reader(std::move(from));
  uint32_t sum = base::kCrc32cEmpty;
  for (uint64_t done = 0; done < length;) {
    const uint64_t step = std::min<uint64_t>(base::kMaxChunkBytes, length - done);
    FB_CO_ASSIGN(const store::ReadData data, co_await reader.Read(context_, offset + done, step));
    for (const base::Buffer& buffer : data.buffers) FB_CO_TRY(co_await Fill(buffer.view()));
    sum = base::Crc32cCombine(sum, data.crc32c, step);
    done += step;
  }
  co_return sum;
}

rt::Task<Result<uint32_t>> ContentCopy::AddZeros(uint64_t length) {
  for (uint64_t left = length; left != 0;) {
    const uint64_t step = std::min<uint64_t>(left, core_.zeros.size());
    FB_CO_TRY(co_await Fill(core_.zeros.view().first(step)));
    left -= step;
  }
  co_return base::Crc32cZeros(length);
}

rt::Task<Result<uint32_t>> ContentCopy::Add(ByteView bytes) {
  FB_CO_TRY(co_await Fill(bytes));
  co_return base::Crc32c(bytes);
}

rt::Task<Status> ContentCopy::Fill(ByteView bytes) {
  while (!bytes.empty()) {
    if (buffer_.empty()) {
      FB_CO_ASSIGN(buffer_, co_await writer_.Allocate(context_, std::min(left_, kBufferBytes)));
      filled_ = 0;
    }
    const size_t take = std::min(bytes.size(), buffer_.size() - filled_);
    std::memcpy(buffer_.writable().data() + filled_, bytes.data(), take);
    bytes = bytes.subspan(take);
    filled_ += take;
    left_ -= take;
    if (filled_ == buffer_.size() || left_ == 0)
      FB_CO_TRY(co_await writer_.Write(context_, std::exchange(buffer_, {}).Slice(0, filled_)));
  }
  co_return Status();
}

rt::Task<Result<NewContent>> ContentCopy::Finish() {
  writer_.End();
  co_return co_await writer_.Finish(context_);
}

void NewRuns::Take(uint64_t length, std::vector<ContentRun>& runs) {
  while (length != 0) {
    const uint64_t take = std::min(length, extents_[extent_].length_bytes - offset_);
    const bool goes_on = !runs.empty() && runs.back().is_new && runs.back().extent == extent_ &&
                         runs.back().offset + runs.back().length == offset_;
    if (goes_on) {
      runs.back().length += take;
    } else {
      runs.push_back({.is_new = true, .extent = extent_, .offset = offset_, .length = take});
    }
    length -= take;
    offset_ += take;
    if (offset_ == extents_[extent_].length_bytes) {
      ++extent_;
      offset_ = 0;
    }
  }
}

rt::Task<Result<uint32_t>> SumOfRange(const store::Context& context, OpenVersionPtr version, uint64_t offset,
                                      uint64_t length) {
  if (length == 0) co_return base::kCrc32cEmpty;
  if (version->state->pieces.empty())
    co_return base::Crc32c(AsBytes(std::string_view(version->state->inline_content)).subspan(offset, length));
  uint32_t sum = base::kCrc32cEmpty;
  for (uint64_t done = 0; done < length;) {
    FB_CO_TRY(store::CheckDeadline(context, "checksum"));
    // Steps end where blocks do, as long as these were not composed themselves.
    const uint64_t to_border = kChecksumStepBytes - (offset + done) % kChecksumStepBytes;
    const uint64_t step = std::min(to_border, length - done);
    for (const BlockPart& part : PartsOf(*version->state, offset + done, step)) {
      FB_CO_ASSIGN(const uint32_t crc32c, co_await SumOfPart(context, version, part));
      sum = base::Crc32cCombine(sum, crc32c, part.length);
    }
    done += step;
    co_await context.reactor.Yield();
  }
  co_return sum;
}

}  // namespace forebay::engine
