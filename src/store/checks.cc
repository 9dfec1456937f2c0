// SPDX-License-Identifier: Apache-2.0
#include "store/cache_class.h"
#include "store/checks.h"

#include <algorithm>

namespace forebay::store {
namespace {

bool IsCleanText(std::string_view text) {
  return text.find('\0') == std::string_view::npos && base::IsUtf8(text);
}

Status CheckMetadata(const UserMetadata& metadata) {
  size_t total = 0;
  for (const auto& [name, value] : metadata) {
    if (name.empty()) return Status::InvalidArgument("a metadata entry has an empty name");
    if (!IsCleanText(name) || !IsCleanText(value))
      return Status::InvalidArgument("a metadata entry is not UTF-8 or holds a NUL byte");
    total += name.size() + value.size();
  }
  if (total > base::kMaxUserMetadataBytes)
    return Status::InvalidArgument("the metadata has {} bytes; at most {} are allowed", total,
                                   base::kMaxUserMetadataBytes);
  return {};
}

Status CheckETag(std::string_view etag) {
  if (etag.size() > base::kMaxETagBytes)
    return Status::InvalidArgument("the ETag has {} bytes; at most {} are allowed", etag.size(),
                                   base::kMaxETagBytes);
  const auto allowed = [](char c) { return c > ' ' && c < 0x7f && c != '"'; };
  if (!std::ranges::all_of(etag, allowed))
    return Status::InvalidArgument("an ETag holds printable ASCII without spaces and quotes only");
  return {};
}

Status CheckListText(std::string_view name, std::string_view text) {
  if (text.size() > base::kMaxKeyBytes)
    return Status::InvalidArgument("the {} has {} bytes; at most {} are allowed", name, text.size(),
                                   base::kMaxKeyBytes);
  if (!IsCleanText(text)) return Status::InvalidArgument("the {} is not UTF-8 or holds a NUL byte", name);
  return {};
}

}  // namespace

Status CheckDeadline(const Context& context, std::string_view what) {
  if (context.deadline == base::kNever || context.reactor.clock().Now() < context.deadline) return {};
  return Status::DeadlineExceeded("{}: the deadline passed before it began; allow it more time", what);
}

Status CheckPut(std::string_view key, const PutOptions& options) {
  FB_TRY(base::CheckKey(key));
  FB_TRY(CheckMetadata(options.metadata));
  FB_TRY(CheckMetadata(options.attributes));
  FB_TRY(CheckETag(options.etag));
  return CheckObjectSize(0, options.size_bytes.value_or(0));
}

Status CheckAttributes(std::string_view key, const AttributeChange& change) {
  FB_TRY(CheckOverwrite(key, {.condition = change.condition}));
  return CheckMetadata(change.set);
}

Result<UserMetadata> ChangedAttributes(UserMetadata attributes, const AttributeChange& change) {
  for (const std::string& name : change.remove) attributes.erase(name);
  for (const auto& [name, value] : change.set) attributes[name] = value;
  FB_TRY(CheckMetadata(attributes));
  return attributes;
}

Status CheckVersioning(std::string_view bucket, Versioning now, Versioning next) {
  if (now != Versioning::kOff && next == Versioning::kOff)
    return Status::FailedPrecondition("bucket `{}` has kept versions: suspend that, it cannot be undone", bucket);
  if (now == Versioning::kOff && next == Versioning::kSuspended)
    return Status::FailedPrecondition("bucket `{}` never kept versions: there is nothing to suspend", bucket);
  return {};
}

Result<BucketInfo> ChangedSettings(BucketInfo bucket, const BucketSettings& settings) {
  if (settings.versioning) {
    FB_TRY(CheckVersioning(bucket.name, bucket.versioning, *settings.versioning));
    bucket.versioning = *settings.versioning;
  }
  if (settings.ttl) bucket.ttl = *settings.ttl;
  FB_TRY(CheckClass(bucket));
  return bucket;
}

Status CheckOverwrite(std::string_view key, const OverwriteOptions& options) {
  FB_TRY(base::CheckKey(key));
  if (options.condition.kind == Condition::Kind::kIfAbsent)
    return Status::InvalidArgument("an object that is overwritten cannot be asked to be absent: put it instead");
  return CheckObjectSize(options.offset.value_or(0), options.size_bytes.value_or(0));
}

Status CheckTruncate(std::string_view key, uint64_t size_bytes, const Condition& condition) {
  return CheckOverwrite(key, {.condition = condition, .offset = size_bytes});
}

Status CheckSources(const std::vector<Source>& sources) {
  if (sources.empty())
    return Status::InvalidArgument("an object is composed of at least one source: name one, or put an empty object");
  if (sources.size() > base::kMaxSources)
    return Status::InvalidArgument("{} sources; at most {} are allowed: compose in several steps", sources.size(),
                                   base::kMaxSources);
  for (const Source& source : sources) {
    FB_TRY(base::CheckKey(source.key));
    if (source.condition.kind == Condition::Kind::kIfAbsent)
      return Status::InvalidArgument("source `{}/{}` cannot be asked to be absent", source.bucket, source.key);
  }
  return {};
}

Result<ByteRange> RangeOf(const Source& source, const ObjectInfo& object) {
  if (source.offset <= object.size_bytes) {
    const ByteRange range{.offset = source.offset,
                          .length = source.length.value_or(object.size_bytes - source.offset)};
    if (base::RangeFits(range.offset, range.length, object.size_bytes)) return range;
  }
  return Status::OutOfRange("source `{}/{}` has {} bytes: there are none at offset {}{}", source.bucket, source.key,
                            object.size_bytes, source.offset,
                            source.length ? fmt::format(" + {}", *source.length) : std::string());
}

Status CheckRename(std::string_view from, std::string_view to, const RenameOptions& options) {
  FB_TRY(base::CheckKey(from));
  FB_TRY(base::CheckKey(to));
  if (from == to) return Status::InvalidArgument("`{}` has that key already: name another one", from);
  if (options.source.kind == Condition::Kind::kIfAbsent)
    return Status::InvalidArgument("what is to be renamed cannot be asked to be absent");
  return {};
}

Status CheckRenamePrefix(std::string_view from, std::string_view to) {
  FB_TRY(CheckListText("prefix", from));
  FB_TRY(CheckListText("new prefix", to));
  if (from == to) return Status::InvalidArgument("all keys begin with `{}` already: name another prefix", from);
  return {};
}

Result<std::string> RenamedKey(std::string_view key, std::string_view from, std::string_view to) {
  std::string renamed(to);
  renamed.append(key.substr(from.size()));
  if (const Status status = base::CheckKey(renamed); !status.ok())
    return Status(status.code(), fmt::format("`{}` cannot be renamed: {}", key, status.message()));
  return renamed;
}

Status TooManyToRename(std::string_view bucket, std::string_view prefix) {
  return Status::ResourceExhausted(
      "more objects begin with `{}/{}` than are renamed at once, at most {} and 128 MiB of names and metadata: rename "
      "longer prefixes, one after the other",
      bucket, prefix, base::kMaxRenamed);
}

Status NothingToRename(std::string_view bucket, std::string_view prefix) {
  return Status::NotFound("no object begins with `{}/{}`", bucket, prefix);
}

Status RenameInTheWay(std::string_view bucket, std::string_view from, std::string_view to) {
  return Status::AlreadyExists("`{0}/{1}` would become `{0}/{2}`, which exists: nothing was renamed", bucket, from, to);
}

Status CheckUpload(std::string_view key, const UserMetadata& metadata) {
  FB_TRY(base::CheckKey(key));
  return CheckMetadata(metadata);
}

Status CheckPart(const UploadName& upload, uint32_t number, const PutOptions& options) {
  FB_TRY(base::CheckKey(upload.key));
  if (number == 0 || number > base::kMaxParts)
    return Status::InvalidArgument("part {}: parts have the numbers 1 to {}", number, base::kMaxParts);
  FB_TRY(CheckETag(options.etag));
  return CheckPartSize(options.size_bytes.value_or(0));
}

Status CheckPartSize(uint64_t size_bytes) {
  if (size_bytes <= base::kMaxPartBytes) return {};
  return Status::InvalidArgument("a part has at most {} bytes ({}): make more parts", base::kMaxPartBytes,
                                 base::FormatSize(base::kMaxPartBytes));
}

Status CheckComplete(const UploadName& upload, const std::vector<PartRef>& parts, const CompleteOptions& options) {
  FB_TRY(base::CheckKey(upload.key));
  FB_TRY(CheckETag(options.etag));
  if (parts.empty()) return Status::InvalidArgument("an upload is completed with at least one part");
  uint32_t last = 0;
  for (const PartRef& part : parts) {
    if (part.number <= last || part.number > base::kMaxParts)
      return Status::InvalidArgument("part {} after part {}: name parts in the order of their numbers, 1 to {}, each once",
                                     part.number, last, base::kMaxParts);
    last = part.number;
  }
  return {};
}

Status CheckNamedPart(const PartRef& part, std::optional<std::string_view> etag) {
  if (!etag) return Status::InvalidArgument("part {} was never sent", part.number);
  if (part.etag.empty() || part.etag == *etag) return {};
  return Status::InvalidArgument("part {} has the ETag `{}`, not `{}`: it was sent again", part.number, *etag, part.etag);
}

Status CheckPageLimit(uint32_t limit) {
  if (limit != 0 && limit <= base::kMaxListPage) return {};
  return Status::InvalidArgument("a page of {} entries: ask for 1 to {}", limit, base::kMaxListPage);
}

Status CheckUploadList(const UploadListOptions& options) {
  FB_TRY(CheckPageLimit(options.limit));
  FB_TRY(CheckListText("prefix", options.prefix));
  return CheckListText("key to go on after", options.after_key);
}

Status CheckVersionList(const VersionListOptions& options) {
  FB_TRY(CheckPageLimit(options.limit));
  FB_TRY(CheckListText("prefix", options.prefix));
  return CheckListText("key to go on after", options.after_key);
}

Status CheckListOptions(const ListOptions& options) {
  FB_TRY(CheckPageLimit(options.limit));
  FB_TRY(CheckListText("prefix", options.prefix));
  FB_TRY(CheckListText("delimiter", options.delimiter));
  return CheckListText("start-after key", options.start_after);
}

Status CheckObjectSize(uint64_t size_bytes, uint64_t more_bytes) {
  if (base::RangeFits(size_bytes, more_bytes, base::kMaxObjectBytes)) return {};
  return Status::InvalidArgument("an object has at most {} bytes ({}); store the content in several objects",
                                 base::kMaxObjectBytes, base::FormatSize(base::kMaxObjectBytes));
}

Status CheckRead(std::string_view bucket, const ObjectInfo& object, uint64_t offset, uint64_t length) {
  if (length > base::kMaxChunkBytes)
    return Status::InvalidArgument("a read of {} bytes: ask for at most {}", length, base::kMaxChunkBytes);
  if (base::RangeFits(offset, length, object.size_bytes)) return {};
  return Status::OutOfRange("{} bytes at offset {} of `{}/{}`, which has {} bytes", length, offset, bucket,
                            object.key, object.size_bytes);
}

Status CheckAnnouncedSize(const std::optional<uint64_t>& announced_bytes, uint64_t written_bytes) {
  if (!announced_bytes || *announced_bytes == written_bytes) return {};
  return Status::FailedPrecondition("{} bytes were written but {} announced; nothing is stored",
                                    written_bytes, *announced_bytes);
}

Status CheckContent(std::optional<uint32_t> expected_crc32c, uint32_t actual_crc32c, std::string_view bucket,
                    std::string_view key) {
  if (!expected_crc32c || *expected_crc32c == actual_crc32c) return {};
  return Status::DataLoss(
      "the content of `{}/{}` arrived with CRC32C {:08x}, its sender computed {:08x}; nothing is stored, "
      "send it again",
      bucket, key, actual_crc32c, *expected_crc32c);
}

std::string DefaultETag(uint64_t version, uint32_t crc32c) {
  return fmt::format("{:016x}-{:08x}", version, crc32c);
}

}  // namespace forebay::store
