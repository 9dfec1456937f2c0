// SPDX-License-Identifier: Apache-2.0
// Operations: how a change with an operation id takes place at most once. Here are the rules that all
// backends share: what tells one request from another, which outcomes are results, what is kept of one, and
// when an id is too old to act on. A backend keeps the records and looks at them under whatever makes its
// changes atomic. The one invariant: when a record is let go, no id of its time is acted on any more,
// whatever the clocks do. Immutable values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "store/object_store.h"

namespace forebay::store {

/// A result is kept so long after its effect, at least. An id that is older and has none is refused.
constexpr std::chrono::milliseconds kOperationRetention = std::chrono::minutes(15);
/// How far an id's time may be ahead of the store's.
constexpr std::chrono::milliseconds kOperationLead = std::chrono::minutes(5);
/// Of the message of a refusal that is kept; longer ones are cut.
constexpr size_t kMaxRefusalBytes = 512;

enum class OperationKind : uint8_t {
  kPut = 1,
  kDelete = 2,
  kCreateBucket = 3,
  kDeleteBucket = 4,
  kCompose = 5,
  kRename = 6,
  kRenamePrefix = 7,
  kCreateUpload = 8,
  kPutPart = 9,
  kCopyPart = 10,
  kCompleteUpload = 11,
  kAbortUpload = 12,
  kOverwrite = 13,
  kTruncate = 14,
  kUpdateBucket = 15,
  kDeleteVersion = 16,
  kSetAttributes = 17,
};
constexpr OperationKind kLastOperationKind = OperationKind::kSetAttributes;

/// Whether one that took place gave more than ok, which its record keeps.
constexpr bool HasResult(OperationKind kind) {
  switch (kind) {
    case OperationKind::kPut:
    case OperationKind::kCompose:
    case OperationKind::kRenamePrefix:
    case OperationKind::kCreateUpload:
    case OperationKind::kPutPart:
    case OperationKind::kCopyPart:
    case OperationKind::kCompleteUpload:
    case OperationKind::kOverwrite:
    case OperationKind::kTruncate:
      return true;
    default:
      return false;
  }
}

/// What a put stores.
struct Content {
  uint64_t size_bytes = 0;
  uint32_t crc32c = 0;
  friend bool operator==(const Content&, const Content&) = default;
};

/// A change as a retry of it has to be again. The fingerprint is of all that was asked for except the
/// content.
struct Operation {
  OperationId id;
  TenantId tenant = TenantId::kNone;
  OperationKind kind = OperationKind::kPut;
  uint32_t fingerprint = 0;
  std::optional<Content> content;  // of a put or overwrite, once it is known
  uint64_t asked_ms = 0;           // the store's time when it was asked for
};

/// What is kept of an operation that has its result.
struct OperationRecord {
  OperationKind kind = OperationKind::kPut;
  uint32_t fingerprint = 0;
  uint64_t recorded_ms = 0;        // the store's time
  std::optional<Content> content;  // of a put that was not refused before it was known
  Status refusal;                  // ok: it took place
  // Of one that took place, when its kind HasResult.
  uint64_t version = 0;  // of a rename of a prefix: how many objects; of an upload that was begun: its id; of a part: 0
  int64_t modified_ns = 0;
  std::string etag;
  Content object;  // what the object has since an overwrite; `content` is what was written
  friend bool operator==(const OperationRecord&, const OperationRecord&) = default;
};

/// The time that ids are made by and judged by. It begins at the wall clock, or at `at_least_ms` when that is
/// later, and goes on with the monotonic clock: a jump of the wall clock does not move it. Thread-safe.
class OperationClock {
 public:
  explicit OperationClock(const base::Clock& clock, uint64_t at_least_ms = 0);
  uint64_t NowMs() const;

 private:
  const base::Clock& clock_;  // borrowed
  base::TimePoint began_;
  uint64_t began_ms_;
};

/// InvalidArgument for an id that is neither none nor a UUIDv7.
Status CheckOperationId(const OperationId& id);

Operation PutOperation(const Context& context, std::string_view bucket, std::string_view key,
                       const PutOptions& options, uint64_t now_ms);
/// The operation of a put at its commit: `begun`, or, when that has no id, what the commit's context brings.
Result<Operation> CommitOperation(Operation begun, const Context& context, uint64_t now_ms);
Operation OverwriteOperation(const Context& context, std::string_view bucket, std::string_view key,
                             const OverwriteOptions& options, uint64_t now_ms);
Operation TruncateOperation(const Context& context, std::string_view bucket, std::string_view key,
                            uint64_t size_bytes, const Condition& condition, uint64_t now_ms);
Operation DeleteOperation(const Context& context, std::string_view bucket, std::string_view key,
                          const Condition& condition, uint64_t now_ms);
Operation ComposeOperation(const Context& context, std::string_view bucket, std::string_view key,
                           const std::vector<Source>& sources, const PutOptions& options, uint64_t now_ms);
Operation RenameOperation(const Context& context, std::string_view bucket, std::string_view from,
                          std::string_view to, const RenameOptions& options, uint64_t now_ms);
Operation RenamePrefixOperation(const Context& context, std::string_view bucket, std::string_view from,
                                std::string_view to, uint64_t now_ms);
Operation CreateUploadOperation(const Context& context, std::string_view bucket, std::string_view key,
                                const UserMetadata& metadata, uint64_t now_ms);
Operation PutPartOperation(const Context& context, const UploadName& upload, uint32_t number,
                           const PutOptions& options, uint64_t now_ms);
Operation CopyPartOperation(const Context& context, const UploadName& upload, uint32_t number, const Source& source,
                            uint64_t now_ms);
Operation CompleteUploadOperation(const Context& context, const UploadName& upload, const std::vector<PartRef>& parts,
                                  const CompleteOptions& options, uint64_t now_ms);
Operation AbortUploadOperation(const Context& context, const UploadName& upload, uint64_t now_ms);
Operation CreateBucketOperation(const Context& context, const BucketInfo& bucket, uint64_t now_ms);
Operation SetAttributesOperation(const Context& context, std::string_view bucket, std::string_view key,
                                 uint64_t version, const AttributeChange& change, uint64_t now_ms);
Operation UpdateBucketOperation(const Context& context, std::string_view name, const BucketSettings& settings,
                                uint64_t now_ms);
Operation DeleteVersionOperation(const Context& context, std::string_view bucket, std::string_view key,
                                 uint64_t version, uint64_t now_ms);
Operation DeleteBucketOperation(const Context& context, std::string_view name, uint64_t now_ms);

/// Whether a change that ended so has its result: it took place, or the state of the store decided against
/// it. Whatever else happens (no memory, no time, damage, a full table) leaves no record, so that a retry can
/// act.
bool IsResult(Code code);

/// `outcome` is a result; `stored` is given when it took place and its kind HasResult.
OperationRecord RecordOf(const Operation& operation, const Status& outcome, const ObjectInfo* stored,
                         uint64_t now_ms);

/// InvalidArgument when the record is of another request than `operation`. Content is compared as far as both
/// know it.
Status CheckSameRequest(const OperationRecord& record, const Operation& operation);

/// FailedPrecondition for an operation without a record whose id must not be acted on: it was too old when it
/// was asked for, or is not younger than `floor_ms`, up to which records were let go, or lies too far ahead.
Status CheckOperationTime(const Operation& operation, uint64_t floor_ms);

/// Whether a record may be let go at `now_ms`.
bool IsOver(const OperationId& id, const OperationRecord& record, uint64_t now_ms);

/// ResourceExhausted: `count` records are as many as the store keeps.
Status TooManyOperations(uint64_t count);

/// The content of the object that a record tells of; 0 bytes when it took no place.
Content ObjectOf(const OperationRecord& record);
/// The result of a put, or of another change that gives an object, that has a record.
Result<ObjectInfo> ResultOfPut(const OperationRecord& record, std::string_view key, const UserMetadata& metadata,
                               const UserMetadata& attributes = {});

}  // namespace forebay::store
