// SPDX-License-Identifier: Apache-2.0
#include "control/tenant_registry.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/codec.h"
#include "base/limits.h"
#include "rt/call_on.h"

namespace forebay::control {
namespace {

constexpr std::string_view kPrefix = "tenant/";
constexpr std::string_view kNextKey = "tenant-next";
constexpr uint8_t kFormat = 1;
constexpr base::Duration kPatience = std::chrono::seconds(30);

uint64_t Number(TenantId id) { return static_cast<uint64_t>(id); }

Status Damaged(std::string_view key) {
  return Status::DataLoss("the record `{}` is damaged: it makes no sense; run forebay fsck", key);
}

Result<base::Decoder> BodyOf(std::string_view key, ByteView value) {
  base::Decoder decoder(value);
  const uint8_t format = decoder.U8();
  if (decoder.failed() || format == 0) return Damaged(key);
  if (format > kFormat)
    return Status::FailedPrecondition(
        "the record `{}` has format {}, this program knows {}: use a newer forebay", key, format, kFormat);
  return decoder;
}

Bytes ToBytes(const std::string& text) {
  const ByteView view = AsBytes(text);
  return {view.begin(), view.end()};
}

void Apply(const TenantChange& change, auth::RateGrant* rates) {
  rates->bytes_per_s = change.bytes_per_s.value_or(rates->bytes_per_s);
  rates->operations_per_s = change.operations_per_s.value_or(rates->operations_per_s);
  rates->transfers = change.transfers.value_or(rates->transfers);
}

store::Quota Apply(const TenantChange& change, store::Quota quota) {
  return {.max_bytes = change.max_bytes.value_or(quota.max_bytes),
          .max_objects = change.max_objects.value_or(quota.max_objects)};
}

}  // namespace

// ---- records ----

Status CheckTenantName(std::string_view name) {
  const auto allowed = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-'; };
  const bool fits = !name.empty() && name.size() <= kMaxTenantNameBytes && name[0] >= 'a' && name[0] <= 'z' &&
                    std::ranges::all_of(name, allowed) && name != kRootName && name != "system";
  if (fits) return {};
  return Status::InvalidArgument(
      "`{}` is not a tenant name: 1 to {} of a-z, 0-9, '-', starting with a letter, and neither `root` nor "
      "`system`",
      name.size() <= kMaxTenantNameBytes && base::IsUtf8(name) ? name : std::string_view("(unprintable)"),
      kMaxTenantNameBytes);
}

std::string TenantRecordKey(TenantId id) { return fmt::format("{}{:016x}", kPrefix, Number(id)); }

Bytes EncodeTenantRecord(const TenantRecord& record) {
  std::string out;
  base::Encoder encoder(&out);
  encoder.U8(kFormat);
  encoder.Blob(record.name);
  encoder.U64(static_cast<uint64_t>(record.created.time_since_epoch().count()));
  encoder.Varint(record.rates.bytes_per_s);
  encoder.Varint(record.rates.operations_per_s);
  encoder.Varint(record.rates.transfers);
  return ToBytes(out);
}

Result<TenantRecord> DecodeTenantRecord(std::string_view key, ByteView value) {
  FB_ASSIGN(base::Decoder decoder, BodyOf(key, value));
  TenantRecord record;
  record.name = decoder.Blob(kMaxTenantNameBytes);
  record.created = base::WallTime(base::Duration(static_cast<int64_t>(decoder.U64())));
  record.rates.bytes_per_s = decoder.Varint();
  record.rates.operations_per_s = decoder.Varint();
  const uint64_t transfers = decoder.Varint();
  record.rates.transfers = static_cast<uint32_t>(transfers);
  uint64_t id = 0;
  const char* const end = key.data() + key.size();
  const bool named = key.starts_with(kPrefix) && key.size() == kPrefix.size() + 16 &&
                     std::from_chars(key.data() + kPrefix.size(), end, id, 16).ptr == end;
  record.id = TenantId{id};
  if (decoder.failed() || decoder.remaining() != 0 || transfers > UINT32_MAX || !named || id < kFirstTenant ||
      TenantRecordKey(record.id) != key || !CheckTenantName(record.name).ok())
    return Damaged(key);
  return record;
}

rt::Task<Status> TenantRegistry::Load(rt::Reactor& here) {
  FB_CO_ASSIGN(const std::vector<store::SystemRecords::Record> records,
               co_await parts_.records.List(here, std::string(kPrefix)));
  std::map<TenantId, TenantRecord> tenants;
  uint64_t next = kFirstTenant;
  for (const store::SystemRecords::Record& stored : records) {
    FB_CO_ASSIGN(TenantRecord record, DecodeTenantRecord(stored.key, stored.value));
    next = std::max(next, Number(record.id) + 1);
    tenants.emplace(record.id, std::move(record));
  }
  FB_CO_ASSIGN(const std::optional<store::SystemRecords::Record> counter,
               co_await parts_.records.Get(here, std::string(kNextKey)));
  if (counter) {
    FB_CO_ASSIGN(base::Decoder decoder, BodyOf(kNextKey, counter->value));
    const uint64_t stored = decoder.U64();
    if (decoder.failed() || decoder.remaining() != 0 || stored < kFirstTenant) co_return Damaged(kNextKey);
    next = std::max(next, stored);
  }
  next_ = next;
  for (const auto& [id, record] : tenants) parts_.rates.SetTenant(id, record.rates);
  base::MutexLock lock(mutex_);
  tenants_ = std::move(tenants);
  co_return Status();
}

/// The counter is durable before its number is used, so that a deleted tenant's never comes back.
rt::Task<Result<TenantId>> TenantRegistry::TakeNumber() {
  const TenantId id{next_};
  std::string value;
  base::Encoder encoder(&value);
  encoder.U8(kFormat);
  encoder.U64(next_ + 1);
  ++next_;
  FB_CO_TRY((co_await parts_.records.Put(parts_.home, std::string(kNextKey), ToBytes(value), {})).status());
  co_return id;
}

rt::Task<Status> TenantRegistry::Write(const TenantRecord& record, bool is_new) {
  const store::Condition condition = is_new ? store::Condition::IfAbsent() : store::Condition::None();
  FB_CO_TRY((co_await parts_.records.Put(parts_.home, TenantRecordKey(record.id), EncodeTenantRecord(record),
                                         condition))
                .status());
  parts_.rates.SetTenant(record.id, record.rates);
  base::MutexLock lock(mutex_);
  tenants_.insert_or_assign(record.id, record);
  co_return Status();
}

// ---- reading ----

std::vector<TenantRecord> TenantRegistry::List() const {
  base::MutexLock lock(mutex_);
  std::vector<TenantRecord> all;
  all.reserve(tenants_.size());
  for (const auto& [id, record] : tenants_) all.push_back(record);
  return all;
}

std::optional<TenantRecord> TenantRegistry::Find(TenantId id) const {
  base::MutexLock lock(mutex_);
  const auto found = tenants_.find(id);
  return found == tenants_.end() ? std::nullopt : std::optional(found->second);
}

Result<TenantRecord> TenantRegistry::FindOrSay(TenantId id) const {
  std::optional<TenantRecord> record = Find(id);
  if (!record) return Status::NotFound("tenant {} does not exist; see: forebay tenant ls", Number(id));
  return *std::move(record);
}

Result<TenantId> TenantRegistry::Resolve(std::string_view name_or_number) const {
  if (name_or_number == kRootName) return TenantId::kRoot;
  uint64_t number = 0;
  const char* const begin = name_or_number.data();
  const char* const end = begin + name_or_number.size();
  const auto parsed = std::from_chars(begin, end, number);
  const bool is_number = parsed.ec == std::errc() && parsed.ptr == end;
  if (is_number && TenantId{number} == TenantId::kRoot) return TenantId::kRoot;
  base::MutexLock lock(mutex_);
  for (const auto& [id, record] : tenants_)
    if (is_number ? Number(id) == number : record.name == name_or_number) return id;
  return Status::NotFound("tenant `{}` does not exist; see: forebay tenant ls",
                          name_or_number.substr(0, kMaxTenantNameBytes));
}

store::Context TenantRegistry::SystemContext(rt::Reactor& here) const {
  return {.reactor = here, .tenant = TenantId::kSystem, .deadline = here.clock().Now() + kPatience};
}

rt::Task<Result<Tenant>> TenantRegistry::WithUsage(rt::Reactor& here, TenantRecord record) {
  const store::Context context = SystemContext(here);
  FB_CO_ASSIGN(const store::TenantUsage usage, co_await parts_.store.GetTenantUsage(context, record.id));
  co_return Tenant{.record = std::move(record), .usage = usage};
}

rt::Task<Result<Tenant>> TenantRegistry::Get(rt::Reactor& here, TenantId id) {
  if (id == TenantId::kRoot) co_return co_await WithUsage(here, {.id = id, .name = std::string(kRootName)});
  FB_CO_ASSIGN(TenantRecord record, FindOrSay(id));
  co_return co_await WithUsage(here, std::move(record));
}

// ---- changes ----

rt::Task<Result<Tenant>> TenantRegistry::Create(rt::Reactor& here, std::string name, TenantChange terms) {
  return rt::CallOn(here, parts_.home,
                    [this, name = std::move(name), terms] { return CreateInTurn(name, terms); });
}

rt::Task<Result<Tenant>> TenantRegistry::CreateInTurn(std::string name, TenantChange terms) {
  const rt::Units turn = co_await turn_.Lock();
  FB_CO_TRY(CheckTenantName(name));
  {
    base::MutexLock lock(mutex_);
    for (const auto& [id, record] : tenants_)
      if (record.name == name) co_return Status::AlreadyExists("tenant `{}` exists already", name);
    if (tenants_.size() >= base::kMaxTenants)
      co_return Status::ResourceExhausted(
          "there are {} tenants already, which is the limit: delete some first", base::kMaxTenants);
  }
  TenantRecord record{.name = std::move(name), .created = parts_.clock.WallNow()};
  Apply(terms, &record.rates);
  FB_CO_ASSIGN(record.id, co_await TakeNumber());
  // The quota first: there is no moment at which the tenant exists without it.
  const store::Context context = SystemContext(parts_.home);
  FB_CO_TRY(co_await parts_.store.SetQuota(context, record.id, Apply(terms, store::Quota())));
  FB_CO_TRY(co_await Write(record, true));
  co_return co_await WithUsage(parts_.home, std::move(record));
}

rt::Task<Result<Tenant>> TenantRegistry::Set(rt::Reactor& here, TenantId id, TenantChange change) {
  return rt::CallOn(here, parts_.home, [this, id, change] { return SetInTurn(id, change); });
}

rt::Task<Result<Tenant>> TenantRegistry::SetInTurn(TenantId id, TenantChange change) {
  const rt::Units turn = co_await turn_.Lock();
  FB_CO_ASSIGN(TenantRecord record, FindOrSay(id));
  FB_CO_ASSIGN(const Tenant before, co_await WithUsage(parts_.home, record));
  const store::Quota quota = Apply(change, before.usage.quota);
  if (quota != before.usage.quota) {
    const store::Context context = SystemContext(parts_.home);
    FB_CO_TRY(co_await parts_.store.SetQuota(context, id, quota));
  }
  Apply(change, &record.rates);
  if (record != before.record) FB_CO_TRY(co_await Write(record, false));
  co_return co_await WithUsage(parts_.home, std::move(record));
}

rt::Task<Status> TenantRegistry::Delete(rt::Reactor& here, TenantId id) {
  return rt::CallOn(here, parts_.home, [this, id] { return DeleteInTurn(id); });
}

rt::Task<Status> TenantRegistry::DeleteInTurn(TenantId id) {
  const rt::Units turn = co_await turn_.Lock();
  FB_CO_ASSIGN(const TenantRecord record, FindOrSay(id));
  FB_CO_ASSIGN(const Tenant tenant, co_await WithUsage(parts_.home, record));
  if (tenant.usage.buckets != 0)
    co_return Status::FailedPrecondition(
        "tenant `{}` owns {} buckets: remove them first, with: forebay bucket rm NAME", record.name,
        tenant.usage.buckets);
  FB_CO_TRY(co_await parts_.records.Delete(parts_.home, TenantRecordKey(id), {}));
  {
    base::MutexLock lock(mutex_);
    tenants_.erase(id);
  }
  parts_.rates.SetTenant(id, {});
  const store::Context context = SystemContext(parts_.home);
  co_return co_await parts_.store.SetQuota(context, id, {});  // so that its account goes
}

rt::Task<Status> TenantRegistry::CreateBucket(const store::Context& context, store::BucketInfo bucket) {
  if (bucket.owner == TenantId::kRoot)
    co_return co_await parts_.store.CreateBucket(context, std::move(bucket));
  co_return co_await rt::CallOn(context.reactor, parts_.home, [this, &context, &bucket] {
    return CreateBucketInTurn({.reactor = parts_.home,
                               .tenant = context.tenant,
                               .operation = context.operation,
                               .deadline = context.deadline},
                              bucket);
  });
}

rt::Task<Status> TenantRegistry::CreateBucketInTurn(store::Context context, store::BucketInfo bucket) {
  const rt::Units turn = co_await turn_.Lock();
  FB_CO_TRY(FindOrSay(bucket.owner).status());
  co_return co_await parts_.store.CreateBucket(context, std::move(bucket));
}

}  // namespace forebay::control
