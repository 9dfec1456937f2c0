// SPDX-License-Identifier: Apache-2.0
#include "engine/tenant_accounts.h"

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <unordered_map>
#include <utility>

#include "base/codec.h"
#include "base/limits.h"
#include "engine/row_frame.h"
#include "engine/rows.h"
#include "engine/upload_rows.h"

namespace forebay::engine {
namespace {

using meta::Family;

/// Root's row is always there: it says that the accounts of this store were counted.
bool IsKept(TenantId tenant, const store::TenantUsage& usage) {
  return tenant == TenantId::kRoot || usage != store::TenantUsage();
}

store::TenantUsage Find(const TenantUsages& accounts, TenantId tenant) {
  const auto found = accounts.find(tenant);
  return found == accounts.end() ? store::TenantUsage() : found->second;
}

}  // namespace

// ---- rows ----

std::string TenantKey(TenantId tenant) {
  std::string key(kTenantPrefix);
  base::Encoder(&key).U64BigEndian(static_cast<uint64_t>(tenant));
  return key;
}

Result<TenantId> DecodeTenantKey(std::string_view row_key) {
  const RowName name{"tenant", row_key};
  if (!row_key.starts_with(kTenantPrefix)) return Nonsense(name, "its key makes no sense");
  base::Decoder decoder(row_key.substr(kTenantPrefix.size()));
  const TenantId tenant{decoder.U64BigEndian()};
  if (tenant == TenantId::kNone) decoder.Fail();
  FB_TRY(Finish(decoder, name));
  return tenant;
}

std::string EncodeTenant(std::string_view row_key, const store::TenantUsage& usage) {
  std::string out;
  base::Encoder encoder(&out);
  encoder.U8(kRecordFormat);
  for (const uint64_t number :
       {usage.objects, usage.bytes, usage.buckets, usage.quota.max_objects, usage.quota.max_bytes})
    encoder.Varint(number);
  return Seal(row_key, std::move(out));
}

Result<store::TenantUsage> DecodeTenant(std::string_view row_key, std::string_view value) {
  const RowName name{"tenant", row_key};
  FB_ASSIGN(const std::string_view body, Unseal(name, value));
  base::Decoder decoder(body);
  store::TenantUsage usage;
  for (uint64_t* number :
       {&usage.objects, &usage.bytes, &usage.buckets, &usage.quota.max_objects, &usage.quota.max_bytes}) {
    *number = decoder.Varint();
    if (*number > store::kMaxUsage) decoder.Fail();
  }
  FB_TRY(Finish(decoder, name));
  return usage;
}

Result<TenantUsages> ReadTenants(meta::MetaStore& meta) {
  TenantUsages accounts;
  const std::unique_ptr<meta::Scan> scan = meta.NewScan(Family::kSystem, PrefixEnd(kTenantPrefix));
  for (scan->Seek(kTenantPrefix); scan->Valid(); scan->Next()) {
    FB_ASSIGN(const TenantId tenant, DecodeTenantKey(scan->key()));
    FB_ASSIGN(accounts[tenant], DecodeTenant(scan->key(), scan->value()));
  }
  FB_TRY(scan->status());
  return accounts;
}

namespace {

/// What uploads hold.
Status CountParts(meta::MetaStore& meta, const std::unordered_map<uint64_t, TenantId>& owners,
                  TenantUsages* accounts) {
  std::unordered_map<uint64_t, TenantId> owners_of_uploads;
  const std::unique_ptr<meta::Scan> uploads = meta.NewScan(Family::kSystem, PrefixEnd(kUploadPrefix));
  for (uploads->Seek(kUploadPrefix); uploads->Valid(); uploads->Next()) {
    FB_ASSIGN(const UploadKey key, DecodeUploadKey(uploads->key()));
    const auto owner = owners.find(key.bucket);
    if (owner != owners.end()) owners_of_uploads.emplace(key.upload, owner->second);
  }
  FB_TRY(uploads->status());
  const std::unique_ptr<meta::Scan> parts = meta.NewScan(Family::kSystem, PrefixEnd(kPartPrefix));
  for (parts->Seek(kPartPrefix); parts->Valid(); parts->Next()) {
    FB_ASSIGN(const PartKey key, DecodePartKey(parts->key()));
    FB_ASSIGN(const PartRecord record, DecodePart(parts->key(), parts->value()));
    const auto owner = owners_of_uploads.find(key.upload);
    if (owner != owners_of_uploads.end())
      store::AddUsage({.bytes = static_cast<int64_t>(record.size_bytes)}, &(*accounts)[owner->second]);
  }
  return parts->status();
}

}  // namespace

Result<TenantUsages> CountTenants(meta::MetaStore& meta) {
  TenantUsages accounts;
  std::unordered_map<uint64_t, TenantId> owners;  // by the number of the bucket
  const std::unique_ptr<meta::Scan> buckets = meta.NewScan(Family::kBuckets, {});
  for (buckets->Seek({}); buckets->Valid(); buckets->Next()) {
    FB_ASSIGN(const BucketRecord bucket, DecodeBucket(buckets->key(), buckets->value()));
    owners.emplace(bucket.id, bucket.info.owner);
    ++accounts[bucket.info.owner].buckets;
  }
  FB_TRY(buckets->status());
  const std::unique_ptr<meta::Scan> objects = meta.NewScan(Family::kObjects, {});
  for (objects->Seek({}); objects->Valid(); objects->Next()) {
    FB_ASSIGN(const ObjectKey key, DecodeObjectKey(objects->key()));
    FB_ASSIGN(const ObjectRecord record, DecodeObject(objects->key(), objects->value()));
    const auto owner = owners.find(key.bucket);
    if (owner != owners.end())
      store::AddUsage(store::UsageChange::Put(record.size_bytes), &accounts[owner->second]);
  }
  FB_TRY(objects->status());
  FB_TRY(CountParts(meta, owners, &accounts));
  return accounts;
}

// ---- accounts ----

Status TenantAccounts::Load(meta::MetaStore& meta) {
  FB_ASSIGN(accounts_, ReadTenants(meta));
  if (!accounts_.contains(TenantId::kRoot)) {
    FB_ASSIGN(TenantUsages counted, CountTenants(meta));
    counted.try_emplace(TenantId::kRoot);
    for (const auto& [tenant, usage] : accounts_) counted[tenant].quota = usage.quota;
    accounts_ = std::move(counted);
    for (const auto& [tenant, usage] : accounts_) changed_.insert(tenant);
  }
  base::MutexLock lock(mutex_);
  durable_ = accounts_;
  return {};
}

Status TenantAccounts::Check(TenantId tenant, const store::UsageChange& change) const {
  return store::CheckQuota(tenant, Find(accounts_, tenant), change);
}

void TenantAccounts::Add(TenantId tenant, const store::UsageChange& change) {
  store::AddUsage(change, &accounts_[tenant]);
  changed_.insert(tenant);
}

Status TenantAccounts::SetQuota(TenantId tenant, const store::Quota& quota) {
  if (!accounts_.contains(tenant)) {
    if (quota == store::Quota()) return {};
    if (accounts_.size() >= base::kMaxTenants) return store::TooManyTenants();
  }
  accounts_[tenant].quota = quota;
  changed_.insert(tenant);
  return {};
}

void TenantAccounts::WriteRows(meta::Batch& batch) {
  for (const TenantId tenant : std::exchange(changed_, {})) {
    const std::string key = TenantKey(tenant);
    const store::TenantUsage usage = Find(accounts_, tenant);
    if (IsKept(tenant, usage)) {
      batch.Put(Family::kSystem, key, EncodeTenant(key, usage));
    } else {
      batch.Delete(Family::kSystem, key);
      accounts_.erase(tenant);
    }
  }
}

void TenantAccounts::Publish(TenantId tenant) {
  const auto found = accounts_.find(tenant);
  base::MutexLock lock(mutex_);
  if (found == accounts_.end()) {
    durable_.erase(tenant);
  } else {
    durable_[tenant] = found->second;
  }
}

store::TenantUsage TenantAccounts::Of(TenantId tenant) const {
  base::MutexLock lock(mutex_);
  return Find(durable_, tenant);
}

store::TenantUsage TenantAccounts::OfAll() const {
  base::MutexLock lock(mutex_);
  store::TenantUsage all;
  for (const auto& [tenant, usage] : durable_) {
    if (tenant == TenantId::kSystem) continue;
    all.objects += usage.objects;
    all.bytes += usage.bytes;
    all.buckets += usage.buckets;
  }
  return all;
}

}  // namespace forebay::engine
