// SPDX-License-Identifier: Apache-2.0
#include "client.h"

#include <algorithm>
#include <set>
#include <utility>

#include "base/checksum.h"
#include "engine/rows.h"

namespace forebay::crash {

namespace {

rt::Task<Status> WriteAll(const store::Context& context, store::ObjectWriter& writer, std::string_view content) {
  for (size_t at = 0; at < content.size();) {
    FB_CO_ASSIGN(base::Buffer buffer, co_await writer.Allocate(context, content.size() - at));
    std::memcpy(buffer.writable().data(), content.data() + at, buffer.size());
    at += buffer.size();
    FB_CO_TRY(co_await writer.Write(context, std::move(buffer)));
  }
  co_return Status();
}

}  // namespace

rt::Task<Result<store::ObjectInfo>> PutObject(Lab& lab, std::string key, std::string content, store::PutOptions options,
                                              std::optional<uint32_t> crc32c, bool* committing) {
  const store::Context context = lab.context();
  FB_CO_ASSIGN(const std::unique_ptr<store::ObjectWriter> writer,
               co_await lab.engine().Put(context, Lab::kBucket, std::move(key), std::move(options)));
  FB_CO_TRY(co_await WriteAll(context, *writer, content));
  if (committing != nullptr) *committing = true;
  co_return co_await writer->Commit(context, crc32c);
}

namespace {

rt::Task<Result<store::ObjectInfo>> StoreInParts(Lab& lab, std::string key, std::string content,
                                                 store::PutOptions options, std::optional<uint32_t> crc32c,
                                                 bool* committing) {
  const store::Context context = lab.context();
  FB_CO_ASSIGN(const store::UploadInfo begun,
               co_await lab.engine().CreateUpload(context, Lab::kBucket, key, options.metadata));
  const store::UploadName upload{.bucket = Lab::kBucket, .key = key, .id = begun.id};
  // Whole units but for the last part, so that the parts need as much room as the object.
  const size_t part_bytes = base::RoundUp(std::max<size_t>(content.size() / 3, 1), device::kUnit);
  std::vector<store::PartRef> parts;
  for (size_t at = 0; at < content.size(); at += part_bytes) {
    const std::string part = content.substr(at, part_bytes);
    const auto number = static_cast<uint32_t>(parts.size() + 1);
    FB_CO_ASSIGN(const std::unique_ptr<store::ObjectWriter> writer,
                 co_await lab.engine().PutPart(context, upload, number, {.size_bytes = part.size()}));
    FB_CO_TRY(co_await WriteAll(context, *writer, part));
    FB_CO_ASSIGN(const store::ObjectInfo info, co_await writer->Commit(context, base::Crc32c(AsBytes(part))));
    parts.push_back({.number = number, .etag = info.etag});
  }
  *committing = true;
  Result<store::ObjectInfo> done =
      co_await lab.engine().CompleteUpload(context, upload, std::move(parts), {.condition = options.condition, .crc32c = crc32c});
  if (!done.ok()) (void)co_await lab.engine().AbortUpload(context, upload);
  co_return done;
}

/// The last step of what is made under a temporary name, as `info`.
rt::Task<Result<store::ObjectInfo>> RenameInto(Lab& lab, std::string temporary, std::string key,
                                               store::Condition condition, store::ObjectInfo info) {
  const store::Context context = lab.context();
  const Status renamed =
      co_await lab.engine().Rename(context, Lab::kBucket, temporary, key, {.target = std::move(condition)});
  if (!renamed.ok()) {
    (void)co_await lab.engine().Delete(context, Lab::kBucket, temporary, {});
    co_return renamed;
  }
  info.key = std::move(key);
  co_return info;
}

rt::Task<Result<store::ObjectInfo>> StoreByRename(Lab& lab, std::string temporary, std::string key, std::string content,
                                                  store::PutOptions options, std::optional<uint32_t> crc32c,
                                                  bool* committing) {
  FB_CO_ASSIGN(store::ObjectInfo info,
               co_await PutObject(lab, temporary, std::move(content), {.metadata = options.metadata}, crc32c));
  *committing = true;
  co_return co_await RenameInto(lab, std::move(temporary), std::move(key), std::move(options.condition), std::move(info));
}

rt::Task<Result<store::ObjectInfo>> StoreByCompose(Lab& lab, std::string temporary, std::string key,
                                                   std::string content, store::PutOptions options,
                                                   std::optional<uint32_t> crc32c, bool* committing) {
  const store::Context context = lab.context();
  FB_CO_TRY((co_await PutObject(lab, temporary, std::move(content), {.metadata = options.metadata}, crc32c)).status());
  *committing = true;
  std::vector<store::Source> sources;
  sources.push_back({.bucket = Lab::kBucket, .key = temporary});
  Result<store::ObjectInfo> info = co_await lab.engine().Compose(context, Lab::kBucket, std::move(key), std::move(sources),
                                                                 {.condition = options.condition, .metadata = options.metadata});
  (void)co_await lab.engine().Delete(context, Lab::kBucket, temporary, {});
  co_return info;
}

/// The ranges by which an object comes, in their order: quarters, which begin and end anywhere.
struct Range {
  size_t offset;
  size_t length;
};
std::vector<Range> RangesOf(size_t size) {
  std::vector<Range> ranges;
  for (const size_t quarter : {2, 0, 3, 1}) {
    const size_t begin = size * quarter / 4;
    ranges.push_back({begin, size * (quarter + 1) / 4 - begin});
  }
  return ranges;
}

/// Every eighth object is this much longer while it comes, with zeros behind: so long that its map has rows of its own.
uint64_t Detour(std::string_view content) {
  return base::Crc32c(AsBytes(content)) % 8 == 0 ? engine::kSegmentBytes : 0;
}

/// Whether an object can be what `content` is on its way to, range by range.
bool IsOnTheWay(std::string_view object, std::string_view content) {
  if (object.empty()) return true;
  const std::string_view behind = object.substr(std::min(object.size(), content.size()));
  if (object.size() != content.size() && behind.size() != Detour(content)) return false;
  if (behind.find_first_not_of('\0') != std::string_view::npos) return false;
  object = object.substr(0, content.size());
  std::string state(content.size(), '\0');
  if (object == state) return true;
  for (const Range& range : RangesOf(content.size())) {
    state.replace(range.offset, range.length, content.substr(range.offset, range.length));
    if (object == state) return true;
  }
  return false;
}

rt::Task<Result<store::ObjectInfo>> StoreByOverwrites(Lab& lab, std::string temporary, std::string key,
                                                      std::string content, store::PutOptions options, bool* committing) {
  const store::Context context = lab.context();
  options.metadata[kOverwritesName] = "yes";
  FB_CO_TRY((co_await PutObject(lab, temporary, "", {.metadata = options.metadata})).status());
  FB_CO_ASSIGN(store::ObjectInfo info,
               co_await lab.engine().Truncate(context, Lab::kBucket, temporary, content.size() + Detour(content), {}));
  for (const Range& range : RangesOf(content.size())) {
    const std::string bytes = content.substr(range.offset, range.length);
    FB_CO_ASSIGN(const std::unique_ptr<store::ObjectWriter> writer,
                 co_await lab.engine().Overwrite(context, Lab::kBucket, temporary, {.offset = range.offset}));
    FB_CO_TRY(co_await WriteAll(context, *writer, bytes));
    FB_CO_ASSIGN(info, co_await writer->Commit(context, base::Crc32c(AsBytes(bytes))));
  }
  if (Detour(content) != 0) {
    FB_CO_ASSIGN(info, co_await lab.engine().Truncate(context, Lab::kBucket, temporary, content.size(), {}));
  }
  *committing = true;
  co_return co_await RenameInto(lab, std::move(temporary), std::move(key), std::move(options.condition), std::move(info));
}

}  // namespace

rt::Task<Result<store::ObjectInfo>> StoreObject(Lab& lab, Way way, std::string temporary, std::string key,
                                                std::string content, store::PutOptions options,
                                                std::optional<uint32_t> crc32c, bool* committing) {
  switch (way) {
    case Way::kPut:
      return PutObject(lab, std::move(key), std::move(content), std::move(options), crc32c, committing);
    case Way::kParts:
      return StoreInParts(lab, std::move(key), std::move(content), std::move(options), crc32c, committing);
    case Way::kRename:
      return StoreByRename(lab, std::move(temporary), std::move(key), std::move(content), std::move(options), crc32c, committing);
    case Way::kCompose:
      return StoreByCompose(lab, std::move(temporary), std::move(key), std::move(content), std::move(options), crc32c, committing);
    case Way::kOverwrites:
      return StoreByOverwrites(lab, std::move(temporary), std::move(key), std::move(content), std::move(options), committing);
  }
  std::unreachable();
}

rt::Task<Status> AbortUploads(Lab& lab) {
  const store::Context context = lab.context();
  FB_CO_ASSIGN(const store::UploadPage page, co_await lab.engine().ListUploads(context, Lab::kBucket, {}));
  for (const store::UploadInfo& upload : page.uploads)
    FB_CO_TRY(co_await lab.engine().AbortUpload(context, {.bucket = Lab::kBucket, .key = upload.key, .id = upload.id}));
  co_return Status();
}

rt::Task<Result<Object>> GetObject(Lab& lab, std::string key, uint64_t step) {
  const store::Context context = lab.context();
  FB_CO_ASSIGN(const std::unique_ptr<store::ObjectReader> reader,
               co_await lab.engine().Open(context, Lab::kBucket, std::move(key), {}));
  Object object{.info = reader->info(), .content = {}};
  object.content.reserve(object.info.size_bytes);
  while (object.content.size() < object.info.size_bytes) {
    const uint64_t length = std::min(step, object.info.size_bytes - object.content.size());
    FB_CO_ASSIGN(const store::ReadData data, co_await reader->Read(context, object.content.size(), length));
    const size_t before = object.content.size();
    for (const base::Buffer& buffer : data.buffers) object.content += AsText(buffer.view());
    if (object.content.size() - before != length || data.size_bytes != length)
      co_return Status::Internal("a read of {} bytes gave {}", length, object.content.size() - before);
    if (data.crc32c != base::Crc32c(AsBytes(std::string_view(object.content).substr(before))))
      co_return Status::Internal("the checksum of the bytes that were read is wrong");
  }
  co_return object;
}

rt::Task<Result<std::vector<store::ObjectInfo>>> ListAll(Lab& lab, uint32_t limit) {
  const store::Context context = lab.context();
  std::vector<store::ObjectInfo> all;
  store::ListOptions options{.limit = limit};
  for (;;) {
    FB_CO_ASSIGN(store::ListPage page, co_await lab.engine().List(context, Lab::kBucket, options));
    std::ranges::move(page.objects, std::back_inserter(all));
    if (!page.truncated) co_return all;
    options.start_after = page.next_start_after;
  }
}

namespace {

bool Same(const store::ObjectInfo& a, const store::ObjectInfo& b) {
  return a.key == b.key && a.version == b.version && a.size_bytes == b.size_bytes && a.etag == b.etag &&
         a.crc32c == b.crc32c && a.modified == b.modified && a.metadata == b.metadata;
}

/// The listing names what was found, no more and no less, and says the same about it.
void CheckListing(Lab& lab, const Contents& contents, uint32_t page, std::vector<std::string>& violations) {
  const Result<std::vector<store::ObjectInfo>> listed = lab.Run(ListAll(lab, page));
  if (!listed.ok()) {
    violations.push_back("the listing fails: " + listed.status().ToString());
    return;
  }
  const bool ascending = std::ranges::is_sorted(*listed, {}, &store::ObjectInfo::key);
  if (!ascending) violations.push_back("the listing is out of order");
  Contents names;
  for (const store::ObjectInfo& info : *listed)
    if (!names.emplace(info.key, info).second) violations.push_back(info.key + " is listed twice");
  for (const auto& [key, info] : contents) {
    const auto found = names.find(key);
    if (found == names.end()) {
      violations.push_back(key + " can be read and is not listed");
    } else if (!Same(found->second, info)) {
      violations.push_back(key + " is listed with other properties than it has");
    }
  }
  for (const auto& [key, info] : names)
    if (!contents.contains(key)) violations.push_back(key + " is listed and cannot be read");
}

/// What the parts of uploads in progress hold, and the room that they need.
struct PartBytes {
  uint64_t content = 0;
  uint64_t room = 0;
};
rt::Task<Result<PartBytes>> CountParts(Lab& lab) {
  const store::Context context = lab.context();
  PartBytes bytes;
  FB_CO_ASSIGN(const store::UploadPage page, co_await lab.engine().ListUploads(context, Lab::kBucket, {}));
  for (const store::UploadInfo& upload : page.uploads) {
    FB_CO_ASSIGN(const store::PartPage parts,
                 co_await lab.engine().ListParts(context, {.bucket = Lab::kBucket, .key = upload.key, .id = upload.id}, 0,
                                                 base::kMaxListPage));
    for (const store::PartInfo& part : parts.parts) {
      bytes.content += part.size_bytes;
      bytes.room += base::RoundUp(part.size_bytes, device::kUnit);
    }
  }
  co_return bytes;
}

/// Temporary objects may be there, and are what the put that they claim to be has written.
void CheckTemporary(Lab& lab, const Oracle& oracle, Contents& contents, std::vector<std::string>& violations) {
  const store::Context context = lab.context();
  const Result<store::ListPage> page =
      lab.Run(lab.engine().List(context, Lab::kBucket, {.prefix = kTemporaryPrefix}));
  if (!page.ok()) {
    violations.push_back("the listing of temporary objects fails: " + page.status().ToString());
    return;
  }
  for (const store::ObjectInfo& info : page->objects) {
    const Result<Object> object = lab.Run(GetObject(lab, info.key));
    const Value generation = GenerationOf(info);
    const bool is_as_written =
        object.ok() && generation &&
        (object->content == oracle.Content(*generation) ||
         (info.metadata.contains(kOverwritesName) && IsOnTheWay(object->content, oracle.Content(*generation)) &&
          info.crc32c == base::Crc32c(AsBytes(object->content))));
    if (!is_as_written) {
      violations.push_back(info.key + " is not what was written: " + object.status().ToString());
    } else {
      contents.emplace(info.key, object->info);
    }
  }
}

/// The owner's account says what is there, and that is within the quota.
void CheckUsage(Lab& lab, const Contents& contents, uint64_t part_bytes, std::vector<std::string>& violations) {
  const store::Context context = lab.context();
  const Result<store::TenantUsage> usage = lab.Run(lab.engine().GetTenantUsage(context, Lab::kOwner));
  if (!usage.ok()) {
    violations.push_back("the owner's usage cannot be read: " + usage.status().ToString());
    return;
  }
  uint64_t bytes = part_bytes;
  for (const auto& [key, info] : contents) bytes += info.size_bytes;
  if (usage->objects != contents.size() || usage->bytes != bytes || usage->buckets != 1)
    violations.push_back(fmt::format("the account says {} objects of {} bytes in {} buckets; there are {} of {} in 1",
                                     usage->objects, usage->bytes, usage->buckets, contents.size(), bytes));
  const store::Quota& quota = usage->quota;
  if ((quota.max_objects != 0 && contents.size() > quota.max_objects) || (quota.max_bytes != 0 && bytes > quota.max_bytes))
    violations.push_back(fmt::format("{} objects of {} bytes are more than the quota of {} of {}", contents.size(), bytes,
                                     quota.max_objects, quota.max_bytes));
}

}  // namespace

Contents CheckContents(Lab& lab, const Oracle& oracle, uint32_t page, std::vector<std::string>& violations) {
  Contents contents;
  for (const auto& [key, operations] : oracle.keys()) {
    const Result<Object> object = lab.Run(GetObject(lab, key));
    Value value;
    if (object.ok()) {
      value = GenerationOf(object->info);
      if (std::string wrong = oracle.CheckObject(key, object->info, object->content); !wrong.empty())
        violations.push_back(std::move(wrong));
      contents.emplace(key, object->info);
    } else if (object.status().code() != Code::kNotFound) {
      violations.push_back(fmt::format("{} cannot be read: {}", key, object.status().ToString()));
      continue;
    }
    if (std::string wrong = oracle.CheckValue(key, value); !wrong.empty()) violations.push_back(std::move(wrong));
  }
  CheckTemporary(lab, oracle, contents, violations);
  CheckListing(lab, contents, page, violations);
  const Result<PartBytes> parts = lab.Run(CountParts(lab));
  if (!parts.ok()) violations.push_back("the uploads cannot be listed: " + parts.status().ToString());
  // By arithmetic: content of up to 1 KiB lies in the metadata, all else in whole units. A copy shares what is not short, and
  // what is overwritten may have holes, or extents of which a part is needed; fsck says exactly.
  uint64_t least = parts.ok() ? parts->room : 0;
  uint64_t most = least;
  std::set<Value> seen;
  for (const auto& [key, info] : contents) {
    const uint64_t room = info.size_bytes > engine::kMaxInlineContent ? base::RoundUp(info.size_bytes, device::kUnit) : 0;
    const bool overwritten = info.metadata.contains(kOverwritesName);
    if (seen.insert(GenerationOf(info)).second && !overwritten) least += room;
    most += room + (overwritten ? RangesOf(info.size_bytes).size() * 2 * device::kUnit : 0);
  }
  if (const uint64_t used = lab.engine().usage().used_bytes; used < least || used > most)
    violations.push_back(fmt::format("{} bytes are in use and the objects need {} to {}", used, least, most));
  CheckUsage(lab, contents, parts.ok() ? parts->content : 0, violations);
  return contents;
}

void SettleContents(const Contents& contents, Oracle& oracle) {
  for (const auto& [key, operations] : std::map(oracle.keys())) {
    const auto found = contents.find(key);
    if (found == contents.end()) {
      oracle.Settle(key, Value(), {});
    } else {
      oracle.Settle(key, GenerationOf(found->second), found->second.etag);
    }
  }
}

}  // namespace forebay::crash
