// SPDX-License-Identifier: Apache-2.0
#include "engine/compose.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/checksum.h"
#include "engine/content_copy.h"
#include "engine/eviction.h"
#include "engine/fetch.h"
#include "engine/operations.h"
#include "engine/publish.h"
#include "engine/reader.h"
#include "engine/transactions.h"
#include "engine/upload_transactions.h"
#include "store/checks.h"
#include "store/conditions.h"

namespace forebay::engine {
namespace {

/// How often a compose starts over because a source was replaced under its hands.
constexpr int kAttempts = 20;

/// Runs that are so short are copied by content, that of neighbours together: pieces that are shared stay long enough
/// for reads, and little content does not hold much space.
constexpr uint64_t kShortRunBytes = 16 * base::kKiB;
/// So are longer ones, when they are a small part of their extent.
constexpr uint64_t kMiddlingRunBytes = 256 * base::kKiB;
constexpr uint64_t kSmallPart = 4;

struct OpenSource {
  OpenVersionPtr version;
  store::ByteRange range;
};

class Composer {
 public:
  Composer(Core& core, const store::Context& context, const ComposeRequest& request)
      : core_(core), context_(context), request_(request) {}

  /// What is copied needs space.
  uint64_t copied_bytes() const { return copied_bytes_; }

  rt::Task<Result<PublishRequest>> Run() {
    FB_CO_TRY(co_await OpenSources());
    FB_CO_TRY(store::CheckAnnouncedSize(request_.options.size_bytes, out_.size_bytes));
    if (request_.upload != 0) FB_CO_TRY(store::CheckPartSize(out_.size_bytes));
    FB_CO_TRY(co_await SumUp());
    if (request_.upload == 0 && out_.size_bytes <= kMaxInlineContent) {
      FB_CO_TRY(co_await ReadAll());
    } else {
      FB_CO_TRY(MakeRuns());
      FB_CO_TRY(co_await CopyContent());
    }
    FB_CO_TRY(store::CheckDeadline(context_, "compose"));
    co_return std::move(out_);
  }

 private:
  /// A run of the object, of a source.
  struct ObjectRun {
    const OpenSource* source;
    uint64_t offset;  // in the source
    ContentRun content;
    bool copied;
  };

  rt::Task<Status> OpenSources() {
    out_.bucket_name = request_.bucket_name;
    out_.bucket = request_.bucket;
    out_.key = request_.key;
    out_.condition = request_.options.condition;
    out_.metadata = request_.options.metadata;
    out_.attributes = request_.options.attributes;
    out_.etag = request_.options.etag;
    out_.upload = request_.upload;
    out_.part = request_.part;
    for (size_t i = 0; i < request_.sources.size(); ++i) {
      const store::Source& source = request_.sources[i];
      FB_CO_ASSIGN(OpenVersionPtr version, co_await Open(source, request_.source_buckets[i]));
      const store::ObjectInfo& info = version->state->info;
      FB_CO_TRY(store::CheckCondition(source.condition, info.etag, source.bucket, source.key));
      FB_CO_ASSIGN(const store::ByteRange range, store::RangeOf(source, info));
      FB_CO_TRY(store::CheckObjectSize(out_.size_bytes, range.length));
      out_.size_bytes += range.length;
      sources_.push_back({std::move(version), range});
    }
    co_return Status();
  }

  /// Each object is opened once, however often it is named.
  rt::Task<Result<OpenVersionPtr>> Open(const store::Source& source, uint64_t bucket) {
    OpenVersionPtr& version = opened_[{bucket, source.key}];
    if (version != nullptr) co_return version;
    FB_CO_TRY(store::CheckDeadline(context_, "compose"));
    EpochSet::Guard guard = core_.epochs.Enter();  // before the lookup: what it finds stays readable
    Result<ObjectStatePtr> found = co_await FindObject(core_, context_, bucket, source.key);
    if (!found.ok()) co_return found.error().WithContext(fmt::format("open `{}/{}`", source.bucket, source.key));
    ObjectStatePtr state = *std::move(found);
    if (state == nullptr) co_return store::NoSuchObject(source.bucket, source.key);
    out_.sources.push_back(
        {.bucket_name = source.bucket, .bucket = bucket, .key = source.key, .version = state->info.version});
    version = std::make_shared<const OpenVersion>(core_, source.bucket, std::move(state), std::move(guard));
    co_return version;
  }

  // ---- the checksum of the whole, from those of the parts ----

  rt::Task<Status> SumUp() {
    for (const OpenSource& source : sources_) {
      const store::ObjectInfo& info = source.version->state->info;
      uint32_t crc32c = info.crc32c;
      if (source.range.length != info.size_bytes) {
        FB_CO_ASSIGN(crc32c, co_await SumOfRange(context_, source.version, source.range.offset, source.range.length));
      }
      out_.crc32c = base::Crc32cCombine(out_.crc32c, crc32c, source.range.length);
    }
    co_return Status();
  }

  // ---- content ----

  /// What is small as a whole goes to the metadata.
  rt::Task<Status> ReadAll() {
    for (const OpenSource& source : sources_) {
      Reader reader(source.version);
      FB_CO_ASSIGN(const store::ReadData data,
                   co_await reader.Read(context_, source.range.offset, source.range.length));
      for (const base::Buffer& buffer : data.buffers) out_.content.inline_content += AsText(buffer.view());
    }
    co_return Status();
  }

  Status MakeRuns() {
    for (const OpenSource& source : sources_) {
      const ObjectState& state = *source.version->state;
      if (source.range.length == 0) continue;
      if (state.pieces.empty()) {
        runs_.push_back({&source, source.range.offset, {.length = source.range.length}, true});
      } else {
        AddShared(source, state);
      }
      if (runs_.size() > kMaxObjectPieces)
        return Status::InvalidArgument("`{}/{}` would be made of more than {} pieces: compose less at once",
                                       request_.bucket_name, request_.key, kMaxObjectPieces);
    }
    for (ObjectRun& run : runs_)
      if (!run.copied) run.copied = IsTooShort(run) || IsOfOtherClass(run);
    return {};
  }

  void AddShared(const OpenSource& source, const ObjectState& state) {
    const uint64_t end = source.range.offset + source.range.length;
    auto piece = std::ranges::upper_bound(state.pieces, source.range.offset, {}, &MappedPiece::begin) - 1;
    for (; piece != state.pieces.end() && piece->begin < end; ++piece) {
      const uint64_t from = std::max(piece->begin, source.range.offset);
      const uint64_t to = std::min(piece->begin + piece->length, end);
      const bool is_hole = piece->extent == kHoleIndex;
      const ContentRun content{.is_new = false,
                               .extent = is_hole ? kHole : state.extents[piece->extent].id,
                               .offset = is_hole ? 0 : piece->offset + (from - piece->begin),
                               .length = to - from};
      // What follows in the same extent is the same run, unless it is of another source.
      if (!runs_.empty() && runs_.back().source == &source && runs_.back().content.extent == content.extent &&
          (is_hole || runs_.back().content.offset + runs_.back().content.length == content.offset)) {
        runs_.back().content.length += content.length;
      } else {
        runs_.push_back({&source, from, content, false});
      }
    }
  }

  /// Content that may get lost is not shared with an object that may not; nor the other way, so that what evicting an object
  /// frees is its own.
  bool IsOfOtherClass(const ObjectRun& run) const {
    if (run.content.extent == kHole) return false;
    return core_.buckets.IsCache(run.source->version->state->bucket) != core_.buckets.IsCache(request_.bucket);
  }

  bool IsTooShort(const ObjectRun& run) const {
    if (run.content.length < kShortRunBytes) return true;
    if (run.content.length >= kMiddlingRunBytes || run.content.extent == kHole) return false;
    const ObjectState& state = *run.source->version->state;
    const auto piece = std::ranges::upper_bound(state.pieces, run.offset, {}, &MappedPiece::begin) - 1;
    return run.content.length * kSmallPart < state.extents[piece->extent].record.length_bytes;
  }

  /// Writes what is copied, one run after the other, and puts all runs in order.
  rt::Task<Status> CopyContent() {
    uint64_t total = 0;
    for (const ObjectRun& run : runs_)
      if (run.copied) total += run.content.length;
    copied_bytes_ = total;
    if (total != 0) {
      ContentCopy copy(core_, context_, fmt::format("{}/{}", request_.bucket_name, request_.key), total);
      for (const ObjectRun& run : runs_) {
        if (!run.copied) continue;
        FB_CO_TRY((co_await copy.AddRange(run.source->version, run.offset, run.content.length)).status());
      }
      FB_CO_ASSIGN(out_.content, co_await copy.Finish());
    }
    NewRuns copies(out_.content.extents);
    for (const ObjectRun& run : runs_) {
      if (run.copied) {
        copies.Take(run.content.length, out_.runs);
      } else {
        out_.runs.push_back(run.content);
      }
    }
    co_return Status();
  }

  Core& core_;
  const store::Context& context_;
  const ComposeRequest& request_;
  // Their units are not written again while they are here.
  std::map<std::pair<uint64_t, std::string>, OpenVersionPtr> opened_;  // by bucket and key
  std::vector<OpenSource> sources_;  // as they were asked for
  std::vector<ObjectRun> runs_;
  uint64_t copied_bytes_ = 0;
  PublishRequest out_{.crc32c = base::kCrc32cEmpty};
};

}  // namespace

rt::Task<Result<store::ObjectInfo>> ComposeObject(Core& core, const store::Context& context,
                                                  store::Operation operation, ComposeRequest request) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    FB_CO_TRY(store::CheckDeadline(context, "compose"));
    std::optional<Composer> composer(std::in_place, core, context, request);
    Result<PublishRequest> publish = co_await composer->Run();
    if (publish.status().code() == Code::kResourceExhausted && composer->copied_bytes() != 0) {
      // What was evicted for it may have waited for the sources to be closed.
      const uint64_t bytes = composer->copied_bytes();
      composer.reset();
      if (attempt + 1 < kAttempts && co_await MakeRoom(core, context, bytes)) continue;
    }
    if (!publish.ok()) {
      if (operation.id.IsNone() || !store::IsResult(publish.error().code())) co_return publish.error();
      FB_CO_ASSIGN(const auto earlier, co_await BeginPut(core, context, operation, publish.error(), false));
      if (earlier) co_return store::ResultOfPut(*earlier, request.key, request.options.metadata, request.options.attributes);
      co_return publish.error();
    }
    Result<store::ObjectInfo> published = co_await Publish(core, context, operation, *std::move(publish),
                                                                  request.upload == 0 ? MakePublish : MakePutPart);
    if (published.ok() || published.error().code() != Code::kAborted) co_return published;
  }
  co_return Status::Aborted("`{}/{}` was not composed: its sources were replaced {} times while it was tried; try again",
                            request.bucket_name, request.key, kAttempts);
}

}  // namespace forebay::engine
