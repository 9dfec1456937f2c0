// SPDX-License-Identifier: Apache-2.0
// What every backend refuses in the same words, before it does any work, and the ETag every backend gives
// when the frontend chose none. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "store/object_store.h"

namespace forebay::store {

/// DeadlineExceeded, naming `what`, when the context's deadline has passed.
Status CheckDeadline(const Context& context, std::string_view what);

/// InvalidArgument for a bad key, metadata (names not empty, UTF-8 without NUL, kMaxUserMetadataBytes in
/// all), etag (kMaxETagBytes of printable ASCII without quotes) or a size beyond kMaxObjectBytes.
Status CheckPut(std::string_view key, const PutOptions& options);

/// FailedPrecondition when versioning cannot go from `now` to what is asked for.
Status CheckVersioning(std::string_view bucket, Versioning now, Versioning next);
/// What a bucket is with other settings, or why not.
Result<BucketInfo> ChangedSettings(BucketInfo bucket, const BucketSettings& settings);
Status CheckVersionList(const VersionListOptions& options);
/// InvalidArgument for a bad key, the condition if-absent, or a run that no object can have.
Status CheckOverwrite(std::string_view key, const OverwriteOptions& options);
Status CheckTruncate(std::string_view key, uint64_t size_bytes, const Condition& condition);

/// InvalidArgument for a bad key, the condition if-absent, or bad names and values.
Status CheckAttributes(std::string_view key, const AttributeChange& change);
/// The attributes after a change; InvalidArgument when they are too large.
Result<UserMetadata> ChangedAttributes(UserMetadata attributes, const AttributeChange& change);

/// A run of an object.
struct ByteRange {
  uint64_t offset = 0;
  uint64_t length = 0;
};

/// InvalidArgument for no source, more than kMaxSources, a bad key, or the condition if-absent.
Status CheckSources(const std::vector<Source>& sources);
/// Which bytes of `object` the source means; OutOfRange when it does not have them.
Result<ByteRange> RangeOf(const Source& source, const ObjectInfo& object);

/// InvalidArgument for a bad key, the same one twice, or a source that is to be absent.
Status CheckRename(std::string_view from, std::string_view to, const RenameOptions& options);
/// InvalidArgument for what can begin no key, or the same prefix twice.
Status CheckRenamePrefix(std::string_view from, std::string_view to);
/// What a key that begins with `from` becomes; InvalidArgument when that is no key.
Result<std::string> RenamedKey(std::string_view key, std::string_view from, std::string_view to);
Status TooManyToRename(std::string_view bucket, std::string_view prefix);
Status NothingToRename(std::string_view bucket, std::string_view prefix);
/// AlreadyExists: what a renamed key is in the way of.
Status RenameInTheWay(std::string_view bucket, std::string_view from, std::string_view to);

/// InvalidArgument for a bad key or metadata.
Status CheckUpload(std::string_view key, const UserMetadata& metadata);
/// InvalidArgument for a number that no part has, or a part that is too large or has a bad etag.
Status CheckPart(const UploadName& upload, uint32_t number, const PutOptions& options);
Status CheckPartSize(uint64_t size_bytes);
/// InvalidArgument for no part, or numbers that do not ascend, and a bad etag.
Status CheckComplete(const UploadName& upload, const std::vector<PartRef>& parts, const CompleteOptions& options);
/// InvalidArgument: the part is not there (no etag), or has another etag than is asked for.
Status CheckNamedPart(const PartRef& part, std::optional<std::string_view> etag);
Status CheckUploadList(const UploadListOptions& options);
Status CheckPageLimit(uint32_t limit);

/// InvalidArgument for a limit of 0 or beyond kMaxListPage, or a prefix, delimiter or start_after that is
/// longer than a key, holds NUL or is not UTF-8.
Status CheckListOptions(const ListOptions& options);

/// InvalidArgument when an object of `size_bytes` would grow beyond kMaxObjectBytes with `more_bytes`.
Status CheckObjectSize(uint64_t size_bytes, uint64_t more_bytes);

/// InvalidArgument for more than kMaxChunkBytes at once, OutOfRange when [offset, offset + length) passes the
/// end.
Status CheckRead(std::string_view bucket, const ObjectInfo& object, uint64_t offset, uint64_t length);

/// FailedPrecondition unless `written_bytes` is what was announced, if anything was.
Status CheckAnnouncedSize(const std::optional<uint64_t>& announced_bytes, uint64_t written_bytes);

/// DataLoss unless `actual_crc32c` is what the caller of Commit expects.
Status CheckContent(std::optional<uint32_t> expected_crc32c, uint32_t actual_crc32c, std::string_view bucket,
                    std::string_view key);

/// 16 hex digits of the version, "-", 8 hex digits of the checksum.
std::string DefaultETag(uint64_t version, uint32_t crc32c);

}  // namespace forebay::store
