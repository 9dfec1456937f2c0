// SPDX-License-Identifier: Apache-2.0
#include "engine/block_owners.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "engine/loader.h"
#include "engine/rows.h"
#include "engine/upload_rows.h"

namespace forebay::engine {
namespace {

using meta::Family;

/// Rows looked at with one snapshot, which holds back the metadata's cleaning up; then it is asked whether to go on.
constexpr uint64_t kRowsAtOnce = 1024;

class Search {
 public:
  Search(meta::MetaStore& meta, const std::vector<ExtentRange>& ranges, size_t most)
      : meta_(meta), ranges_(ranges), most_(most), owners_(ranges.size()), open_(ranges.size()) {
    for (size_t i = 0; i < ranges.size(); ++i) by_extent_[ranges[i].extent].push_back(i);
  }

  Result<std::vector<std::vector<BlockOwner>>> Run(const std::function<bool()>& go_on) {
    FB_TRY(ReadBuckets());
    FB_TRY(Walk(Family::kObjects, {}, {}, go_on,
                [this](meta::Snapshot& moment, std::string_view key, std::string_view value) {
                  return LookAtObject(moment, key, value);
                }));
    FB_TRY(Walk(Family::kSystem, std::string(kPartPrefix), PrefixEnd(kPartPrefix), go_on,
                [this](meta::Snapshot&, std::string_view key, std::string_view value) {
                  LookAtPart(key, value);
                  return Status();
                }));
    return std::move(owners_);
  }

 private:
  Status ReadBuckets() {
    const std::unique_ptr<meta::Scan> buckets = meta_.NewScan(Family::kBuckets, {});
    for (buckets->Seek({}); buckets->Valid(); buckets->Next()) {
      const Result<BucketRecord> bucket = DecodeBucket(buckets->key(), buckets->value());
      if (bucket.ok()) buckets_.emplace(bucket->id, buckets->key());
    }
    return buckets->status();
  }

  template <typename Visit>
  Status Walk(Family family, std::string next, const std::string& end, const std::function<bool()>& go_on,
              Visit visit) {
    for (bool more = true; more && open_ != 0;) {
      if (!go_on()) return Status::Cancelled("the search for who uses the blocks was stopped");
      const std::unique_ptr<meta::Snapshot> moment = meta_.TakeSnapshot();
      const std::unique_ptr<meta::Scan> rows = moment->NewScan(family, end);
      rows->Seek(next);
      for (uint64_t i = 0; i < kRowsAtOnce && rows->Valid() && open_ != 0; ++i, rows->Next()) {
        FB_TRY(visit(*moment, rows->key(), rows->value()));
        next = std::string(rows->key()) + '\0';
      }
      FB_TRY(rows->status());
      more = rows->Valid();
    }
    return {};
  }

  Status LookAtObject(meta::Snapshot& moment, std::string_view row_key, std::string_view value) {
    const Result<ObjectKey> key = DecodeObjectKey(row_key);
    const Result<NewestVersion> version = DecodeVersion(row_key, value);
    if (!key.ok() || !version.ok() || version->record.delete_marker) return {};
    if (version->record.storage == Storage::kInline) return {};
    const auto name = [&] {
      const auto bucket = buckets_.find(key->bucket);
      return fmt::format("object `{}/{}` (version {})",
                         bucket == buckets_.end() ? fmt::format("(bucket {})", key->bucket) : bucket->second, key->key,
                         key->version);
    };
    std::vector<bool> found(ranges_.size());
    if (version->record.storage == Storage::kMap) {
      Compare(version->record.pieces, 0, name, found);
      return {};
    }
    // One segment after the other: the map of a large object is large.
    for (uint64_t segment = 0; segment < SegmentCount(version->record.size_bytes); ++segment) {
      const Result<std::vector<Piece>> pieces = LoadSegments(moment, *version, segment, segment);
      if (pieces.ok()) Compare(*pieces, segment * kSegmentBytes, name, found);
    }
    return {};
  }

  void LookAtPart(std::string_view row_key, std::string_view value) {
    const Result<PartKey> key = DecodePartKey(row_key);
    const Result<PartRecord> part = DecodePart(row_key, value);
    if (!key.ok() || !part.ok()) return;
    std::vector<bool> found(ranges_.size());
    Compare(part->pieces, 0, [&] { return fmt::format("part {} of upload {:x}", key->number, key->upload); }, found);
  }

  /// `found`: the ranges that this owner is known for already.
  template <typename Name>
  void Compare(const std::vector<Piece>& pieces, uint64_t offset, const Name& name, std::vector<bool>& found) {
    for (const Piece& piece : pieces) {
      const uint64_t at = std::exchange(offset, offset + piece.length);
      const auto same = by_extent_.find(piece.extent);
      if (piece.extent == kHole || same == by_extent_.end()) continue;
      for (const size_t i : same->second) {
        const ExtentRange& range = ranges_[i];
        const bool meets = piece.offset < range.end && piece.offset + piece.length > range.begin;
        if (!meets || found[i] || owners_[i].size() == most_) continue;
        found[i] = true;
        const uint64_t skipped = range.begin > piece.offset ? range.begin - piece.offset : 0;
        owners_[i].push_back({.name = name(), .offset = at + skipped});
        if (owners_[i].size() == most_) --open_;
      }
    }
  }

  meta::MetaStore& meta_;
  const std::vector<ExtentRange>& ranges_;
  const size_t most_;
  std::map<uint64_t, std::string> buckets_;  // by id
  std::unordered_map<uint64_t, std::vector<size_t>> by_extent_;
  std::vector<std::vector<BlockOwner>> owners_;
  size_t open_;  // ranges that have fewer owners than asked for
};

}  // namespace

Result<std::vector<std::vector<BlockOwner>>> FindOwners(meta::MetaStore& meta, const std::vector<ExtentRange>& ranges,
                                                        size_t most, const std::function<bool()>& go_on) {
  return Search(meta, ranges, most).Run(go_on);
}

}  // namespace forebay::engine
