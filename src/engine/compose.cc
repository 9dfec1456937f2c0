// SPDX-License-Identifier: Apache-2.0
#include "engine/compose.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>

#include "base/checksum.h"
#include "engine/content_writer.h"
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
/// Of a range whose checksum is worked out in one go.
constexpr uint64_t kChecksumStepBytes = 16 * base::kMiB;

struct OpenSource {
  OpenVersionPtr version;
  store::ByteRange range;
};

class Composer {
 public:
  Composer(Core& core, const store::Context& context, const ComposeRequest& request)
      : core_(core), context_(context), request_(request) {}

  rt::Task<Result<PublishRequest>> Run() {
    FB_CO_TRY(co_await OpenSources());
    FB_CO_TRY(store::CheckAnnouncedSize(request_.options.size_bytes, out_.size_bytes));
    if (request_.upload != 0) FB_CO_TRY(store::CheckPartSize(out_.size_bytes));
    FB_CO_TRY(co_await SumUp());
    FB_CO_TRY(co_await WriteInlineContent());
    MakeRuns();
    co_return std::move(out_);
  }

 private:
  static bool IsInline(const OpenSource& source) { return source.version->state->pieces.empty(); }
  bool MayBeInline() const { return request_.upload == 0 && out_.size_bytes <= kMaxInlineContent; }
  std::string_view InlineBytes(const OpenSource& source) const {
    return std::string_view(source.version->state->inline_content).substr(source.range.offset, source.range.length);
  }

  rt::Task<Status> OpenSources() {
    out_.bucket_name = request_.bucket_name;
    out_.bucket = request_.bucket;
    out_.key = request_.key;
    out_.condition = request_.options.condition;
    out_.metadata = request_.options.metadata;
    out_.etag = request_.options.etag;
    out_.upload = request_.upload;
    out_.part = request_.part;
    for (size_t i = 0; i < request_.sources.size(); ++i) {
      const store::Source& source = request_.sources[i];
      EpochSet::Guard guard = core_.epochs.Enter();  // before the lookup: what it finds stays readable
      Result<ObjectStatePtr> found = co_await FindObject(core_, context_, request_.source_buckets[i], source.key);
      if (!found.ok()) co_return found.error().WithContext(fmt::format("open `{}/{}`", source.bucket, source.key));
      ObjectStatePtr state = *std::move(found);
      if (state == nullptr) co_return store::NoSuchObject(source.bucket, source.key);
      FB_CO_TRY(store::CheckCondition(source.condition, state->info.etag, source.bucket, source.key));
      FB_CO_ASSIGN(const store::ByteRange range, store::RangeOf(source, state->info));
      FB_CO_TRY(store::CheckObjectSize(out_.size_bytes, range.length));
      out_.size_bytes += range.length;
      out_.sources.push_back({.bucket_name = source.bucket,
                              .bucket = request_.source_buckets[i],
                              .key = source.key,
                              .version = state->info.version});
      opened_.push_back(
          {std::make_shared<const OpenVersion>(core_, source.bucket, std::move(state), std::move(guard)), range});
    }
    co_return Status();
  }

  /// The checksum of the whole, from those of the parts.
  rt::Task<Status> SumUp() {
    for (const OpenSource& source : opened_) {
      const store::ObjectInfo& info = source.version->state->info;
      uint32_t crc32c = info.crc32c;
      if (source.range.length != info.size_bytes) {
        FB_CO_ASSIGN(crc32c, co_await SumOf(source));
      }
      out_.crc32c = base::Crc32cCombine(out_.crc32c, crc32c, source.range.length);
    }
    co_return Status();
  }

  rt::Task<Result<uint32_t>> SumOf(const OpenSource& source) {
    if (IsInline(source)) co_return base::Crc32c(AsBytes(InlineBytes(source)));
    uint32_t sum = base::kCrc32cEmpty;
    for (uint64_t done = 0; done < source.range.length;) {
      // Steps end where blocks do, as long as these were not composed themselves.
      const uint64_t to_border = kChecksumStepBytes - (source.range.offset + done) % kChecksumStepBytes;
      const uint64_t step = std::min(to_border, source.range.length - done);
      for (const BlockPart& part : PartsOf(*source.version->state, source.range.offset + done, step)) {
        FB_CO_ASSIGN(const uint32_t crc32c, co_await SumOf(source, part));
        sum = base::Crc32cCombine(sum, crc32c, part.length);
      }
      done += step;
      co_await context_.reactor.Yield();
    }
    co_return sum;
  }

  rt::Task<Result<uint32_t>> SumOf(const OpenSource& source, const BlockPart& part) {
    const ExtentRecord& record = source.version->state->extents[part.extent].record;
    const uint64_t block_begin = uint64_t{part.block} << record.block_shift;
    const uint64_t block_bytes = std::min(uint64_t{1} << record.block_shift, record.length_bytes - block_begin);
    if (part.length == block_bytes) co_return record.checksums[part.block];
    Reader reader(source.version);
    FB_CO_ASSIGN(const store::ReadData data, co_await reader.Read(context_, part.object_offset, part.length));
    co_return data.crc32c;
  }

  /// What is small as a whole goes to the metadata. Else what lies there is written to extents of its own.
  rt::Task<Status> WriteInlineContent() {
    if (MayBeInline()) co_return co_await ReadAll();
    uint64_t total = 0;
    for (const OpenSource& source : opened_)
      if (IsInline(source)) total += source.range.length;
    if (total == 0) co_return Status();
    ContentWriter writer(core_, context_.reactor, fmt::format("{}/{}", request_.bucket_name, request_.key), total);
    writer.NeedExtents();
    FB_CO_TRY(co_await CopyInlineContent(writer, total));
    writer.End();
    FB_CO_ASSIGN(out_.content, co_await writer.Finish(context_));
    co_return Status();
  }

  rt::Task<Status> ReadAll() {
    for (const OpenSource& source : opened_) {
      Reader reader(source.version);
      FB_CO_ASSIGN(const store::ReadData data,
                   co_await reader.Read(context_, source.range.offset, source.range.length));
      for (const base::Buffer& buffer : data.buffers) out_.content.inline_content += AsText(buffer.view());
    }
    co_return Status();
  }

  rt::Task<Status> CopyInlineContent(ContentWriter& writer, uint64_t left) {
    base::Buffer buffer;
    size_t filled = 0;
    for (const OpenSource& source : opened_) {
      if (!IsInline(source)) continue;
      std::string_view bytes = InlineBytes(source);
      while (!bytes.empty()) {
        if (buffer.empty()) {
          FB_CO_ASSIGN(buffer, co_await writer.Allocate(context_, std::min<uint64_t>(left, 64 * base::kKiB)));
          filled = 0;
        }
        const size_t take = std::min(bytes.size(), buffer.size() - filled);
        std::memcpy(buffer.writable().data() + filled, bytes.data(), take);
        bytes.remove_prefix(take);
        filled += take;
        left -= take;
        if (filled == buffer.size() || left == 0)
          FB_CO_TRY(co_await writer.Write(context_, std::exchange(buffer, {}).Slice(0, filled)));
      }
    }
    co_return Status();
  }

  void MakeRuns() {
    if (MayBeInline()) return;
    NewRuns new_runs(out_.content.extents);
    for (const OpenSource& source : opened_) {
      if (IsInline(source)) {
        new_runs.Take(source.range.length, out_.runs);
      } else {
        AddShared(*source.version->state, source.range);
      }
    }
  }

  /// Hands out the new content from its beginning on.
  class NewRuns {
   public:
    explicit NewRuns(std::span<const NewExtent> extents) : extents_(extents) {}
    void Take(uint64_t length, std::vector<ContentRun>& runs) {
      while (length != 0) {
        const uint64_t take = std::min(length, extents_[extent_].length_bytes - offset_);
        runs.push_back({.is_new = true, .extent = extent_, .offset = offset_, .length = take});
        length -= take;
        offset_ += take;
        if (offset_ == extents_[extent_].length_bytes) {
          ++extent_;
          offset_ = 0;
        }
      }
    }

   private:
    const std::span<const NewExtent> extents_;
    size_t extent_ = 0;
    uint64_t offset_ = 0;
  };

  void AddShared(const ObjectState& state, store::ByteRange range) {
    const uint64_t end = range.offset + range.length;
    auto piece = std::ranges::upper_bound(state.pieces, range.offset, {}, &MappedPiece::begin) - 1;
    for (; piece != state.pieces.end() && piece->begin < end; ++piece) {
      const uint64_t from = std::max(piece->begin, range.offset);
      const uint64_t to = std::min(piece->begin + piece->length, end);
      if (from >= to) continue;
      const ContentRun run{.is_new = false,
                           .extent = state.extents[piece->extent].id,
                           .offset = piece->offset + (from - piece->begin),
                           .length = to - from};
      // What follows in the same extent is the same run.
      if (!out_.runs.empty() && !out_.runs.back().is_new && out_.runs.back().extent == run.extent &&
          out_.runs.back().offset + out_.runs.back().length == run.offset) {
        out_.runs.back().length += run.length;
      } else {
        out_.runs.push_back(run);
      }
    }
  }

  Core& core_;
  const store::Context& context_;
  const ComposeRequest& request_;
  std::vector<OpenSource> opened_;  // their units are not written again while they are here
  PublishRequest out_{.crc32c = base::kCrc32cEmpty};
};

}  // namespace

rt::Task<Result<store::ObjectInfo>> ComposeObject(Core& core, const store::Context& context,
                                                  store::Operation operation, ComposeRequest request) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    FB_CO_TRY(store::CheckDeadline(context, "compose"));
    Composer composer(core, context, request);
    Result<PublishRequest> publish = co_await composer.Run();
    if (!publish.ok()) {
      if (operation.id.IsNone() || !store::IsResult(publish.error().code())) co_return publish.error();
      FB_CO_ASSIGN(const auto earlier, co_await BeginPut(core, context, operation, publish.error(), false));
      if (earlier) co_return store::ResultOfPut(*earlier, request.key, request.options.metadata);
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
