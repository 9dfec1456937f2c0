// SPDX-License-Identifier: Apache-2.0
#include "engine/copy.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "device/aligned_bytes.h"
#include "engine/block_copies.h"
#include "engine/block_owners.h"
#include "engine/loader.h"
#include "engine/row_frame.h"
#include "engine/rows.h"
#include "engine/scrub_row.h"
#include "rt/when_all.h"

namespace forebay::engine {
namespace {

using meta::Family;

/// Rows of one commit.
constexpr size_t kBatchOfRowsBytes = base::kMiB;
/// Of content, one device read; a multiple of every block's size.
constexpr uint64_t kChunkBytes = uint64_t{1} << kMaxBlockShift;
/// Content on its way, and how many pieces it may be in.
constexpr uint64_t kOnTheWayBytes = 4 * base::kMiB;
constexpr size_t kMaxChunks = 32;
constexpr base::Duration kLongestPause = std::chrono::milliseconds(100);

struct Row {
  Family family;
  std::string key;
  std::string value;
};

class RowsTransaction final : public meta::Transaction {
 public:
  explicit RowsTransaction(std::vector<Row> rows) : rows_(std::move(rows)) {}
  Status Prepare(meta::View& /*view*/, meta::Batch& batch) override {
    for (const Row& row : rows_) batch.Put(row.family, row.key, row.value);
    return {};
  }
  bool needs_data_flush() const override { return false; }
  void Done(const Status& /*outcome*/) override {}

 private:
  const std::vector<Row> rows_;
};

/// Of inline content the object's record knows the checksum, and the metadata store checks its own.
Status CheckRow(Family family, std::string_view key, std::string_view value) {
  if (family == Family::kInline) return {};
  return Unseal({.kind = "metadata", .row_key = key}, value, UINT8_MAX).status();
}

/// Who has bytes of a block that is damaged: the first that is found, in words. `go_on` is asked now and then.
std::string DamageOf(meta::MetaStore& rows, const ExtentRange& block, const std::function<bool()>& go_on) {
  const Result<std::vector<std::vector<BlockOwner>>> owners = FindOwners(rows, {block}, 1, go_on);
  if (!owners.ok()) return "content is damaged, of which object was not found out";
  if (owners->front().empty()) return "content that no object uses is damaged";
  const BlockOwner& owner = owners->front().front();
  return fmt::format("{} is damaged at offset {}", owner.name, owner.offset);
}

}  // namespace

/// Some blocks of an extent, which lie one after the other.
struct StoreCopier::Chunk {
  uint64_t extent = 0;
  uint64_t begin = 0;  // in the extent
  uint64_t length = 0;
  uint32_t device = 0;
  uint64_t offset = 0;  // on the device
  uint64_t block_bytes = 0;
  bool cache = false;  // what does not match is gone, and is copied as it is
  std::vector<uint32_t> checksums;
  MutableByteView memory;  // whole units
  std::optional<size_t> damaged_block;

  MutableByteView BlockMemory(size_t block) const {
    const uint64_t at = block * block_bytes;
    return memory.subspan(at, std::min(block_bytes, memory.size() - at));
  }
  bool Matches(size_t block, ByteView content) const {
    return base::Crc32c(content.first(std::min(block_bytes, length - block * block_bytes))) == checksums[block];
  }
};

rt::Task<Status> StoreCopier::CopyRows(meta::Snapshot& moment, meta::MetaStore& target, Uuid store) {
  uint64_t total = 0;
  for (size_t number = 0; number < meta::kFamilies; ++number) {
    const auto family = static_cast<Family>(number);
    const std::unique_ptr<meta::Scan> scan = moment.NewScan(family, {});
    scan->Seek({});
    while (scan->Valid()) {
      std::vector<Row> rows;
      size_t bytes = 0;
      for (; scan->Valid() && bytes < kBatchOfRowsBytes; scan->Next()) {
        const std::string_view key = scan->key();
        if (family == Family::kSystem && (key == meta::kCommitKey || key == kScrubKey)) continue;  // the target's own
        FB_CO_TRY(CheckRow(family, key, scan->value()));
        const bool identity = family == Family::kSystem && key == kIdentityKey;
        std::string value(scan->value());
        if (identity) {
          FB_CO_ASSIGN(value, EncodeIdentityLike(scan->value(), store));
        }
        rows.push_back({family, std::string(key), std::move(value)});
        bytes += rows.back().key.size() + rows.back().value.size();
        if (family != Family::kExtents) continue;
        FB_CO_ASSIGN(const ExtentRecord extent, DecodeExtent(key, scan->value()));
        total += extent.length_bytes;
      }
      FB_CO_TRY(scan->status());
      if (rows.empty()) continue;
      FB_CO_TRY(co_await target.Commit(reactor_, std::make_unique<RowsTransaction>(std::move(rows))));
      FB_CO_TRY(co_await Pace(bytes));
    }
    FB_CO_TRY(scan->status());
  }
  progress_.total_bytes = total;
  co_return Watch();
}

rt::Task<Status> StoreCopier::CopyContent(meta::MetaStore& rows, Devices& from, Devices& to) {
  device::AlignedBytes memory(kOnTheWayBytes);
  std::vector<Chunk> chunks;
  uint64_t used = 0;
  const std::unique_ptr<meta::Scan> scan = rows.NewScan(Family::kExtents, {});
  for (scan->Seek({}); scan->Valid(); scan->Next()) {
    FB_CO_ASSIGN(const uint64_t id, DecodeNumberKey(scan->key()));
    FB_CO_ASSIGN(const ExtentRecord record, DecodeExtent(scan->key(), scan->value()));
    FB_CO_TRY(CheckPlace(id, record, from));
    FB_CO_TRY(CheckPlace(id, record, to));
    const uint64_t block_bytes = uint64_t{1} << record.block_shift;
    for (uint64_t begin = 0; begin < record.length_bytes; begin += kChunkBytes) {
      const uint64_t length = std::min(kChunkBytes, record.length_bytes - begin);
      const uint64_t space = base::RoundUp(length, device::kUnit);
      if (used + space > memory.size() || chunks.size() == kMaxChunks) {
        FB_CO_TRY(co_await CopyChunks(chunks, rows, from, to));
        chunks.clear();
        used = 0;
      }
      const auto first = record.checksums.begin() + static_cast<ptrdiff_t>(begin / block_bytes);
      chunks.push_back(
          {.extent = id,
           .begin = begin,
           .length = length,
           .device = record.device,
           .offset = record.first_unit * device::kUnit + begin,
           .block_bytes = block_bytes,
           .cache = record.cache,
           .checksums = {first, first + static_cast<ptrdiff_t>(base::DivideUp(length, block_bytes))},
           .memory = memory.writable().subspan(used, space)});
      used += space;
    }
  }
  FB_CO_TRY(scan->status());
  FB_CO_TRY(co_await CopyChunks(chunks, rows, from, to));
  for (uint32_t id = 0; id < to.size(); ++id) FB_CO_TRY(co_await to.at(id).Flush(reactor_));
  co_return Status();
}

rt::Task<Status> StoreCopier::CopyChunks(std::vector<Chunk>& chunks, meta::MetaStore& rows, Devices& from,
                                         Devices& to) {
  std::vector<rt::Task<Status>> copies;
  copies.reserve(chunks.size());
  for (Chunk& chunk : chunks) copies.push_back(CopyChunk(chunk, from, to));
  const std::vector<Status> outcomes = co_await rt::WhenAll(std::move(copies));
  uint64_t bytes = 0;
  for (size_t i = 0; i < chunks.size(); ++i) {
    const Chunk& chunk = chunks[i];
    if (chunk.damaged_block) {
      const uint64_t begin = chunk.begin + *chunk.damaged_block * chunk.block_bytes;
      const ExtentRange block{.extent = chunk.extent,
                              .begin = begin,
                              .end = std::min(begin + chunk.block_bytes, chunk.begin + chunk.length)};
      co_return Status::DataLoss("{}: {}", DamageOf(rows, block, [this] { return Watch().ok(); }),
                                 outcomes[i].message());
    }
    FB_CO_TRY(outcomes[i]);
    bytes += chunk.length;
  }
  progress_.copied_bytes += bytes;
  co_return co_await Pace(bytes);
}

rt::Task<Status> StoreCopier::CopyChunk(Chunk& chunk, Devices& from, Devices& to) {
  const Status read = co_await from.Read(reactor_, chunk.device, chunk.offset, {&chunk.memory, 1});
  if (!read.ok() && read.code() != Code::kDataLoss) co_return read;
  for (size_t block = 0; block < chunk.checksums.size(); ++block) {
    if (read.ok() && chunk.Matches(block, chunk.BlockMemory(block))) continue;
    // Once more, and from the mirror.
    const uint64_t offset = chunk.offset + block * chunk.block_bytes;
    const auto matches = [&chunk, block](ByteView content) { return chunk.Matches(block, content); };
    const BlockCopies copies =
        co_await CheckCopies(reactor_, from, chunk.device, offset, chunk.BlockMemory(block), matches);
    if (copies.right) continue;
    if (chunk.cache) {  // the objects that have it are gone, here and there
      std::ranges::fill(chunk.BlockMemory(block), std::byte{0});
      continue;
    }
    chunk.damaged_block = block;
    if (!copies.failure.ok()) co_return copies.failure;
    co_return Status::DataLoss("unit {} of {} does not match its checksum (extent {})", offset / device::kUnit,
                               from.at(chunk.device).name(), chunk.extent);
  }
  std::ranges::fill(chunk.memory.subspan(chunk.length), std::byte{0});
  const ByteView content = chunk.memory;
  co_return co_await to.Write(reactor_, chunk.device, chunk.offset, {&content, 1});
}

rt::Task<Status> StoreCopier::Pace(uint64_t bytes) {
  FB_CO_TRY(Watch());
  if (options_.bytes_per_second == 0) co_return Status();
  const double seconds = static_cast<double>(bytes) / static_cast<double>(options_.bytes_per_second);
  next_ = base::DeadlineAfter(
      std::max(next_, reactor_.Now()),
      std::chrono::duration_cast<base::Duration>(std::chrono::duration<double>(std::min(seconds, 3600.0))));
  while (reactor_.Now() < next_) {
    (void)co_await reactor_.SleepUntil(std::min(next_, reactor_.Now() + kLongestPause));
    FB_CO_TRY(Watch());
  }
  co_return Status();
}

}  // namespace forebay::engine
