// SPDX-License-Identifier: Apache-2.0
// TenantRegistry: the tenants of a store: who exists, under which name and number, at which rates. Records
// lie in SystemRecords (docs/formats/records.md) and are all in memory; the quota lies with the store, which
// counts against it, and auth::RateLimits is told the rates at the start and at each change. Root has neither.
// Changes take turns on one reactor, so that a tenant cannot be deleted while a bucket is made for it. A
// number is never given to a second tenant. Thread-safe: called on any reactor. What it borrows outlives it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/grant.h"
#include "auth/rate_limits.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "base/status.h"
#include "rt/reactor.h"
#include "rt/sync.h"
#include "rt/task.h"
#include "store/object_store.h"
#include "store/system_records.h"

namespace forebay::control {

constexpr size_t kMaxTenantNameBytes = 63;
constexpr std::string_view kRootName = "root";

struct TenantRecord {
  TenantId id = TenantId::kNone;
  std::string name{};
  base::WallTime created{};
  auth::RateGrant rates{};
  friend bool operator==(const TenantRecord&, const TenantRecord&) = default;
};

/// A tenant with what it stores and may store.
struct Tenant {
  TenantRecord record{};
  store::TenantUsage usage{};
};

/// What is not set stays as it is.
struct TenantChange {
  std::optional<uint64_t> max_bytes{};
  std::optional<uint64_t> max_objects{};
  std::optional<uint64_t> bytes_per_s{};
  std::optional<uint64_t> operations_per_s{};
  std::optional<uint32_t> transfers{};
};

/// 1 to kMaxTenantNameBytes of a-z, 0-9, '-', starting with a letter, and no name of the server's own.
Status CheckTenantName(std::string_view name);

Bytes EncodeTenantRecord(const TenantRecord& record);
/// `key` names the record in messages and says the tenant's number. DataLoss, FailedPrecondition (newer).
Result<TenantRecord> DecodeTenantRecord(std::string_view key, ByteView value);
std::string TenantRecordKey(TenantId id);

class TenantRegistry {
 public:
  struct Parts {
    store::ObjectStore& store;
    store::SystemRecords& records;
    auth::RateLimits& rates;
    const base::Clock& clock;
    rt::Reactor& home;  // where changes take turns
  };

  explicit TenantRegistry(Parts parts) : parts_(parts), turn_(parts.home) {}

  /// Reads the records and sets everybody's rates. Before everything else.
  rt::Task<Status> Load(rt::Reactor& here);

  /// AlreadyExists, InvalidArgument (name), ResourceExhausted (base::kMaxTenants).
  rt::Task<Result<Tenant>> Create(rt::Reactor& here, std::string name, TenantChange terms);
  /// In force when it returns, for sessions that are open too. NotFound.
  rt::Task<Result<Tenant>> Set(rt::Reactor& here, TenantId id, TenantChange change);
  /// NotFound; FailedPrecondition while it owns buckets.
  rt::Task<Status> Delete(rt::Reactor& here, TenantId id);
  /// Also root.
  rt::Task<Result<Tenant>> Get(rt::Reactor& here, TenantId id);
  /// NotFound when the owner does not exist; otherwise as the store.
  rt::Task<Status> CreateBucket(const store::Context& context, store::BucketInfo bucket);

  /// By number; without root.
  std::vector<TenantRecord> List() const FB_EXCLUDES(mutex_);
  std::optional<TenantRecord> Find(TenantId id) const FB_EXCLUDES(mutex_);
  /// A name, or a number in decimal. NotFound.
  Result<TenantId> Resolve(std::string_view name_or_number) const FB_EXCLUDES(mutex_);

 private:
  rt::Task<Result<Tenant>> CreateInTurn(std::string name, TenantChange terms);
  rt::Task<Result<Tenant>> SetInTurn(TenantId id, TenantChange change);
  rt::Task<Status> DeleteInTurn(TenantId id);
  rt::Task<Status> CreateBucketInTurn(store::Context context, store::BucketInfo bucket);
  rt::Task<Result<TenantId>> TakeNumber();
  rt::Task<Status> Write(const TenantRecord& record, bool is_new);
  rt::Task<Result<Tenant>> WithUsage(rt::Reactor& here, TenantRecord record);
  store::Context SystemContext(rt::Reactor& here) const;
  Result<TenantRecord> FindOrSay(TenantId id) const FB_EXCLUDES(mutex_);

  const Parts parts_;
  rt::Mutex turn_;                // of home
  uint64_t next_ = kFirstTenant;  // in turn
  mutable base::Mutex mutex_;
  std::map<TenantId, TenantRecord> tenants_ FB_GUARDED_BY(mutex_);
};

}  // namespace forebay::control
