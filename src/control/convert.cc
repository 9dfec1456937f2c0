// SPDX-License-Identifier: Apache-2.0
#include "control/convert.h"

#include <algorithm>
#include <utility>

#include "base/limits.h"

namespace forebay::control {

namespace {

int64_t UnixMs(base::WallTime time) {
  return std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

base::WallTime FromUnixMs(int64_t ms) {
  // Within the years that nanoseconds in 64 bits can name: 1678 to 2262.
  constexpr int64_t kLimit =
      std::chrono::duration_cast<std::chrono::milliseconds>(base::Duration::max()).count();
  return base::WallTime(std::chrono::milliseconds(std::clamp(ms, -kLimit, kLimit)));
}

}  // namespace

void ToMessage(const store::BucketInfo& bucket, pb::Bucket* message) {
  message->set_name(bucket.name);
  message->set_bucket_class(ToMessage(bucket.bucket_class));
  message->set_owner(static_cast<uint64_t>(bucket.owner));
  message->set_created_unix_ms(UnixMs(bucket.created));
  message->set_versioning(ToMessage(bucket.versioning));
  message->set_ttl_ms(static_cast<uint64_t>(bucket.ttl.count()));
}

Result<store::BucketInfo> FromMessage(const pb::Bucket& message) {
  FB_ASSIGN(const store::BucketClass bucket_class, FromMessage(message.bucket_class()));
  FB_ASSIGN(const std::optional<store::Versioning> versioning, FromMessage(message.versioning()));
  FB_ASSIGN(const std::chrono::milliseconds ttl, TtlFrom(message.ttl_ms()));
  return store::BucketInfo{.name = message.name(),
                           .owner = TenantId{message.owner()},
                           .bucket_class = bucket_class,
                           .created = FromUnixMs(message.created_unix_ms()),
                           .versioning = versioning.value_or(store::Versioning::kOff),
                           .ttl = ttl};
}

void ToMessage(store::ObjectInfo object, pb::Object* message) {
  message->set_key(std::move(object.key));
  message->set_version(object.version);
  message->set_size_bytes(object.size_bytes);
  message->set_etag(std::move(object.etag));
  message->set_crc32c(object.crc32c);
  message->set_modified_unix_ms(UnixMs(object.modified));
  for (auto& [name, value] : object.metadata) (*message->mutable_metadata())[name] = std::move(value);
  for (auto& [name, value] : object.attributes) (*message->mutable_attributes())[name] = std::move(value);
}

store::ObjectInfo FromMessage(pb::Object message) {
  store::ObjectInfo object;
  object.key = std::move(*message.mutable_key());
  object.version = message.version();
  object.size_bytes = message.size_bytes();
  object.etag = std::move(*message.mutable_etag());
  object.crc32c = message.crc32c();
  object.modified = FromUnixMs(message.modified_unix_ms());
  for (const auto& [name, value] : message.metadata()) object.metadata.emplace(name, value);
  for (const auto& [name, value] : message.attributes()) object.attributes.emplace(name, value);
  return object;
}

pb::Versioning ToMessage(store::Versioning versioning) {
  switch (versioning) {
    case store::Versioning::kOff:
      return pb::VERSIONING_OFF;
    case store::Versioning::kOn:
      return pb::VERSIONING_ON;
    case store::Versioning::kSuspended:
      return pb::VERSIONING_SUSPENDED;
  }
  return pb::VERSIONING_UNSPECIFIED;
}

Result<std::optional<store::Versioning>> FromMessage(pb::Versioning versioning) {
  using Some = std::optional<store::Versioning>;
  switch (versioning) {
    case pb::VERSIONING_UNSPECIFIED:
      return Some();
    case pb::VERSIONING_OFF:
      return Some(store::Versioning::kOff);
    case pb::VERSIONING_ON:
      return Some(store::Versioning::kOn);
    case pb::VERSIONING_SUSPENDED:
      return Some(store::Versioning::kSuspended);
    default:
      break;
  }
  return Status::InvalidArgument("versioning {} is unknown here; known are 1 (off), 2 (on) and 3 (suspended)",
                                 static_cast<int>(versioning));
}

void ToMessage(store::VersionInfo version, pb::ObjectVersion* message) {
  ToMessage(std::move(version.object), message->mutable_object());
  message->set_latest(version.latest);
  message->set_delete_marker(version.delete_marker);
  message->set_null_version(version.null_version);
}

store::VersionInfo FromMessage(pb::ObjectVersion message) {
  return {.object = FromMessage(std::move(*message.mutable_object())),
          .latest = message.latest(),
          .delete_marker = message.delete_marker(),
          .null_version = message.null_version()};
}

void ToMessage(store::UploadInfo upload, pb::Upload* message) {
  message->set_id(upload.id);
  message->set_key(std::move(upload.key));
  message->set_created_unix_ms(UnixMs(upload.created));
  for (auto& [name, value] : upload.metadata) (*message->mutable_metadata())[name] = std::move(value);
}

store::UploadInfo FromMessage(pb::Upload message) {
  return {.id = message.id(),
          .key = std::move(*message.mutable_key()),
          .created = FromUnixMs(message.created_unix_ms()),
          .metadata = {message.metadata().begin(), message.metadata().end()}};
}

void ToMessage(store::PartInfo part, pb::Part* message) {
  message->set_number(part.number);
  message->set_size_bytes(part.size_bytes);
  message->set_etag(std::move(part.etag));
  message->set_crc32c(part.crc32c);
  message->set_modified_unix_ms(UnixMs(part.modified));
}

store::PartInfo FromMessage(pb::Part message) {
  return {.number = message.number(),
          .size_bytes = message.size_bytes(),
          .etag = std::move(*message.mutable_etag()),
          .crc32c = message.crc32c(),
          .modified = FromUnixMs(message.modified_unix_ms())};
}

void ToMessage(const store::Source& source, pb::ComposeSource* message) {
  message->set_bucket(source.bucket);
  message->set_key(source.key);
  message->set_if_match(source.condition.etag);
  message->set_offset(source.offset);
  if (source.length) message->set_length(*source.length);
}

store::Source FromMessage(const pb::ComposeSource& message) {
  store::Source source{.bucket = message.bucket(),
                       .key = message.key(),
                       .condition = IfMatch(message.if_match()),
                       .offset = message.offset()};
  if (message.has_length()) source.length = message.length();
  return source;
}

pb::BucketClass ToMessage(store::BucketClass bucket_class) {
  return bucket_class == store::BucketClass::kCache ? pb::BUCKET_CLASS_CACHE : pb::BUCKET_CLASS_DURABLE;
}

Result<store::BucketClass> FromMessage(pb::BucketClass bucket_class) {
  switch (bucket_class) {
    case pb::BUCKET_CLASS_UNSPECIFIED:
    case pb::BUCKET_CLASS_DURABLE:
      return store::BucketClass::kDurable;
    case pb::BUCKET_CLASS_CACHE:
      return store::BucketClass::kCache;
    default:
      break;
  }
  return Status::InvalidArgument("bucket class {} is unknown here; known are 1 (durable) and 2 (cache)",
                                 static_cast<int>(bucket_class));
}

Result<std::chrono::milliseconds> TtlFrom(uint64_t ttl_ms) {
  if (ttl_ms <= static_cast<uint64_t>(store::kMaxTtl.count()))
    return std::chrono::milliseconds(static_cast<int64_t>(ttl_ms));
  return Status::InvalidArgument("a ttl of {} ms: it is at most {} days", ttl_ms, store::kMaxTtl / std::chrono::hours(24));
}

void ToMessage(const FabricTraffic& traffic, pb::FabricTraffic* message) {
  message->set_fabric(traffic.fabric);
  message->set_connections(traffic.connections);
  message->set_transfers_in(traffic.transfers_in);
  message->set_transfers_out(traffic.transfers_out);
  message->set_bytes_in(traffic.bytes_in);
  message->set_bytes_out(traffic.bytes_out);
  message->set_copied_bytes(traffic.copied_bytes);
}

FabricTraffic FromMessage(const pb::FabricTraffic& message) {
  return {.fabric = message.fabric(),
          .connections = message.connections(),
          .transfers_in = message.transfers_in(),
          .transfers_out = message.transfers_out(),
          .bytes_in = message.bytes_in(),
          .bytes_out = message.bytes_out(),
          .copied_bytes = message.copied_bytes()};
}

namespace {
// What a newer server knows more of is not all well.
store::DeviceState StateFromMessage(pb::DeviceState state) {
  switch (state) {
    case pb::DEVICE_STATE_OK:
      return store::DeviceState::kOk;
    case pb::DEVICE_STATE_REBUILDING:
      return store::DeviceState::kRebuilding;
    case pb::DEVICE_STATE_DRAINING:
      return store::DeviceState::kDraining;
    default:
      return store::DeviceState::kDegraded;
  }
}
}  // namespace

void ToMessage(const store::StoreSpace& space, pb::SpaceResponse* message) {
  for (const store::DeviceSpace& device : space.devices) {
    pb::DeviceSpace& told = *message->add_devices();
    told.set_name(device.name);
    told.set_capacity_bytes(device.capacity_bytes);
    told.set_used_bytes(device.used_bytes);
    told.set_state(static_cast<pb::DeviceState>(device.state));
    told.set_detail(device.detail);
    told.set_bytes_read(device.bytes_read);
    told.set_bytes_written(device.bytes_written);
  }
  pb::MetadataSpace& metadata = *message->mutable_metadata();
  metadata.set_path(space.metadata.path);
  metadata.set_used_bytes(space.metadata.used_bytes);
  metadata.set_free_bytes(space.metadata.free_bytes);
  metadata.set_reserve_bytes(space.metadata.reserve_bytes);
  message->set_objects(space.objects);
  message->set_object_bytes(space.object_bytes);
  message->set_cache_bytes(space.cache_bytes);
}

store::StoreSpace FromMessage(const pb::SpaceResponse& message) {
  store::StoreSpace space{.metadata = {.path = message.metadata().path(),
                                       .used_bytes = message.metadata().used_bytes(),
                                       .free_bytes = message.metadata().free_bytes(),
                                       .reserve_bytes = message.metadata().reserve_bytes()},
                          .objects = message.objects(),
                          .object_bytes = message.object_bytes(),
                          .cache_bytes = message.cache_bytes()};
  for (const pb::DeviceSpace& device : message.devices())
    space.devices.push_back({.name = device.name(),
                             .capacity_bytes = device.capacity_bytes(),
                             .used_bytes = device.used_bytes(),
                             .state = StateFromMessage(device.state()),
                             .detail = device.detail(),
                             .bytes_read = device.bytes_read(),
                             .bytes_written = device.bytes_written()});
  return space;
}

void ToMessage(const auth::RateGrant& rates, pb::RateGrant* message) {
  message->set_bytes_per_s(rates.bytes_per_s);
  message->set_operations_per_s(rates.operations_per_s);
  message->set_transfers(rates.transfers);
}

auth::RateGrant FromMessage(const pb::RateGrant& message) {
  return {.bytes_per_s = message.bytes_per_s(),
          .operations_per_s = message.operations_per_s(),
          .transfers = message.transfers()};
}

void ToMessage(const auth::CapabilityBlock& block, pb::CapabilityInfo* message) {
  message->set_id(block.id.data(), block.id.size());
  message->set_tenant(static_cast<uint64_t>(block.tenant));
  message->set_bucket(block.bucket);
  message->set_prefix(block.prefix);
  message->set_rights(block.rights.bits());
  message->set_issued_unix_ms(UnixMs(block.issued));
  message->set_expires_unix_ms(UnixMs(block.expires));
  ToMessage(block.rates, message->mutable_rates());
}

Status FromMessage(const pb::CapabilityInfo& message, auth::CapabilityBlock* block) {
  FB_TRY(CopyExactly("id", message.id(), block->id));
  if ((message.rights() & ~auth::RightSet::kAllBits) != 0)
    return Status::InvalidArgument("rights is {}, of which this version does not know all", message.rights());
  block->tenant = TenantId{message.tenant()};
  block->bucket = message.bucket();
  block->prefix = message.prefix();
  block->rights = auth::RightSet::FromBits(message.rights());
  block->issued = FromUnixMs(message.issued_unix_ms());
  block->expires = FromUnixMs(message.expires_unix_ms());
  block->rates = FromMessage(message.rates());
  return {};
}

Status CopyExactly(std::string_view field, const std::string& bytes, MutableByteView out) {
  if (bytes.size() != out.size())
    return Status::InvalidArgument("{} has {} bytes; it has {}", field, bytes.size(), out.size());
  std::ranges::copy(AsBytes(bytes), out.begin());
  return {};
}

void ToMessage(const Tenant& tenant, pb::Tenant* message) {
  message->set_id(static_cast<uint64_t>(tenant.record.id));
  message->set_name(tenant.record.name);
  message->set_created_unix_ms(UnixMs(tenant.record.created));
  const auth::RateGrant& rates = tenant.record.rates;
  ToMessage({.max_bytes = tenant.usage.quota.max_bytes,
             .max_objects = tenant.usage.quota.max_objects,
             .bytes_per_s = rates.bytes_per_s,
             .operations_per_s = rates.operations_per_s,
             .transfers = rates.transfers},
            message->mutable_limits());
  message->set_objects(tenant.usage.objects);
  message->set_bytes(tenant.usage.bytes);
  message->set_buckets(tenant.usage.buckets);
}

Tenant FromMessage(const pb::Tenant& message) {
  const pb::TenantLimits& limits = message.limits();
  return {.record = {.id = TenantId{message.id()},
                     .name = message.name(),
                     .created = FromUnixMs(message.created_unix_ms()),
                     .rates = {.bytes_per_s = limits.bytes_per_s(),
                               .operations_per_s = limits.operations_per_s(),
                               .transfers = limits.transfers()}},
          .usage = {.objects = message.objects(),
                    .bytes = message.bytes(),
                    .buckets = message.buckets(),
                    .quota = {.max_bytes = limits.max_bytes(), .max_objects = limits.max_objects()}}};
}

void ToMessage(const TenantChange& change, pb::TenantLimits* message) {
  if (change.max_bytes) message->set_max_bytes(*change.max_bytes);
  if (change.max_objects) message->set_max_objects(*change.max_objects);
  if (change.bytes_per_s) message->set_bytes_per_s(*change.bytes_per_s);
  if (change.operations_per_s) message->set_operations_per_s(*change.operations_per_s);
  if (change.transfers) message->set_transfers(*change.transfers);
}

TenantChange FromMessage(const pb::TenantLimits& message) {
  TenantChange change;
  if (message.has_max_bytes()) change.max_bytes = message.max_bytes();
  if (message.has_max_objects()) change.max_objects = message.max_objects();
  if (message.has_bytes_per_s()) change.bytes_per_s = message.bytes_per_s();
  if (message.has_operations_per_s()) change.operations_per_s = message.operations_per_s();
  if (message.has_transfers()) change.transfers = message.transfers();
  return change;
}

void ToMessage(const AccessKey& key, pb::AccessKey* message) {
  message->set_id(key.id);
  message->set_tenant(static_cast<uint64_t>(key.tenant));
  message->set_created_unix_ms(UnixMs(key.created));
}

AccessKey FromMessage(const pb::AccessKey& message) {
  return {.id = message.id(),
          .tenant = TenantId{message.tenant()},
          .created = FromUnixMs(message.created_unix_ms())};
}

void ToMessage(const ScrubReport& report, pb::GetScrubResponse* message) {
  message->set_phase(static_cast<pb::ScrubPhase>(report.phase));
  message->set_started_unix_ms(UnixMs(report.started));
  message->set_ended_unix_ms(UnixMs(report.ended));
  message->set_bytes_per_s(report.bytes_per_second);
  message->set_total_bytes(report.total_bytes);
  message->set_passed_bytes(report.passed_bytes);
  message->set_verified_bytes(report.verified_bytes);
  message->set_damaged_blocks(report.damaged_blocks);
  message->set_repaired_blocks(report.repaired_blocks);
  message->set_damaged_rows(report.damaged_rows);
  message->set_reason(report.reason);
  for (const ScrubDamage& damage : report.damage) {
    pb::ScrubDamage& told = *message->add_damage();
    told.set_device(damage.device);
    told.set_unit(damage.unit);
    told.set_extent(damage.extent);
    told.set_unreadable(damage.unreadable);
    told.set_repaired(damage.repaired);
    for (const ScrubOwner& owner : damage.owners) {
      pb::ScrubOwner& named = *told.add_owners();
      named.set_name(owner.name);
      named.set_offset(owner.offset);
    }
  }
}

ScrubReport FromMessage(const pb::GetScrubResponse& message) {
  ScrubReport report{.phase = static_cast<ScrubPhase>(message.phase()),
                     .started = FromUnixMs(message.started_unix_ms()),
                     .ended = FromUnixMs(message.ended_unix_ms()),
                     .bytes_per_second = message.bytes_per_s(),
                     .total_bytes = message.total_bytes(),
                     .passed_bytes = message.passed_bytes(),
                     .verified_bytes = message.verified_bytes(),
                     .damaged_blocks = message.damaged_blocks(),
                     .repaired_blocks = message.repaired_blocks(),
                     .damaged_rows = message.damaged_rows(),
                     .reason = message.reason()};
  for (const pb::ScrubDamage& told : message.damage()) {
    ScrubDamage& damage = report.damage.emplace_back(ScrubDamage{.device = told.device(),
                                                                 .unit = told.unit(),
                                                                 .extent = told.extent(),
                                                                 .unreadable = told.unreadable(),
                                                                 .repaired = told.repaired()});
    for (const pb::ScrubOwner& owner : told.owners())
      damage.owners.push_back({.name = owner.name(), .offset = owner.offset()});
  }
  return report;
}

Result<store::Condition> ConditionFrom(const std::string& if_match, bool if_absent) {
  if (!if_match.empty() && if_absent)
    return Status::InvalidArgument("an object cannot be absent and have the ETag `{}`: ask for one of them", if_match);
  if (if_absent) return store::Condition::IfAbsent();
  return if_match.empty() ? store::Condition::None() : store::Condition::IfMatch(if_match);
}

store::Condition IfMatch(const std::string& etag) {
  return etag.empty() ? store::Condition::None() : store::Condition::IfMatch(etag);
}

Result<uint32_t> PageLimit(uint32_t asked) {
  if (asked > base::kMaxListPage)
    return Status::InvalidArgument("limit is {}; a page holds at most {}", asked, base::kMaxListPage);
  return asked == 0 ? base::kMaxListPage : asked;
}

Result<OperationId> OperationFrom(const std::string& bytes) {
  OperationId operation;
  if (bytes.empty()) return operation;
  if (bytes.size() != operation.bytes.size()) {
    return Status::InvalidArgument("operation_id has {} bytes; it has 16, or none", bytes.size());
  }
  std::memcpy(operation.bytes.data(), bytes.data(), bytes.size());
  return operation;
}

std::string ToBytes(const OperationId& operation) {
  return operation.IsNone() ? std::string() : std::string(AsText(operation.bytes));
}

}  // namespace forebay::control
