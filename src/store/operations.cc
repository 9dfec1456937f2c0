// SPDX-License-Identifier: Apache-2.0
#include "store/operations.h"

#include <algorithm>
#include <utility>

#include "base/checksum.h"
#include "base/codec.h"

namespace forebay::store {
namespace {

uint64_t Ms(base::Duration duration) {
  return static_cast<uint64_t>(
      std::max<int64_t>(0, duration_cast<std::chrono::milliseconds>(duration).count()));
}

/// Each part with its length, so that no two requests look the same.
class Fingerprint {
 public:
  Fingerprint& Add(std::string_view text) {
    base::Encoder(&text_).Blob(text);
    return *this;
  }
  Fingerprint& Add(uint8_t number) {
    base::Encoder(&text_).U8(number);
    return *this;
  }
  Fingerprint& Add(const Condition& condition) {
    return Add(static_cast<uint8_t>(condition.kind)).Add(condition.etag);
  }
  Fingerprint& AddNumber(uint64_t number) {
    base::Encoder(&text_).Varint(number);
    return *this;
  }
  Fingerprint& Add(const UploadName& upload) { return Add(upload.bucket).Add(upload.key).AddNumber(upload.id); }
  Fingerprint& Add(const Source& source) {
    return Add(source.bucket)
        .Add(source.key)
        .Add(source.condition)
        .AddNumber(source.offset)
        .AddNumber(source.length.value_or(UINT64_MAX));
  }
  Fingerprint& Add(const UserMetadata& metadata) {
    for (const auto& [name, value] : metadata) Add(name).Add(value);
    return *this;
  }
  uint32_t value() const { return base::Crc32c(AsBytes(text_)); }

 private:
  std::string text_;
};

Operation Make(const Context& context, OperationKind kind, const Fingerprint& fingerprint, uint64_t now_ms) {
  return {.id = context.operation,
          .tenant = context.tenant,
          .kind = kind,
          .fingerprint = fingerprint.value(),
          .content = {},
          .asked_ms = now_ms};
}

std::string Cut(std::string_view message) {
  size_t size = std::min(message.size(), kMaxRefusalBytes);
  const auto continues = [&](size_t at) { return (static_cast<unsigned char>(message[at]) & 0xc0) == 0x80; };
  while (size > 0 && size < message.size() && continues(size)) --size;
  return std::string(message.substr(0, size));
}

}  // namespace

OperationClock::OperationClock(const base::Clock& clock, uint64_t at_least_ms)
    : clock_(clock),
      began_(clock.Now()),
      began_ms_(std::clamp<uint64_t>(Ms(clock.WallNow().time_since_epoch()), at_least_ms,
                                     OperationId::kMaxUnixMs)) {}

uint64_t OperationClock::NowMs() const {
  return std::min(began_ms_ + Ms(clock_.Now() - began_), OperationId::kMaxUnixMs);
}

Status CheckOperationId(const OperationId& id) {
  if (id.IsNone() || id.HasTime()) return {};
  return Status::InvalidArgument("operation id {} is no UUIDv7: its time could not be told", id.ToString());
}

Operation PutOperation(const Context& context, std::string_view bucket, std::string_view key,
                       const PutOptions& options, uint64_t now_ms) {
  Fingerprint fingerprint;
  fingerprint.Add(bucket).Add(key).Add(options.condition).Add(options.etag).Add(options.metadata);
  if (!options.attributes.empty()) fingerprint.AddNumber(options.metadata.size()).Add(options.attributes);
  return Make(context, OperationKind::kPut, fingerprint, now_ms);
}

Result<Operation> CommitOperation(Operation begun, const Context& context, uint64_t now_ms) {
  if (!begun.id.IsNone() || context.operation.IsNone()) return begun;
  FB_TRY(CheckOperationId(context.operation));
  begun.id = context.operation;
  begun.tenant = context.tenant;
  begun.asked_ms = now_ms;
  return begun;
}

Operation OverwriteOperation(const Context& context, std::string_view bucket, std::string_view key,
                             const OverwriteOptions& options, uint64_t now_ms) {
  Fingerprint fingerprint;
  fingerprint.Add(bucket).Add(key).Add(options.condition).AddNumber(options.offset.value_or(UINT64_MAX));
  return Make(context, OperationKind::kOverwrite, fingerprint, now_ms);
}

Operation TruncateOperation(const Context& context, std::string_view bucket, std::string_view key,
                            uint64_t size_bytes, const Condition& condition, uint64_t now_ms) {
  return Make(context, OperationKind::kTruncate, Fingerprint().Add(bucket).Add(key).Add(condition).AddNumber(size_bytes),
              now_ms);
}

Operation DeleteOperation(const Context& context, std::string_view bucket, std::string_view key,
                          const Condition& condition, uint64_t now_ms) {
  return Make(context, OperationKind::kDelete, Fingerprint().Add(bucket).Add(key).Add(condition), now_ms);
}

Operation ComposeOperation(const Context& context, std::string_view bucket, std::string_view key,
                           const std::vector<Source>& sources, const PutOptions& options, uint64_t now_ms) {
  Fingerprint fingerprint;
  fingerprint.Add(bucket).Add(key).Add(options.condition).Add(options.etag).AddNumber(sources.size());
  for (const Source& source : sources) fingerprint.Add(source);
  fingerprint.Add(options.metadata);
  if (!options.attributes.empty()) fingerprint.AddNumber(options.metadata.size()).Add(options.attributes);
  return Make(context, OperationKind::kCompose, fingerprint, now_ms);
}

Operation RenameOperation(const Context& context, std::string_view bucket, std::string_view from,
                          std::string_view to, const RenameOptions& options, uint64_t now_ms) {
  return Make(context, OperationKind::kRename,
              Fingerprint().Add(bucket).Add(from).Add(to).Add(options.source).Add(options.target), now_ms);
}

Operation RenamePrefixOperation(const Context& context, std::string_view bucket, std::string_view from,
                                std::string_view to, uint64_t now_ms) {
  return Make(context, OperationKind::kRenamePrefix, Fingerprint().Add(bucket).Add(from).Add(to), now_ms);
}

Operation CreateUploadOperation(const Context& context, std::string_view bucket, std::string_view key,
                                const UserMetadata& metadata, uint64_t now_ms) {
  return Make(context, OperationKind::kCreateUpload, Fingerprint().Add(bucket).Add(key).Add(metadata), now_ms);
}

Operation PutPartOperation(const Context& context, const UploadName& upload, uint32_t number,
                           const PutOptions& options, uint64_t now_ms) {
  return Make(context, OperationKind::kPutPart, Fingerprint().Add(upload).AddNumber(number).Add(options.etag), now_ms);
}

Operation CopyPartOperation(const Context& context, const UploadName& upload, uint32_t number, const Source& source,
                            uint64_t now_ms) {
  return Make(context, OperationKind::kCopyPart, Fingerprint().Add(upload).AddNumber(number).Add(source), now_ms);
}

Operation CompleteUploadOperation(const Context& context, const UploadName& upload, const std::vector<PartRef>& parts,
                                  const CompleteOptions& options, uint64_t now_ms) {
  Fingerprint fingerprint;
  fingerprint.Add(upload).Add(options.condition).Add(options.etag).AddNumber(parts.size());
  for (const PartRef& part : parts) fingerprint.AddNumber(part.number).Add(part.etag);
  return Make(context, OperationKind::kCompleteUpload, fingerprint, now_ms);
}

Operation AbortUploadOperation(const Context& context, const UploadName& upload, uint64_t now_ms) {
  return Make(context, OperationKind::kAbortUpload, Fingerprint().Add(upload), now_ms);
}

Operation CreateBucketOperation(const Context& context, const BucketInfo& bucket, uint64_t now_ms) {
  Fingerprint fingerprint;
  fingerprint.Add(bucket.name).Add(static_cast<uint8_t>(bucket.bucket_class));
  if (bucket.versioning != Versioning::kOff) fingerprint.AddNumber(static_cast<uint64_t>(bucket.versioning));
  if (bucket.ttl.count() != 0) fingerprint.Add("ttl").AddNumber(static_cast<uint64_t>(bucket.ttl.count()));
  if (bucket.owner != context.tenant) fingerprint.Add(fmt::format("{}", static_cast<uint64_t>(bucket.owner)));
  return Make(context, OperationKind::kCreateBucket, fingerprint, now_ms);
}

Operation SetAttributesOperation(const Context& context, std::string_view bucket, std::string_view key,
                                 uint64_t version, const AttributeChange& change, uint64_t now_ms) {
  Fingerprint fingerprint;
  fingerprint.Add(bucket).Add(key).AddNumber(version).Add(change.condition).AddNumber(change.remove.size());
  for (const std::string& name : change.remove) fingerprint.Add(name);
  return Make(context, OperationKind::kSetAttributes, fingerprint.Add(change.set), now_ms);
}

Operation UpdateBucketOperation(const Context& context, std::string_view name, const BucketSettings& settings,
                                uint64_t now_ms) {
  Fingerprint fingerprint;
  fingerprint.Add(name).AddNumber(settings.versioning ? 1 + static_cast<uint64_t>(*settings.versioning) : 0);
  if (settings.ttl) fingerprint.Add("ttl").AddNumber(static_cast<uint64_t>(settings.ttl->count()));
  return Make(context, OperationKind::kUpdateBucket, fingerprint, now_ms);
}

Operation DeleteVersionOperation(const Context& context, std::string_view bucket, std::string_view key,
                                 uint64_t version, uint64_t now_ms) {
  return Make(context, OperationKind::kDeleteVersion, Fingerprint().Add(bucket).Add(key).AddNumber(version), now_ms);
}

Operation DeleteBucketOperation(const Context& context, std::string_view name, uint64_t now_ms) {
  return Make(context, OperationKind::kDeleteBucket, Fingerprint().Add(name), now_ms);
}

bool IsResult(Code code) {
  return code == Code::kOk || code == Code::kNotFound || code == Code::kAlreadyExists ||
         code == Code::kFailedPrecondition;
}

OperationRecord RecordOf(const Operation& operation, const Status& outcome, const ObjectInfo* stored,
                         uint64_t now_ms) {
  OperationRecord record{.kind = operation.kind,
                         .fingerprint = operation.fingerprint,
                         .recorded_ms = now_ms,
                         .content = operation.content,
                         .refusal = outcome.ok() ? Status() : Status(outcome.code(), Cut(outcome.message()))};
  if (stored == nullptr) return record;
  const Content object{.size_bytes = stored->size_bytes, .crc32c = stored->crc32c};
  if (operation.kind == OperationKind::kOverwrite) {
    record.object = object;
  } else {
    record.content = object;
  }
  record.version = stored->version;
  record.modified_ns = stored->modified.time_since_epoch().count();
  record.etag = stored->etag;
  return record;
}

Status CheckSameRequest(const OperationRecord& record, const Operation& operation) {
  const bool same_content = !record.content || !operation.content || *record.content == *operation.content;
  if (record.kind == operation.kind && record.fingerprint == operation.fingerprint && same_content) return {};
  return Status::InvalidArgument(
      "operation {} was another request{}: an id names one operation; make a new one for the next",
      operation.id.ToString(), record.kind == operation.kind && !same_content ? " with other content" : "");
}

Status CheckOperationTime(const Operation& operation, uint64_t floor_ms) {
  const uint64_t made_ms = operation.id.unix_ms();
  const uint64_t retention = Ms(kOperationRetention);
  if (made_ms > operation.asked_ms + Ms(kOperationLead))
    return Status::FailedPrecondition(
        "the time of operation {} is {} ms ahead of the store's, at most {} are allowed: make ids by the "
        "time that "
        "opening a session gives",
        operation.id.ToString(), made_ms - operation.asked_ms, Ms(kOperationLead));
  if (made_ms > floor_ms && made_ms + retention >= operation.asked_ms) return {};
  return Status::FailedPrecondition(
      "operation {} has expired: it is {} s old, results are kept for {} s and there is none; whether it "
      "took place is "
      "not known, so look, and make a new id by the time that opening a session gives",
      operation.id.ToString(), (std::max(operation.asked_ms, made_ms) - made_ms) / 1000, retention / 1000);
}

bool IsOver(const OperationId& id, const OperationRecord& record, uint64_t now_ms) {
  return std::max(id.unix_ms(), record.recorded_ms) + Ms(kOperationRetention) < now_ms;
}

Status TooManyOperations(uint64_t count) {
  return Status::ResourceExhausted(
      "the store keeps the results of {} operations, which is the limit: try again when the oldest are {} "
      "minutes old, "
      "or without an operation id",
      count, std::chrono::duration_cast<std::chrono::minutes>(kOperationRetention).count());
}

Content ObjectOf(const OperationRecord& record) {
  return record.kind == OperationKind::kOverwrite ? record.object : record.content.value_or(Content{});
}

Result<ObjectInfo> ResultOfPut(const OperationRecord& record, std::string_view key, const UserMetadata& metadata,
                               const UserMetadata& attributes) {
  FB_TRY(record.refusal);
  const Content content = ObjectOf(record);
  return ObjectInfo{.key = std::string(key),
                    .version = record.version,
                    .size_bytes = content.size_bytes,
                    .etag = record.etag,
                    .crc32c = content.crc32c,
                    .modified = base::WallTime(base::Duration(record.modified_ns)),
                    .metadata = metadata,
                    .attributes = attributes};
}

}  // namespace forebay::store
