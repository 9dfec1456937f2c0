// SPDX-License-Identifier: Apache-2.0
#include "store/tenancy.h"

#include "store/cache_class.h"
#include "store/checks.h"

#include "base/limits.h"

namespace forebay::store {

Status CheckBucketName(TenantId tenant, std::string_view name) {
  if (tenant == TenantId::kSystem && name == kSystemBucket) return {};
  return base::CheckBucketName(name);
}

Status CheckNewBucket(TenantId tenant, BucketInfo* bucket) {
  FB_TRY(CheckBucketName(tenant, bucket->name));
  FB_TRY(CheckVersioning(bucket->name, Versioning::kOff, bucket->versioning));
  FB_TRY(CheckClass(*bucket));
  if (bucket->name == kSystemBucket) {
    bucket->owner = TenantId::kSystem;
    return {};
  }
  if (tenant != TenantId::kRoot && tenant != TenantId::kSystem) bucket->owner = tenant;
  if (bucket->owner == TenantId::kNone || bucket->owner == TenantId::kSystem)
    return Status::InvalidArgument("bucket `{}` cannot be of tenant {}: name a tenant that exists",
                                   bucket->name, static_cast<uint64_t>(bucket->owner));
  return {};
}

}  // namespace forebay::store
