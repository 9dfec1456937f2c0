// SPDX-License-Identifier: Apache-2.0
#include "engine/reader.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/checksum.h"
#include "engine/eviction.h"
#include "store/checks.h"

namespace forebay::engine {

rt::Task<Result<store::ReadData>> Reader::Read(const store::Context& context, uint64_t offset,
                                               uint64_t length) {
  FB_CO_TRY(store::CheckDeadline(context, "read"));
  FB_CO_TRY(store::CheckRead(version_->bucket_name, info(), offset, length));
  if (length == 0) co_return store::ReadData();
  if (version_->state->pieces.empty()) co_return co_await ReadInline(context, offset, length);
  std::vector<BlockPart> parts = PartsOf(*version_->state, offset, length);
  if (LookUp(*version_, parts) != 0) {
    FB_CO_ASSIGN(parts, co_await FetchMissing(context, std::move(parts)));
  }
  co_return Gather(std::move(parts));
}

rt::Task<Result<store::ReadData>> Reader::ReadInline(const store::Context& context, uint64_t offset,
                                                     uint64_t length) {
  std::vector<size_t> sizes{static_cast<size_t>(length)};
  FB_CO_ASSIGN(std::vector<base::Buffer> memory,
               co_await version_->core.memory.Allocate(context.reactor, context.deadline, std::move(sizes)));
  std::memcpy(memory[0].writable().data(), version_->state->inline_content.data() + offset, length);
  store::ReadData data;
  data.size_bytes = length;
  data.crc32c = length == info().size_bytes ? info().crc32c : base::Crc32c(memory[0].view());
  data.buffers = std::move(memory);
  co_return data;
}

rt::Task<Result<std::vector<BlockPart>>> Reader::FetchMissing(const store::Context& context,
                                                              std::vector<BlockPart> parts) {
  auto fetch =
      std::make_shared<Fetch>();  // shared with the fetch, which goes on when the deadline comes first
  fetch->version = version_;
  fetch->parts = std::move(parts);
  fetch->deadline = context.deadline;
  FB_CO_ASSIGN(const bool ended, co_await version_->core.gates.RunUntil(context.reactor, context.deadline,
                                                                        RunFetch(context.reactor, fetch)));
  if (!ended)
    co_return Status::DeadlineExceeded(
        "reading `{}/{}` at offset {}: the device did not answer before the deadline", version_->bucket_name,
        info().key, fetch->parts[0].object_offset);
  if (fetch->status.code() == Code::kNotFound) RemoveGone(version_->core, context.reactor, *version_->state);
  FB_CO_TRY(fetch->status);
  co_return std::move(fetch->parts);
}

void Reader::AddZeros(uint64_t length, store::ReadData* data) const {
  const base::Buffer& zeros = version_->core.zeros;
  data->crc32c = base::Crc32cCombine(data->crc32c, base::Crc32cZeros(length), length);
  data->size_bytes += length;
  for (uint64_t left = length; left != 0;) {
    const uint64_t take = std::min<uint64_t>(left, zeros.size());
    data->buffers.push_back(zeros.Slice(0, take));
    left -= take;
  }
}

store::ReadData Reader::Gather(std::vector<BlockPart> parts) const {
  store::ReadData data;
  data.buffers.reserve(parts.size());
  for (BlockPart& part : parts) {
    if (part.is_hole()) {
      AddZeros(part.length, &data);
      continue;
    }
    const bool whole = part.length == part.content.size();
    base::Buffer bytes = whole ? std::move(part.content) : part.content.Slice(part.begin, part.length);
    const uint32_t crc32c = whole ? version_->state->extents[part.extent].record.checksums[part.block]
                                  : base::Crc32c(bytes.view());
    data.crc32c = base::Crc32cCombine(data.crc32c, crc32c, part.length);
    data.size_bytes += part.length;
    data.buffers.push_back(std::move(bytes));
  }
  return data;
}

}  // namespace forebay::engine
