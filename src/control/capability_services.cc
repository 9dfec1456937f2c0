// SPDX-License-Identifier: Apache-2.0
#include "control/capability_services.h"

#include <algorithm>

#include "base/limits.h"
#include "control/convert.h"

namespace forebay::control {

void CapabilityServices::AddTo(MethodTable* table) {
  const auto add = [&]<typename Request, typename Response>(
                       MethodName name,
                       rt::Task<Status> (CapabilityServices::*handler)(const Caller&, store::Context&,
                                                                       const Request&, Response&)) {
    AddMethod<Request, Response>(table, name, std::bind_front(handler, this));
  };
  add("/forebay.control.v1.Capabilities/Issue", &CapabilityServices::Issue);
  add("/forebay.control.v1.Capabilities/List", &CapabilityServices::List);
  add("/forebay.control.v1.Capabilities/Revoke", &CapabilityServices::Revoke);
  add("/forebay.control.v1.Capabilities/RevokeTenant", &CapabilityServices::RevokeTenant);
  add("/forebay.control.v1.Capabilities/RotateKey", &CapabilityServices::RotateKey);
}

rt::Task<Status> CapabilityServices::Issue(const Caller& caller, store::Context& context,
                                           const pb::IssueCapabilityRequest& request,
                                           pb::IssueCapabilityResponse& response) {
  IssueTerms terms{.bucket = request.bucket(), .prefix = request.prefix()};
  if (request.rights() == 0 || (request.rights() & ~auth::RightSet::kAllBits) != 0)
    co_return Status::InvalidArgument("rights is {}; it is a sum of get 1, put 2, list 4, delete 8, admin 16",
                                      request.rights());
  terms.rights = auth::RightSet::FromBits(request.rights());
  FB_CO_TRY(CopyExactly("holder_key", request.holder_key(), terms.holder));
  terms.ttl = std::chrono::milliseconds(
      std::min<uint64_t>(request.ttl_ms(), std::chrono::floor<std::chrono::milliseconds>(base::kMaxWait).count()));
  terms.rates = FromMessage(request.rates());
  terms.tenant = TenantId{request.tenant()};
  if (terms.tenant == TenantId::kNone) {
    terms.tenant = caller.grant->tenant;
    if (caller.grant->tenant == TenantId::kRoot && !terms.bucket.empty()) {
      FB_CO_ASSIGN(const store::BucketInfo bucket, co_await store_.GetBucket(context, terms.bucket));
      terms.tenant = bucket.owner;
    }
  }
  // A number that is not there yet may be somebody's one day. Who else there is only root may ask.
  if (caller.grant->tenant == TenantId::kRoot && terms.tenant != TenantId::kRoot)
    FB_CO_TRY((co_await tenants_.Get(context.reactor, terms.tenant)).status());
  if (caller.grant->tenant == TenantId::kRoot && terms.tenant == TenantId::kRoot && !terms.bucket.empty()) {
    // The root tenant sees every bucket, so the name alone would do.
    FB_CO_ASSIGN(const store::BucketInfo bucket, co_await store_.GetBucket(context, terms.bucket));
    if (bucket.owner != TenantId::kRoot)
      co_return Status::InvalidArgument("bucket `{}` is of tenant {}: issue the capability for that tenant", bucket.name,
                                        static_cast<uint64_t>(bucket.owner));
  }
  FB_CO_ASSIGN(const auth::Capability made,
               co_await authority_.Issue(context.reactor, *caller.grant, std::move(terms)));
  response.set_capability(std::string(AsText(made.encoded())));
  co_return Status();
}

rt::Task<Status> CapabilityServices::List(const Caller& caller, store::Context& context,
                                          const pb::ListCapabilitiesRequest& request,
                                          pb::ListCapabilitiesResponse& response) {
  FB_CO_ASSIGN(const uint32_t limit, PageLimit(request.limit()));
  FB_CO_ASSIGN(const std::vector<IssuedCapability> all, co_await authority_.List(context.reactor, *caller.grant));
  auto next = std::ranges::upper_bound(all, std::string_view(request.start_after()), {},
                                       [](const IssuedCapability& one) { return AsText(one.block.id); });
  for (uint32_t count = 0; next != all.end() && count < limit; ++next, ++count) {
    pb::CapabilityInfo& info = *response.add_capabilities();
    ToMessage(next->block, &info);
    info.set_revoked(next->revoked);
  }
  response.set_truncated(next != all.end());
  co_return Status();
}

rt::Task<Status> CapabilityServices::Revoke(const Caller& caller, store::Context& context,
                                            const pb::RevokeCapabilityRequest& request,
                                            pb::RevokeCapabilityResponse& response) {
  auth::CapabilityId id;
  FB_CO_TRY(CopyExactly("id", request.id(), id));
  FB_CO_ASSIGN(const size_t ended, co_await authority_.Revoke(context.reactor, *caller.grant, id));
  response.set_sessions_ended(ended);
  co_return Status();
}

rt::Task<Status> CapabilityServices::RevokeTenant(const Caller& caller, store::Context& context,
                                                  const pb::RevokeTenantRequest& request,
                                                  pb::RevokeTenantResponse& response) {
  const TenantId tenant = request.tenant() == 0 ? caller.grant->tenant : TenantId{request.tenant()};
  if (caller.grant->tenant == TenantId::kRoot && tenant != TenantId::kRoot)
    FB_CO_TRY((co_await tenants_.Get(context.reactor, tenant)).status());
  FB_CO_ASSIGN(const CapabilityAuthority::RevokedTenant revoked,
               co_await authority_.RevokeTenant(context.reactor, *caller.grant, tenant));
  response.set_epoch(revoked.epoch);
  response.set_sessions_ended(revoked.sessions_ended);
  co_return Status();
}

rt::Task<Status> CapabilityServices::RotateKey(const Caller&, store::Context& context,
                                               const pb::RotateKeyRequest& request,
                                               pb::RotateKeyResponse& response) {
  FB_CO_ASSIGN(const size_t ended, co_await authority_.RotateKey(context.reactor, request.drop_old()));
  const auth::PublicKey key = authority_.keys().current();
  response.set_public_key(key.data(), key.size());
  response.set_sessions_ended(ended);
  co_return Status();
}

}  // namespace forebay::control
