// SPDX-License-Identifier: Apache-2.0
#include "engine/fetch.h"

#include <algorithm>
#include <array>
#include <span>
#include <unordered_map>
#include <utility>

#include "base/checksum.h"
#include "engine/block_copies.h"
#include "rt/when_all.h"
#include "store/cache_class.h"

namespace forebay::engine {
namespace {

/// One block of the version as its extent's record describes it.
class Block {
 public:
  Block(const ObjectState& state, const BlockPart& part)
      : record_(state.extents[part.extent].record), id_(state.extents[part.extent].id), index_(part.block) {}

  BlockKey key() const { return {id_, index_}; }
  uint32_t device() const { return record_.device; }
  bool is_cache() const { return record_.cache; }
  uint64_t device_offset() const { return record_.first_unit * device::kUnit + begin(); }
  uint64_t content_bytes() const {
    return std::min(uint64_t{1} << record_.block_shift, record_.length_bytes - begin());
  }
  uint64_t device_bytes() const { return base::RoundUp(content_bytes(), device::kUnit); }
  bool Matches(ByteView content) const { return base::Crc32c(content) == record_.checksums[index_]; }

 private:
  uint64_t begin() const { return uint64_t{index_} << record_.block_shift; }

  const ExtentRecord& record_;
  const uint64_t id_;
  const uint32_t index_;
};

/// A block that this fetch reads, with memory for it.
struct Claimed {
  BlockPart* part;
  base::Buffer memory;
};

class Fetcher {
 public:
  Fetcher(rt::Reactor& reactor, Fetch& fetch)
      : reactor_(reactor),
        fetch_(fetch),
        version_(*fetch.version),
        core_(version_.core),
        state_(*version_.state) {}

  rt::Task<Status> Run() {
    while (true) {
      // A block that was overwritten here and there has several parts: it is read once.
      std::vector<BlockPart*> missing;
      std::unordered_map<BlockKey, const BlockPart*, BlockKeyHash> blocks;
      for (BlockPart& part : fetch_.parts)
        if (IsMissing(part) && blocks.try_emplace(Block(state_, part).key(), &part).second) missing.push_back(&part);
      if (missing.empty()) co_return Status();
      if (fetch_.deadline != base::kNever && reactor_.Now() >= fetch_.deadline)
        co_return Status::DeadlineExceeded("reading `{}/{}`: the deadline passed", version_.bucket_name,
                                           state_.info.key);
      FB_CO_TRY(co_await FetchOnce(missing));
      for (BlockPart& part : fetch_.parts)
        if (IsMissing(part)) part.content = blocks.at(Block(state_, part).key())->content;
    }
  }

 private:
  static bool IsMissing(const BlockPart& part) { return part.content.empty() && !part.is_hole(); }


  /// Reads what nobody else reads and then waits for the rest, which may fail to come.
  rt::Task<Status> FetchOnce(const std::vector<BlockPart*>& missing) {
    // Memory first: who has claimed a block must not wait for memory that those hold who wait for the block.
    std::vector<size_t> sizes;
    sizes.reserve(missing.size());
    for (const BlockPart* part : missing) sizes.push_back(Block(state_, *part).device_bytes());
    FB_CO_ASSIGN(std::vector<base::Buffer> memory,
                 co_await core_.memory.Allocate(reactor_, fetch_.deadline, std::move(sizes)));
    std::vector<Claimed> claimed;
    std::vector<BlockPart*> joined;
    for (size_t i = 0; i < missing.size(); ++i) {
      const BlockKey key = Block(state_, *missing[i]).key();
      if (!core_.flights.Claim(key)) {
        joined.push_back(missing[i]);
      } else if (base::Buffer landed = core_.tier.Lookup(key); !landed.empty()) {
        missing[i]->content = landed;  // since we looked first
        core_.flights.Land(key, landed);
      } else {
        claimed.push_back({missing[i], std::move(memory[i])});
      }
    }
    memory.clear();
    FB_CO_TRY(co_await ReadClaimed(claimed));
    for (BlockPart* part : joined)
      part->content = co_await core_.flights.Join(reactor_, fetch_.deadline, Block(state_, *part).key());
    co_return Status();
  }

  /// Neighbouring blocks go in one device read.
  rt::Task<Status> ReadClaimed(std::vector<Claimed>& claimed) {
    std::vector<rt::Task<Status>> reads;
    for (size_t i = 0; i < claimed.size();) {
      size_t end = i + 1;
      while (end < claimed.size() && claimed[end].part->extent == claimed[i].part->extent &&
             claimed[end].part->block == claimed[end - 1].part->block + 1)
        ++end;
      reads.push_back(ReadRun(std::span(claimed).subspan(i, end - i)));
      i = end;
    }
    if (reads.size() == 1) co_return co_await std::move(reads.front());
    Status first;
    for (const Status& status : co_await rt::WhenAll(std::move(reads)))
      if (first.ok()) first = status;
    co_return first;
  }

  rt::Task<Status> ReadRun(std::span<Claimed> run) {
    std::vector<MutableByteView> views;
    views.reserve(run.size());
    for (Claimed& one : run) views.push_back(one.memory.writable());
    const Block first(state_, *run[0].part);
    Status status = co_await core_.devices.Read(reactor_, first.device(), first.device_offset(), views);
    if (status.code() == Code::kDataLoss && first.is_cache())
      status = store::CachedObjectIsGone(version_.bucket_name, state_.info.key);
    else if (!status.ok())
      status =
          Status(status.code(), fmt::format("object `{}/{}` at offset {}: {}", version_.bucket_name,
                                            state_.info.key, run[0].part->object_offset, status.message()));
    // Of a mirror each block may have a copy that can be read, though the run as a whole had none.
    const bool was_read = status.ok();
    const bool has_copies = core_.devices.at(first.device()).copies() > 1;
    if (!was_read && has_copies) status = Status();
    for (Claimed& one : run) {
      const Block block(state_, *one.part);
      base::Buffer content;
      if (was_read || has_copies) {
        const Status verified = co_await Verify(block, *one.part, one.memory, was_read);
        if (verified.ok()) content = one.memory.Slice(0, block.content_bytes());
        if (status.ok()) status = verified;
      }
      if (!content.empty()) core_.tier.Insert(block.key(), content);
      core_.flights.Land(block.key(), content);
      one.part->content = std::move(content);
    }
    co_return status;
  }

  rt::Task<Status> Verify(const Block& block, const BlockPart& part, base::Buffer& memory, bool was_read) {
    const auto matches = [&](ByteView content) { return block.Matches(content.first(block.content_bytes())); };
    if (was_read && matches(memory.view())) co_return Status();
    const device::Device& device = core_.devices.at(block.device());
    const BlockCopies copies =
        co_await CheckCopies(reactor_, core_.devices, block.device(), block.device_offset(), memory.writable(), matches);
    const uint64_t unit = block.device_offset() / device::kUnit;
    if (copies.right && copies.wrong == 0) {
      core_.log.Warning(
          "{}: unit {} was read wrong once and right the second time: look at the drive's health", device.name(),
          unit);
      co_return Status();
    }
    if (copies.none_there)
      co_return Status(copies.failure.code(),
                       fmt::format("object `{}/{}` at offset {}: {}", version_.bucket_name, state_.info.key,
                                   part.object_offset, copies.failure.message()));
    if (copies.right) {
      core_.repaired_blocks.fetch_add(copies.repaired, std::memory_order_relaxed);
      core_.log.Warning("object `{}/{}` at offset {}: the block at unit {} of {} was wrong on one side: {}",
                        version_.bucket_name, state_.info.key, part.object_offset, unit, device.name(),
                        copies.repaired != 0 ? "it was written again from the other" : copies.failure.message());
      co_return Status();
    }
    // What a power cut left of content that nobody flushed.
    if (block.is_cache()) co_return store::CachedObjectIsGone(version_.bucket_name, state_.info.key);
    core_.damaged_blocks.fetch_add(1, std::memory_order_relaxed);
    Status damage = Status::DataLoss(
        "object `{}/{}` is damaged at offset {}: the block at unit {} of {} does not match its checksum",
        version_.bucket_name, state_.info.key, part.object_offset, unit, device.name());
    core_.log.Error("{}", damage.message());
    co_return damage;
  }

  rt::Reactor& reactor_;
  Fetch& fetch_;
  const OpenVersion& version_;
  Core& core_;
  const ObjectState& state_;
};

}  // namespace

std::vector<BlockPart> PartsOf(const ObjectState& state, uint64_t offset, uint64_t length) {
  constexpr uint64_t kUsualBlockBytes = 64 * base::kKiB;
  std::vector<BlockPart> parts;
  parts.reserve(length / kUsualBlockBytes + 2);
  auto piece = std::ranges::upper_bound(state.pieces, offset, {}, &MappedPiece::begin) - 1;
  while (length != 0) {
    uint64_t left = std::min(length, piece->begin + piece->length - offset);
    length -= left;
    if (piece->extent == kHoleIndex) {
      parts.push_back({.extent = kHoleIndex, .length = left, .object_offset = offset});
      offset += left;
      ++piece;
      continue;
    }
    const uint8_t shift = state.extents[piece->extent].record.block_shift;
    uint64_t at = piece->offset + (offset - piece->begin);  // in the extent
    while (left != 0) {
      const uint64_t begin = at & ((uint64_t{1} << shift) - 1);
      const uint64_t take = std::min(left, (uint64_t{1} << shift) - begin);
      parts.push_back({.extent = piece->extent,
                       .block = static_cast<uint32_t>(at >> shift),
                       .begin = begin,
                       .length = take,
                       .object_offset = offset});
      at += take;
      offset += take;
      left -= take;
    }
    ++piece;
  }
  return parts;
}

size_t LookUp(const OpenVersion& version, std::vector<BlockPart>& parts) {
  size_t missing = 0;
  size_t holes = 0;
  std::array<base::Buffer, Tier::kRunBlocks> found;
  for (size_t begin = 0; begin < parts.size();) {
    if (parts[begin].is_hole()) {
      ++holes;
      ++begin;
      continue;
    }
    size_t end = begin + 1;
    while (end < parts.size() && parts[end].extent == parts[begin].extent &&
           parts[end].block == parts[end - 1].block + 1 && parts[end].block % Tier::kRunBlocks != 0)
      ++end;
    version.core.tier.LookupRun(Block(*version.state, parts[begin]).key(), std::span(found).first(end - begin));
    for (size_t i = 0; begin < end; ++begin, ++i) {
      parts[begin].content = std::exchange(found[i], {});
      if (parts[begin].content.empty()) ++missing;
    }
  }
  version.core.tier_hits.fetch_add(parts.size() - holes - missing, std::memory_order_relaxed);
  if (missing != 0) version.core.tier_misses.fetch_add(missing, std::memory_order_relaxed);
  return missing;
}

rt::Task<void> RunFetch(rt::Reactor& reactor, std::shared_ptr<Fetch> fetch) {
  Fetcher fetcher(reactor, *fetch);
  fetch->status = co_await fetcher.Run();
}

}  // namespace forebay::engine
