// SPDX-License-Identifier: Apache-2.0
// Which tenant sees which bucket, decided in one place for every backend: the system sees all of them, root
// all but the system's own, every other tenant those that it owns. To whoever does not see it a bucket does
// not exist, so a backend answers NoSuchBucket with the same text. Thread-safe: pure functions.
#pragma once

#include <string_view>

#include "base/status.h"
#include "store/object_store.h"

namespace forebay::store {

/// Whether a bucket of `owner` exists for `tenant`.
constexpr bool Sees(TenantId tenant, TenantId owner) {
  return tenant == owner || tenant == TenantId::kSystem ||
         (tenant == TenantId::kRoot && owner != TenantId::kSystem);
}

/// Whether a bucket of `owner` counts towards kMaxBuckets: the system's own always has room.
constexpr bool CountsAsBucket(TenantId owner) { return owner != TenantId::kSystem; }

/// Whether ListBuckets shows a bucket of `owner` to `tenant`.
constexpr bool IsListed(TenantId tenant, TenantId owner) {
  return CountsAsBucket(owner) && Sees(tenant, owner);
}

/// base::CheckBucketName, but for the one name that only the system has.
Status CheckBucketName(TenantId tenant, std::string_view name);

/// Checks the name of a bucket that `tenant` asks for and gives it its owner: the tenant itself, unless root
/// or the system names another one. InvalidArgument for a name or an owner that cannot be.
Status CheckNewBucket(TenantId tenant, BucketInfo* bucket);

}  // namespace forebay::store
