// SPDX-License-Identifier: Apache-2.0
#include "auth/grant.h"

namespace forebay::auth {

namespace {

bool Covers(uint64_t limit, uint64_t other) { return limit == 0 || (other != 0 && other <= limit); }

std::string PlaceOf(std::string_view bucket, std::string_view prefix) {
  if (bucket.empty()) return "all buckets of the tenant";
  return fmt::format("`{}/{}*`", bucket, prefix);
}

bool IsOwnerOfStore(const Grant& grant) { return grant.tenant == TenantId::kRoot && grant.bucket.empty(); }

bool IsInside(const Grant& grant, Scope scope, const Target& target) {
  switch (scope) {
    case Scope::kNothing:
      return true;
    case Scope::kServer:
      return IsOwnerOfStore(grant);
    case Scope::kTenant:
      return grant.bucket.empty();
    case Scope::kBucket:
      return grant.bucket.empty() || (grant.bucket == target.bucket && grant.prefix.empty());
    case Scope::kKey:
    case Scope::kPrefix:
      return grant.bucket.empty() ||
             (grant.bucket == target.bucket && target.key.starts_with(grant.prefix));
  }
  return false;
}

std::string Describe(Scope scope, const Target& target) {
  // Names come from outside; the limits of the formats bound them, and this bounds the message.
  const std::string_view key = target.key.substr(0, 200);
  switch (scope) {
    case Scope::kNothing:
      return "this";
    case Scope::kServer:
      return "the whole server";
    case Scope::kTenant:
      return "all buckets of the tenant";
    case Scope::kBucket:
      return fmt::format("bucket `{}`", target.bucket.substr(0, 100));
    case Scope::kKey:
      return fmt::format("`{}/{}`", target.bucket.substr(0, 100), key);
    case Scope::kPrefix:
      return fmt::format("`{}/{}*`", target.bucket.substr(0, 100), key);
  }
  return "this";
}

}  // namespace

bool RateGrant::Covers(const RateGrant& other) const {
  return auth::Covers(bytes_per_s, other.bytes_per_s) &&
         auth::Covers(operations_per_s, other.operations_per_s) && auth::Covers(transfers, other.transfers);
}

RateGrant RateGrant::Within(const RateGrant& parent) const {
  return {.bytes_per_s = bytes_per_s == 0 ? parent.bytes_per_s : bytes_per_s,
          .operations_per_s = operations_per_s == 0 ? parent.operations_per_s : operations_per_s,
          .transfers = transfers == 0 ? parent.transfers : transfers};
}

Grant Grant::Root(std::string_view credential_id) {
  return {.tenant = TenantId::kRoot,
          .rights = RightSet::All(),
          .name = fmt::format("credential {}", credential_id)};
}

std::string Grant::Allows() const { return fmt::format("{} on {}", rights.ToString(), PlaceOf(bucket, prefix)); }

Status Grant::CheckCovers(const Grant& other) const {
  if (tenant != other.tenant && !IsOwnerOfStore(*this))
    return Status::PermissionDenied("{} is of tenant {}, not {}", name, static_cast<uint64_t>(tenant),
                                    static_cast<uint64_t>(other.tenant));
  if (!rights.Contains(other.rights))
    return Status::PermissionDenied("{} holds the rights {}, not {}", name, rights.ToString(),
                                    other.rights.ToString());
  if (!bucket.empty() && (bucket != other.bucket || !other.prefix.starts_with(prefix)))
    return Status::PermissionDenied("{} covers {}, not {}", name, PlaceOf(bucket, prefix),
                                    PlaceOf(other.bucket, other.prefix));
  if (!rates.Covers(other.rates))
    return Status::PermissionDenied("{} grants lower rates than asked for", name);
  if (other.expires > expires) return Status::PermissionDenied("{} expires before that", name);
  return {};
}

Status CheckGrant(const Grant& grant, const PolicyRow& row, const Target& target) {
  const bool inside = IsInside(grant, row.scope, target);
  if (inside && grant.rights.Has(row.right)) return {};
  return Status::PermissionDenied("the right `{}` on {} is missing: {} allows {}", NameOf(row.right),
                                  Describe(row.scope, target), grant.name, grant.Allows());
}

}  // namespace forebay::auth
