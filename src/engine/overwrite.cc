// SPDX-License-Identifier: Apache-2.0
#include "engine/overwrite.h"

#include <algorithm>
#include <bit>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "engine/content_copy.h"
#include "engine/eviction.h"
#include "engine/loader.h"
#include "engine/object_change.h"
#include "engine/publish.h"
#include "engine/replace_transaction.h"
#include "rt/thread_pool.h"
#include "store/checks.h"
#include "store/conditions.h"

namespace forebay::engine {
namespace {

/// How often a change starts over because another one took place where it is about to. Each time some other one did.
constexpr int kAttempts = 1000;

/// What is asked for, and what is there of it. Borrowed by the attempts.
struct Change {
  std::string bucket_name;
  uint64_t bucket = 0;
  std::string key;
  store::Condition condition;
  bool truncates = false;
  std::optional<uint64_t> offset{};  // of the content; empty: behind the end. Of a truncation: the new size
  // The content: in memory, or in extents.
  uint64_t length = 0;
  uint32_t crc32c = base::kCrc32cEmpty;
  std::string held{};
  NewContent written{};

  bool is_held() const { return written.extents.empty(); }
};

/// The run that a change replaces. From begin to end of the old version stands something else then: what was between
/// begin and old_begin, a gap of zeros, the content, and what was between old_end and end.
struct Window {
  uint64_t begin = 0;
  uint64_t old_begin = 0;
  uint64_t gap = 0;
  bool gap_is_hole = false;
  uint64_t old_end = 0;
  uint64_t end = 0;
  bool to_the_end = false;  // the object gets another size
  uint64_t cut = 0;         // not 0: an extent of what is copied ends after so many bytes
};

/// The current version, of whose map the window is there.
struct Found {
  std::shared_ptr<ObjectState> state;
  Window window;
  bool is_inline = false;
  std::vector<Piece> pieces{};  // of the window
};

/// Of the segments of a map that begins at a border.
uint64_t MostPieces(const std::vector<Piece>& map) {
  uint64_t most = 0;
  uint64_t pieces = 0;
  uint64_t at = 0;
  for (const Piece& piece : map) {
    most = std::max(most, ++pieces);
    at += piece.length;
    if (at % kSegmentBytes == 0) pieces = 0;
  }
  return most;
}

/// Where content begins and ends, so that its borders lie at the grain; also where an object is cut off.
void Widen(uint64_t grain, uint64_t size, const Change& change, Window& window) {
  if (!window.to_the_end) window.end = std::min(size, base::RoundUp(window.old_end, grain));
  const bool nothing = !change.truncates && change.length == 0;
  if (nothing || (window.gap_is_hole && window.gap != 0)) return;
  const uint64_t end = window.old_begin + window.gap + change.length;
  const uint64_t whole = base::RoundDown(end, kTailBytes);
  const bool passes = window.to_the_end && change.is_held() && whole > window.old_begin;
  window.begin = base::RoundDown(window.old_begin, passes ? std::max(grain, kTailBytes) : grain);
  if (passes) window.cut = whole - window.begin;
}

/// The runs of the map that extents of `pieces` have outside of the window, when they are less than a quarter of an extent
/// that nothing else refers to: the window becomes so wide that they go, unless that is too much at once. So what overwrites
/// leave of extents holds at most some times the space that it is worth.
void TakeScraps(const std::vector<Piece>& map, uint64_t map_begin, const ObjectState& resolved, Window& window) {
  constexpr uint64_t kScrap = 4;
  constexpr uint64_t kMostBytes = 2 * kWriterExtentBytes;
  struct Rest {
    uint64_t begin = UINT64_MAX;
    uint64_t end = 0;
    uint64_t bytes = 0;
    uint64_t pieces = 0;
  };
  std::unordered_map<uint64_t, Rest> rests;
  for (const MappedExtent& extent : resolved.extents) rests.try_emplace(extent.id);
  uint64_t at = map_begin;
  for (const Piece& piece : map) {
    const uint64_t end = at + piece.length;
    if (const auto found = rests.find(piece.extent); found != rests.end()) {
      Rest& rest = found->second;
      ++rest.pieces;
      rest.begin = std::min(rest.begin, at);
      rest.end = std::max(rest.end, end);
      rest.bytes += piece.length;
      rest.bytes -= std::min(end, window.end) - std::min(std::min(end, window.end), std::max(at, window.begin));
    }
    at = end;
  }
  const Window narrow = window;
  for (const MappedExtent& extent : resolved.extents) {
    const Rest& rest = rests.at(extent.id);
    const bool own = rest.pieces == extent.record.references;
    if (!own || rest.bytes == 0 || rest.bytes * kScrap >= extent.record.length_bytes) continue;
    window.begin = std::min(window.begin, rest.begin);
    if (!window.to_the_end) window.end = std::max(window.end, rest.end);
  }
  if (window.end - window.begin > kMostBytes + (narrow.end - narrow.begin)) window = narrow;
  if (window.begin != narrow.begin) window.cut = 0;
}

/// Of an object of `size` bytes. The window is as narrow as can be.
Window WindowOf(const Change& change, uint64_t size) {
  const bool nothing = !change.truncates && change.length == 0;
  const uint64_t at = nothing ? size : change.offset.value_or(size);
  const uint64_t content_end = at + change.length;
  Window window;
  window.begin = window.old_begin = std::min(at, size);
  window.gap = at - window.old_begin;
  window.to_the_end = change.truncates || nothing || content_end > size;
  window.old_end = window.end = window.to_the_end ? size : content_end;
  return window;
}

/// On a lookup thread. Null state: there is no such object.
Result<Found> Look(const Core& core, const Change& change, bool may_be_wide) {
  const std::unique_ptr<meta::Snapshot> moment = core.meta->TakeSnapshot();
  FB_ASSIGN(const std::optional<NewestVersion> newest, FindNewest(*moment, change.bucket, change.key));
  if (!newest || core.IsExpired(change.bucket, newest->version, base::WallTime(base::Duration(newest->record.modified_ns))))
    return Found{};
  const ObjectRecord& record = newest->record;
  const uint64_t size = record.size_bytes;
  Found found{.state = StateOf(change.bucket, change.key, *newest), .window = WindowOf(change, size)};
  Window& window = found.window;
  const uint64_t at = change.offset.value_or(size);
  FB_TRY(store::CheckObjectSize(std::min(at, size) + window.gap, change.length));
  if (record.storage == Storage::kInline) {
    found.is_inline = true;
    window.begin = 0;
    window.end = size;
    window.to_the_end = true;
    window.gap_is_hole = window.gap >= kFineGrain;
    FB_ASSIGN(const std::optional<std::string> content, moment->Get(meta::Family::kInline, NumberKey(record.content)));
    if (!content || content->size() != size || base::Crc32c(AsBytes(*content)) != record.crc32c)
      return Damaged(change.key, Status::DataLoss("its content in the metadata is missing or wrong"));
    found.state->inline_content = *content;
    return found;
  }
  const uint64_t segments = SegmentCount(size);
  const uint64_t first = record.storage == Storage::kMap ? 0 : std::min(window.begin, size - 1) / kSegmentBytes;
  const uint64_t last = record.storage == Storage::kMap ? 0 : (std::max(window.end, uint64_t{1}) - 1) / kSegmentBytes;
  std::vector<Piece> map = record.pieces;
  if (record.storage == Storage::kSegmented) {
    Result<std::vector<Piece>> loaded = LoadSegments(*moment, *newest, first, std::max(first, last));
    if (!loaded.ok()) return loaded.error().code() == Code::kNotFound ? Damaged(change.key, loaded.error()) : loaded.error();
    map = *std::move(loaded);
  }
  const uint64_t grain = GrainOf(MostPieces(map), segments);
  window.gap_is_hole = change.truncates || window.gap >= grain;
  // To cut off needs no space, when there is none.
  if (!change.truncates || may_be_wide) Widen(grain, size, change, window);
  const auto resolve = [&]() -> Status {
    found.pieces = PiecesOf(map, first * kSegmentBytes, window.begin, window.end);
    found.state->extents.clear();
    return LoadExtents(*moment, core.devices, found.pieces, *found.state);
  };
  Status loaded = resolve();
  if (loaded.ok() && may_be_wide) {
    const uint64_t narrow = window.end - window.begin;
    TakeScraps(map, first * kSegmentBytes, *found.state, window);
    if (window.end - window.begin != narrow) loaded = resolve();
  }
  if (!loaded.ok()) return loaded.code() == Code::kNotFound ? Damaged(change.key, loaded) : loaded;
  FB_TRY(MapPieces(*found.state, window.begin, found.pieces));
  return found;
}

class Attempt {
 public:
  /// Who comes again takes no more than it must: others are at work there.
  Attempt(Core& core, const store::Context& context, const Change& change, bool is_first)
      : core_(core), context_(context), change_(change), is_first_(is_first) {}

  rt::Task<Result<PublishRequest>> Run() {
    FB_CO_TRY(co_await Open());
    out_.bucket_name = change_.bucket_name;
    out_.bucket = change_.bucket;
    out_.key = change_.key;
    out_.condition = change_.condition;
    out_.crc32c = base::kCrc32cEmpty;
    FB_CO_ASSIGN(const uint32_t before, co_await SumOfRange(context_, old_, window_.begin, window_.end - window_.begin));
    out_.replaces = ReplacedRange{.begin = window_.begin,
                                  .end = window_.end,
                                  .object_bytes = old_->state->info.size_bytes,
                                  .to_the_end = window_.to_the_end,
                                  .version = is_inline_ ? old_->state->info.version : 0,
                                  .pieces = std::move(pieces_),
                                  .crc32c = before};
    const uint64_t copied = BytesToCopy();
    out_.size_bytes = copied + (window_.gap_is_hole ? window_.gap : 0) + (change_.is_held() ? 0 : change_.length);
    if (is_inline_ && copied == out_.size_bytes && copied <= kMaxInlineContent) {
      TakeInline();
    } else {
      FB_CO_TRY(co_await MakeRuns(copied));
    }
    FB_CO_TRY(store::CheckDeadline(context_, "overwrite"));
    co_return std::move(out_);
  }

 private:
  rt::Task<Status> Open() {
    FB_CO_TRY(store::CheckDeadline(context_, "overwrite"));
    EpochSet::Guard guard = core_.epochs.Enter();  // before the look: what it finds stays readable
    FB_CO_ASSIGN(Found found, co_await rt::Offload(context_.reactor, *core_.pool,
                                                   [core = &core_, change = &change_, is_first = is_first_] {
                                                     return Look(*core, *change, is_first);
                                                   }));
    if (found.state == nullptr) co_return store::NoSuchObject(change_.bucket_name, change_.key);
    FB_CO_TRY(store::CheckCondition(change_.condition, found.state->info.etag, change_.bucket_name, change_.key));
    window_ = found.window;
    is_inline_ = found.is_inline;
    pieces_ = std::move(found.pieces);
    old_ = std::make_shared<const OpenVersion>(core_, change_.bucket_name, std::move(found.state), std::move(guard));
    co_return Status();
  }

  uint64_t BytesToCopy() const {
    return (window_.old_begin - window_.begin) + (window_.gap_is_hole ? 0 : window_.gap) +
           (change_.is_held() ? change_.length : 0) + BytesBehind();
  }
  uint64_t BytesBehind() const { return change_.truncates ? 0 : window_.end - window_.old_end; }

  void TakeInline() {
    const std::string& old = old_->state->inline_content;
    std::string& content = out_.content.inline_content;
    content = old.substr(0, window_.old_begin);
    content.append(window_.gap, '\0');
    content += change_.held;
    if (BytesBehind() != 0) content += old.substr(window_.old_end);
    out_.crc32c = base::Crc32c(AsBytes(content));
  }

  /// Appends to the checksum of what takes the window's place.
  void Sum(uint32_t crc32c, uint64_t length) { out_.crc32c = base::Crc32cCombine(out_.crc32c, crc32c, length); }

  /// Copies what is copied, and puts all in order.
  rt::Task<Status> MakeRuns(uint64_t copied) {
    out_.content = change_.written;
    const size_t first_copy = out_.content.extents.size();
    std::optional<ContentCopy> copy;
    if (copied != 0)
      copy.emplace(core_, context_, fmt::format("{}/{}", change_.bucket_name, change_.key), copied);
    if (window_.cut != 0) copy->CutAt(window_.cut);
    const uint64_t ahead = window_.old_begin - window_.begin;
    if (ahead != 0) {
      FB_CO_ASSIGN(const uint32_t crc32c, co_await copy->AddRange(old_, window_.begin, ahead));
      Sum(crc32c, ahead);
    }
    if (window_.gap != 0 && !window_.gap_is_hole) FB_CO_TRY((co_await copy->AddZeros(window_.gap)).status());
    Sum(base::Crc32cZeros(window_.gap), window_.gap);
    if (!change_.held.empty()) FB_CO_TRY((co_await copy->Add(change_.held)).status());
    Sum(change_.crc32c, change_.length);
    if (BytesBehind() != 0) {
      FB_CO_ASSIGN(const uint32_t crc32c, co_await copy->AddRange(old_, window_.old_end, BytesBehind()));
      Sum(crc32c, BytesBehind());
    }
    if (copy) FB_CO_TRY(co_await Include(*copy));
    PutInOrder(first_copy);
    co_return Status();
  }

  rt::Task<Status> Include(ContentCopy& copy) {
    FB_CO_ASSIGN(NewContent copies, co_await copy.Finish());
    if (out_.content.units != nullptr) copies.units->Include(std::move(out_.content.units));
    out_.content.units = std::move(copies.units);
    for (NewExtent& extent : copies.extents) out_.content.extents.push_back(std::move(extent));
    co_return Status();
  }

  void PutInOrder(size_t first_copy) {
    NewRuns written(std::span(out_.content.extents).first(first_copy));
    NewRuns copies(out_.content.extents, first_copy);
    copies.Take(window_.old_begin - window_.begin, out_.runs);
    if (window_.gap_is_hole && window_.gap != 0) {
      out_.runs.push_back({.is_new = false, .extent = kHole, .offset = 0, .length = window_.gap});
    } else {
      copies.Take(window_.gap, out_.runs);
    }
    (change_.is_held() ? copies : written).Take(change_.length, out_.runs);
    copies.Take(BytesBehind(), out_.runs);
  }

  Core& core_;
  const store::Context& context_;
  const Change& change_;
  const bool is_first_;
  OpenVersionPtr old_;  // keeps its units
  Window window_;
  bool is_inline_ = false;
  std::vector<Piece> pieces_;
  PublishRequest out_;
};

/// An overwrite writes what is around its run again, and some of what it leaves of extents.
constexpr uint64_t kMadeRoomBytes = 4 * kWriterExtentBytes;

rt::Task<Result<store::ObjectInfo>> Replace(Core& core, const store::Context& context, store::Operation operation,
                                            Change change) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    std::optional<Attempt> one(std::in_place, core, context, change, attempt == 0);
    Result<PublishRequest> request = co_await one->Run();
    if (!request.ok()) {
      // What is not needed may be damaged, or too much for the space that is left.
      const bool may_be_for_width =
          request.error().code() == Code::kDataLoss || request.error().code() == Code::kResourceExhausted;
      if (attempt == 0 && may_be_for_width) {
        one.reset();  // its version holds space that may have been evicted for it
        if (request.error().code() == Code::kResourceExhausted) (void)co_await MakeRoom(core, context, kMadeRoomBytes);
        continue;
      }
      const Code code = request.error().code();
      const bool may_be_since = store::IsResult(code) || code == Code::kInvalidArgument || code == Code::kDataLoss;
      if (operation.id.IsNone() || !may_be_since) co_return request.error();
      FB_CO_ASSIGN(const auto earlier, co_await BeginPut(core, context, operation, request.error(), false));
      if (earlier) co_return store::ResultOfPut(*earlier, change.key, {});
      co_return request.error();
    }
    Result<store::ObjectInfo> published = co_await Publish(core, context, operation, *std::move(request), MakeReplace);
    if (published.ok()) co_return published;
    const Code code = published.error().code();
    if (code != Code::kAborted && (attempt != 0 || code != Code::kResourceExhausted)) co_return published;
  }
  co_return Status::Aborted("`{}/{}` was changed {} times at the same place while this change was tried; try again",
                            change.bucket_name, change.key, kAttempts);
}

}  // namespace

uint64_t GrainOf(uint64_t pieces, uint64_t segments) {
  constexpr uint64_t kFinePieces = uint64_t{1} << 19;  // of the whole object; coarse ones are as many again
  constexpr uint64_t kFewestFinePieces = 32;           // one that was written at once has 16 in a segment
  const uint64_t most = std::clamp(std::bit_floor(kFinePieces / std::max<uint64_t>(segments, 1)), kFewestFinePieces,
                                   kMostFinePieces);
  if (pieces < most) return kFineGrain;
  return std::max(64 * base::kKiB, kSegmentBytes / most);
}

OverwriteWriter::OverwriteWriter(Core& core, rt::Reactor& reactor, store::Operation operation, std::string bucket_name,
                                 uint64_t bucket, std::string key, store::OverwriteOptions options)
    : core_(core),
      operation_(operation),
      bucket_name_(std::move(bucket_name)),
      bucket_(bucket),
      key_(std::move(key)),
      options_(std::move(options)),
      content_(core, reactor, fmt::format("{}/{}", bucket_name_, key_), options_.size_bytes) {
  content_.NeedExtents();
  content_.HoldBack(kHeldBytes);
}

rt::Task<Result<store::ObjectInfo>> OverwriteWriter::Commit(const store::Context& context,
                                                            std::optional<uint32_t> crc32c) {
  FB_CO_TRY(store::CheckDeadline(context, "commit"));
  FB_CO_TRY(content_.state());
  content_.End();
  FB_CO_TRY(store::CheckAnnouncedSize(options_.size_bytes, content_.size_bytes()));
  FB_CO_TRY(core_.health());
  FB_CO_ASSIGN(operation_, store::CommitOperation(operation_, context, core_.operations.NowMs()));
  Change change{.bucket_name = bucket_name_,
                .bucket = bucket_,
                .key = key_,
                .condition = options_.condition,
                .offset = options_.offset,
                .length = content_.size_bytes()};
  if (std::optional<std::string> held = content_.TakeHeld()) {
    change.held = *std::move(held);
    change.crc32c = base::Crc32c(AsBytes(change.held));
  } else {
    FB_CO_ASSIGN(change.written, co_await content_.Finish(context));
    change.crc32c = change.written.crc32c;
  }
  FB_CO_TRY(store::CheckContent(crc32c, change.crc32c, bucket_name_, key_));
  operation_.content = store::Content{.size_bytes = change.length, .crc32c = change.crc32c};
  co_return co_await Replace(core_, context, operation_, std::move(change));
}

rt::Task<Result<store::ObjectInfo>> TruncateObject(Core& core, const store::Context& context, store::Operation operation,
                                                   std::string bucket_name, uint64_t bucket, std::string key,
                                                   uint64_t size_bytes, store::Condition condition) {
  co_return co_await Replace(core, context, operation,
                             {.bucket_name = std::move(bucket_name),
                              .bucket = bucket,
                              .key = std::move(key),
                              .condition = std::move(condition),
                              .truncates = true,
                              .offset = size_bytes});
}

}  // namespace forebay::engine
