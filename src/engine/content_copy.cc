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
constexpr uint64_t kStepBytes = 192 * base::kKiB;  // of content that is read at once

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
    : context_(context), writer_(core, context.reactor, std::move(name), total_bytes), left_(total_bytes) {
  writer_.NeedExtents();
  writer_.HoldsVersions();
}

rt::Task<Result<uint32_t>> ContentCopy::AddRange(OpenVersionPtr from, uint64_t offset, uint64_t length) {
  Reader reader(std::move(from));
  uint32_t sum = base::kCrc32cEmpty;
  for (uint64_t done = 0; done < length;) {
    const uint64_t step = std::min(kStepBytes, length - done);
    FB_CO_TRY(co_await writer_.SendHeld(context_));
    {
      FB_CO_ASSIGN(const store::ReadData data, co_await reader.Read(context_, offset + done, step));
      for (const base::Buffer& buffer : data.buffers) staged_ += AsText(buffer.view());
      sum = base::Crc32cCombine(sum, data.crc32c, step);
    }
    FB_CO_TRY(co_await WriteStaged());
    done += step;
  }
  co_return sum;
}

rt::Task<Result<uint32_t>> ContentCopy::AddZeros(uint64_t length) {
  for (uint64_t left = length; left != 0;) {
    const uint64_t step = std::min(left, kStepBytes);
    staged_.append(step, '\0');
    FB_CO_TRY(co_await WriteStaged());
    left -= step;
  }
  co_return base::Crc32cZeros(length);
}

rt::Task<Result<uint32_t>> ContentCopy::Add(std::string_view bytes) {
  staged_ += bytes;
  FB_CO_TRY(co_await WriteStaged());
  co_return base::Crc32c(AsBytes(bytes));
}

rt::Task<Status> ContentCopy::WriteStaged() {
  size_t begin = 0;
  while (staged_.size() - begin >= kBufferBytes || (staged_.size() - begin == left_ && left_ != 0)) {
    const std::string_view rest = std::string_view(staged_).substr(begin);
    FB_CO_ASSIGN(base::Buffer buffer,
                 co_await writer_.Allocate(context_, std::min<uint64_t>(rest.size(), kBufferBytes)));
    std::memcpy(buffer.writable().data(), rest.data(), buffer.size());
    begin += buffer.size();
    left_ -= buffer.size();
    FB_CO_TRY(co_await writer_.Write(context_, std::move(buffer)));
  }
  staged_.erase(0, begin);
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
