// SPDX-License-Identifier: Apache-2.0
#include "engine/loader.h"

#include <algorithm>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "base/checksum.h"
#include "engine/core.h"
#include "engine/superblock.h"
#include "store/listing.h"

namespace forebay::engine {
namespace {

/// How often a load starts over because the object was replaced under its hands.
constexpr int kLoadAttempts = 100;

template <typename Meta>
Result<std::optional<NewestVersion>> FindNewestIn(Meta& meta, uint64_t bucket, const std::string& key) {
  const std::unique_ptr<meta::Scan> scan = meta.NewScan(meta::Family::kObjects, EndOfVersions(bucket, key));
  scan->Seek(FirstVersion(bucket, key));
  FB_TRY(scan->status());
  if (!scan->Valid()) return std::optional<NewestVersion>();
  FB_ASSIGN(NewestVersion newest, DecodeVersion(scan->key(), scan->value()));
  if (newest.record.delete_marker) return std::optional<NewestVersion>();
  return std::optional(std::move(newest));
}

/// `meta` is the store or a snapshot of it.
template <typename Meta>
Result<std::string> GetRow(Meta& meta, meta::Family family, std::string_view key, std::string_view what) {
  FB_ASSIGN(std::optional<std::string> row, meta.Get(family, key));
  if (!row) return Status::NotFound("{} is missing", what);
  return *std::move(row);
}

template <typename Meta>
Status LoadExtentRows(Meta& meta, const Devices& devices, const std::vector<Piece>& pieces, ObjectState& state) {
  std::unordered_set<uint64_t> seen{kHole};
  for (const Piece& piece : pieces) {
    if (!seen.insert(piece.extent).second) continue;
    const std::string key = NumberKey(piece.extent);
    FB_ASSIGN(const std::string row,
              GetRow(meta, meta::Family::kExtents, key, fmt::format("extent {}", piece.extent)));
    FB_ASSIGN(ExtentRecord record, DecodeExtent(key, row));
    FB_TRY(CheckPlace(piece.extent, record, devices));
    state.extents.push_back({piece.extent, std::move(record)});
  }
  return {};
}

template <typename Meta>
Status LoadInline(Meta& meta, const NewestVersion& newest, ObjectState& state) {
  FB_ASSIGN(state.inline_content,
            GetRow(meta, meta::Family::kInline, NumberKey(newest.record.content), "its content"));
  if (state.inline_content.size() != newest.record.size_bytes ||
      base::Crc32c(AsBytes(state.inline_content)) != newest.record.crc32c)
    return Status::DataLoss(
        "object `{}` is damaged at offset 0: its content in the metadata does not match its checksum", state.info.key);
  return {};
}

/// A version that stands in few rows, which go in one batch but for its extents' own. NotFound when one is missing.
Result<ObjectStatePtr> Resolve(meta::MetaStore& meta, const Devices& devices, uint64_t bucket,
                               const std::string& key, const NewestVersion& newest) {
  std::shared_ptr<ObjectState> state = StateOf(bucket, key, newest);
  if (newest.record.storage == Storage::kInline) {
    FB_TRY(LoadInline(meta, newest, *state));
    return state;
  }
  FB_TRY(LoadExtentRows(meta, devices, newest.record.pieces, *state));
  FB_TRY(MapPieces(*state, 0, newest.record.pieces));
  return state;
}

/// Any version, whose rows other changes may replace or take away meanwhile: read as of one moment.
Result<ObjectStatePtr> ResolveAsOf(meta::Snapshot& moment, const Devices& devices, uint64_t bucket,
                                   const std::string& key, const NewestVersion& version) {
  std::shared_ptr<ObjectState> state = StateOf(bucket, key, version);
  const auto load = [&]() -> Status {
    if (version.record.storage == Storage::kInline) return LoadInline(moment, version, *state);
    std::vector<Piece> pieces = version.record.pieces;
    if (version.record.storage == Storage::kSegmented) {
      FB_ASSIGN(pieces, LoadSegments(moment, version, 0, SegmentCount(version.record.size_bytes) - 1));
    }
    FB_TRY(LoadExtents(moment, devices, pieces, *state));
    return MapPieces(*state, 0, pieces);
  };
  const Status loaded = load();
  if (loaded.code() == Code::kNotFound) return Damaged(key, loaded);
  FB_TRY(loaded);
  return state;
}

/// A version whose map has many rows. Null when the object is gone meanwhile, or became a small one.
Result<ObjectStatePtr> ResolveSegmented(meta::MetaStore& meta, const Devices& devices, uint64_t bucket,
                                        const std::string& key) {
  const std::unique_ptr<meta::Snapshot> moment = meta.TakeSnapshot();
  FB_ASSIGN(const std::optional<NewestVersion> newest, FindNewest(*moment, bucket, key));
  if (!newest || newest->record.storage != Storage::kSegmented) return ObjectStatePtr();
  return ResolveAsOf(*moment, devices, bucket, key, *newest);
}

/// Walks the keys of a bucket, newest versions only, delete markers left out.
class BucketCursor final : public store::KeyCursor {
 public:
  BucketCursor(meta::MetaStore& meta, uint64_t bucket, const HiddenVersions& hidden)
      : bucket_(bucket), hidden_(hidden), scan_(meta.NewScan(meta::Family::kObjects, PrefixEnd(BucketPrefix(bucket)))) {}

  void Seek(std::string_view key) override {
    std::string from = BucketPrefix(bucket_);
    from.append(key);
    scan_->Seek(from);
    Settle();
  }
  void Next() override {
    SkipVersions();
    Settle();
  }
  bool Valid() const override { return current_.has_value(); }
  std::string_view key() const override { return key_; }
  Result<store::ObjectInfo> Info() const { return InfoOf(key_, current_->version, current_->record); }
  Status status() const { return status_.ok() ? scan_->status() : status_; }

 private:
  /// Past the other versions of the key we stand on. They are few as a rule: stepping is cheaper than
  /// seeking.
  void SkipVersions() {
    constexpr int kFew = 16;
    const std::string prefix = ObjectPrefix(bucket_, key_);
    for (int steps = 0; scan_->Valid() && scan_->key().starts_with(prefix); ++steps) {
      if (steps == kFew) return scan_->Seek(PrefixEnd(prefix));
      scan_->Next();
    }
  }

  void Settle() {
    current_.reset();
    while (status_.ok() && scan_->Valid()) {
      Result<ObjectKey> name = DecodeObjectKey(scan_->key());
      if (!name.ok()) {
        status_ = name.error();
        return;
      }
      key_ = name->key;
      Result<NewestVersion> newest = DecodeVersion(scan_->key(), scan_->value());
      if (!newest.ok()) {
        status_ = newest.error().WithContext(key_);
        return;
      }
      if (!newest->record.delete_marker && !hidden_(*newest)) {
        current_ = *std::move(newest);
        return;
      }
      SkipVersions();
    }
  }

  const uint64_t bucket_;
  const HiddenVersions& hidden_;  // borrowed
  const std::unique_ptr<meta::Scan> scan_;
  std::string key_;
  std::optional<NewestVersion> current_;
  Status status_;
};

}  // namespace

HiddenVersions ExpiredOf(const Core& core, uint64_t bucket) {
  return [&core, bucket](const NewestVersion& version) {
    return core.IsExpired(bucket, version.version, base::WallTime(base::Duration(version.record.modified_ns)));
  };
}

Result<NewestVersion> DecodeVersion(std::string_view row_key, std::string_view value) {
  FB_ASSIGN(const ObjectKey name, DecodeObjectKey(row_key));
  FB_ASSIGN(ObjectRecord record, DecodeObject(row_key, value));
  return NewestVersion{.version = name.version, .record = std::move(record)};
}

Result<std::optional<NewestVersion>> FindNewest(meta::MetaStore& meta, uint64_t bucket,
                                                const std::string& key) {
  return FindNewestIn(meta, bucket, key);
}

Result<std::optional<NewestVersion>> FindNewest(meta::Snapshot& moment, uint64_t bucket, const std::string& key) {
  return FindNewestIn(moment, bucket, key);
}

Result<std::vector<Piece>> LoadSegments(meta::Snapshot& moment, const NewestVersion& newest, uint64_t first,
                                        uint64_t last) {
  std::vector<Piece> pieces;
  const std::string end = SegmentKey(newest.record.content, static_cast<uint32_t>(last + 1));
  const std::unique_ptr<meta::Scan> rows = moment.NewScan(meta::Family::kMaps, end);
  rows->Seek(SegmentKey(newest.record.content, static_cast<uint32_t>(first)));
  for (uint64_t segment = first; segment <= last; ++segment, rows->Next()) {
    const std::string key = SegmentKey(newest.record.content, static_cast<uint32_t>(segment));
    if (!rows->Valid() || rows->key() != key) {
      FB_TRY(rows->status());
      return Status::NotFound("segment {} of the map is missing", segment);
    }
    FB_ASSIGN(const std::vector<Piece> part,
              DecodePieces(key, rows->value(), SegmentLength(newest.record.size_bytes, segment)));
    pieces.insert(pieces.end(), part.begin(), part.end());
  }
  return pieces;
}

Status LoadExtents(meta::Snapshot& moment, const Devices& devices, const std::vector<Piece>& pieces,
                   ObjectState& state) {
  return LoadExtentRows(moment, devices, pieces, state);
}

std::shared_ptr<ObjectState> StateOf(uint64_t bucket, const std::string& key, const NewestVersion& newest) {
  auto state = std::make_shared<ObjectState>();
  state->bucket = bucket;
  state->info = InfoOf(key, newest.version, newest.record);
  return state;
}

Status Damaged(const std::string& key, const Status& why) {
  return Status::DataLoss("object `{}` is damaged: {}; run forebay fsck", key, why.message());
}

Result<ObjectStatePtr> LoadObject(meta::MetaStore& meta, const Devices& devices, uint64_t bucket,
                                  const std::string& key) {
  for (int attempt = 0; attempt < kLoadAttempts; ++attempt) {
    FB_ASSIGN(const std::optional<NewestVersion> newest, FindNewest(meta, bucket, key));
    if (!newest) return ObjectStatePtr();
    if (newest->record.storage == Storage::kSegmented) {
      FB_ASSIGN(ObjectStatePtr state, ResolveSegmented(meta, devices, bucket, key));
      if (state != nullptr) return state;
      continue;
    }
    Result<ObjectStatePtr> state = Resolve(meta, devices, bucket, key, *newest);
    if (state.ok() || state.error().code() != Code::kNotFound) return state;
    // The rows of a version go in one batch. When it is not the newest any more its rows went while we read
    // them.
    FB_ASSIGN(const std::optional<NewestVersion> again, FindNewest(meta, bucket, key));
    if (again && again->version == newest->version) return Damaged(key, state.error());
  }
  return Status::Aborted("object `{}` was replaced {} times while it was being opened: try again", key,
                         kLoadAttempts);
}

Result<ObjectStatePtr> LoadVersion(meta::MetaStore& meta, const Devices& devices, uint64_t bucket,
                                   const std::string& key, uint64_t version) {
  const std::unique_ptr<meta::Snapshot> moment = meta.TakeSnapshot();
  const std::string row_key = EncodeObjectKey(bucket, key, version);
  FB_ASSIGN(const std::optional<std::string> row, moment->Get(meta::Family::kObjects, row_key));
  if (!row) return ObjectStatePtr();
  FB_ASSIGN(const NewestVersion found, DecodeVersion(row_key, *row));
  if (found.record.delete_marker) return ObjectStatePtr();
  return ResolveAsOf(*moment, devices, bucket, key, found);
}

namespace {

store::VersionInfo Describe(std::string_view key, const NewestVersion& version, bool latest) {
  return {.object = InfoOf(key, version.version, version.record),
          .latest = latest,
          .delete_marker = version.record.delete_marker,
          .null_version = !version.record.kept};
}

}  // namespace

Result<std::optional<store::VersionInfo>> StatVersion(meta::MetaStore& meta, uint64_t bucket, const std::string& key,
                                                      uint64_t version) {
  const std::unique_ptr<meta::Scan> scan = meta.NewScan(meta::Family::kObjects, EndOfVersions(bucket, key));
  scan->Seek(FirstVersion(bucket, key));
  if (!scan->Valid()) {
    FB_TRY(scan->status());
    return std::optional<store::VersionInfo>();
  }
  const std::string newest(scan->key());
  const std::string row_key = EncodeObjectKey(bucket, key, version);
  scan->Seek(row_key);
  FB_TRY(scan->status());
  if (!scan->Valid() || scan->key() != row_key) return std::optional<store::VersionInfo>();
  FB_ASSIGN(const NewestVersion found, DecodeVersion(scan->key(), scan->value()));
  return std::optional(Describe(key, found, newest == row_key));
}

Result<store::VersionPage> ListVersions(meta::MetaStore& meta, uint64_t bucket, const HiddenVersions& hidden,
                                        const store::VersionListOptions& options) {
  const std::string prefix = BucketPrefix(bucket) + options.prefix;
  const std::unique_ptr<meta::Scan> scan = meta.NewScan(meta::Family::kObjects, PrefixEnd(prefix));
  const std::string after = EncodeObjectKey(bucket, options.after_key, options.after_version);
  std::string key;  // whose newest version was seen
  if (options.after_key.empty() || after < prefix) {
    scan->Seek(prefix);
  } else {
    scan->Seek(FirstVersion(bucket, options.after_key));
    if (scan->Valid() && scan->key() <= after) key = options.after_key;
    scan->Seek(after + '\0');
  }
  FB_TRY(scan->status());
  store::VersionPage page;
  for (; scan->Valid(); scan->Next()) {
    FB_ASSIGN(const ObjectKey name, DecodeObjectKey(scan->key()));
    FB_ASSIGN(const NewestVersion version, DecodeVersion(scan->key(), scan->value()));
    if (hidden(version)) continue;
    page.truncated = page.versions.size() == options.limit;
    if (page.truncated) break;
    page.versions.push_back(Describe(name.key, version, name.key != key));
    key = name.key;
  }
  FB_TRY(scan->status());
  return page;
}

rt::Task<Result<ObjectStatePtr>> FindObject(Core& core, const store::Context& context, uint64_t bucket,
                                            const std::string& key) {
  ObjectCache::Found found = core.cache.Lookup(bucket, key);
  const auto expired = [&core, bucket](const ObjectStatePtr& state) {
    return core.IsExpired(bucket, state->info.version, state->info.modified);
  };
  if (found.state != nullptr) co_return expired(found.state) ? ObjectStatePtr() : std::move(found.state);
  FB_CO_ASSIGN(ObjectStatePtr state, co_await rt::Offload(context.reactor, *core.pool, [&core, bucket, key] {
                 return LoadObject(*core.meta, core.devices, bucket, key);
               }));
  if (state != nullptr) core.cache.Insert(state, found.generation);
  if (state != nullptr && expired(state)) co_return ObjectStatePtr();
  co_return state;
}

Status MapPieces(ObjectState& state, uint64_t begin, const std::vector<Piece>& pieces) {
  std::unordered_map<uint64_t, uint32_t> index;
  for (uint32_t i = 0; i < state.extents.size(); ++i) index.emplace(state.extents[i].id, i);
  for (const Piece& piece : pieces) {
    if (piece.extent == kHole) {
      state.pieces.push_back({.begin = begin, .length = piece.length, .extent = kHoleIndex, .offset = 0});
      begin += piece.length;
      continue;
    }
    const auto found = index.find(piece.extent);
    if (found == index.end() ||
        !base::RangeFits(piece.offset, piece.length, state.extents[found->second].record.length_bytes))
      return Status::DataLoss(
          "object `{}` is damaged at offset {}: its map names bytes that extent {} does not have",
          state.info.key, begin, piece.extent);
    state.pieces.push_back(
        {.begin = begin, .length = piece.length, .extent = found->second, .offset = piece.offset});
    begin += piece.length;
  }
  return {};
}

Status CheckPlace(uint64_t extent, const ExtentRecord& record, const Devices& devices) {
  if (record.device < devices.size() && record.first_unit >= kDataStart / device::kUnit &&
      base::RangeFits(record.first_unit * device::kUnit, record.units() * device::kUnit,
                      devices.at(record.device).size_bytes()))
    return {};
  return Status::DataLoss(
      "extent {} is said to be at unit {} of device {}, which is outside of the data; run forebay fsck",
      extent, record.first_unit, record.device);
}

Result<store::ListPage> ListObjects(meta::MetaStore& meta, uint64_t bucket, const HiddenVersions& hidden,
                                    const store::ListOptions& options) {
  BucketCursor cursor(meta, bucket, hidden);
  FB_ASSIGN(store::ListPage page,
            store::ListKeys(cursor, options, [&](std::string_view) { return cursor.Info(); }));
  FB_TRY(cursor.status());
  return page;
}

}  // namespace forebay::engine
