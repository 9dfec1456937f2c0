// SPDX-License-Identifier: Apache-2.0
#include "control/tenant_services.h"

#include <algorithm>
#include <functional>

#include "base/bytes.h"
#include "control/convert.h"

namespace forebay::control {
namespace {

/// A tenant that somebody created: root has neither limits nor keys, and stays.
Result<TenantId> ResolveCreated(const TenantRegistry& tenants, const std::string& name) {
  FB_ASSIGN(const TenantId id, tenants.Resolve(name));
  if (id == TenantId::kRoot)
    return Status::InvalidArgument("the root tenant has no limits and no access keys and cannot be removed");
  return id;
}

}  // namespace

void TenantServices::AddTo(MethodTable* table) {
  const auto add = [&]<typename Request, typename Response>(
                       MethodName name, rt::Task<Status> (TenantServices::*handler)(
                                            const Caller&, store::Context&, const Request&, Response&)) {
    AddMethod<Request, Response>(table, name, std::bind_front(handler, this));
  };
  add("/forebay.control.v1.Tenants/Create", &TenantServices::Create);
  add("/forebay.control.v1.Tenants/List", &TenantServices::List);
  add("/forebay.control.v1.Tenants/Get", &TenantServices::Get);
  add("/forebay.control.v1.Tenants/Set", &TenantServices::Set);
  add("/forebay.control.v1.Tenants/Delete", &TenantServices::Delete);
  add("/forebay.control.v1.Keys/Create", &TenantServices::CreateKey);
  add("/forebay.control.v1.Keys/List", &TenantServices::ListKeys);
  add("/forebay.control.v1.Keys/Delete", &TenantServices::DeleteKey);
}

rt::Task<Status> TenantServices::Create(const Caller&, store::Context& context,
                                        const pb::CreateTenantRequest& request,
                                        pb::CreateTenantResponse& response) {
  FB_CO_ASSIGN(const Tenant made,
               co_await tenants_.Create(context.reactor, request.name(), FromMessage(request.limits())));
  ToMessage(made, response.mutable_tenant());
  co_return Status();
}

rt::Task<Status> TenantServices::List(const Caller&, store::Context& context,
                                      const pb::ListTenantsRequest& request,
                                      pb::ListTenantsResponse& response) {
  FB_CO_ASSIGN(const uint32_t limit, PageLimit(request.limit()));
  const std::vector<TenantRecord> all = tenants_.List();
  auto next = std::ranges::upper_bound(all, TenantId{request.start_after()}, {}, &TenantRecord::id);
  for (; next != all.end() && static_cast<uint32_t>(response.tenants_size()) < limit; ++next) {
    const Result<Tenant> tenant = co_await tenants_.Get(context.reactor, next->id);
    if (tenant.status().code() == Code::kNotFound) continue;  // it was deleted meanwhile
    FB_CO_TRY(tenant.status());
    ToMessage(*tenant, response.add_tenants());
  }
  response.set_truncated(next != all.end());
  co_return Status();
}

rt::Task<Status> TenantServices::Get(const Caller&, store::Context& context,
                                     const pb::GetTenantRequest& request, pb::GetTenantResponse& response) {
  FB_CO_ASSIGN(const TenantId id, tenants_.Resolve(request.tenant()));
  FB_CO_ASSIGN(const Tenant tenant, co_await tenants_.Get(context.reactor, id));
  ToMessage(tenant, response.mutable_tenant());
  co_return Status();
}

rt::Task<Status> TenantServices::Set(const Caller&, store::Context& context,
                                     const pb::SetTenantRequest& request, pb::SetTenantResponse& response) {
  FB_CO_ASSIGN(const TenantId id, ResolveCreated(tenants_, request.tenant()));
  FB_CO_ASSIGN(const Tenant tenant,
               co_await tenants_.Set(context.reactor, id, FromMessage(request.limits())));
  ToMessage(tenant, response.mutable_tenant());
  co_return Status();
}

rt::Task<Status> TenantServices::Delete(const Caller&, store::Context& context,
                                        const pb::DeleteTenantRequest& request, pb::DeleteTenantResponse&) {
  FB_CO_ASSIGN(const TenantId id, ResolveCreated(tenants_, request.tenant()));
  FB_CO_TRY(co_await tenants_.Delete(context.reactor, id));
  // Keys of a tenant that does not exist open nothing; the next start removes what is left after a crash
  // here.
  co_return co_await keys_.DeleteOf(context.reactor, id);
}

rt::Task<Status> TenantServices::CreateKey(const Caller&, store::Context& context,
                                           const pb::CreateKeyRequest& request,
                                           pb::CreateKeyResponse& response) {
  FB_CO_ASSIGN(const TenantId id, ResolveCreated(tenants_, request.tenant()));
  FB_CO_ASSIGN(const AccessKeyWithSecret made, co_await keys_.Create(context.reactor, id));
  ToMessage(made.key, response.mutable_key());
  response.set_secret(base::ToHex(made.secret.view()));
  co_return Status();
}

rt::Task<Status> TenantServices::ListKeys(const Caller&, store::Context&, const pb::ListKeysRequest& request,
                                          pb::ListKeysResponse& response) {
  FB_CO_ASSIGN(const uint32_t limit, PageLimit(request.limit()));
  TenantId id = TenantId::kNone;
  if (!request.tenant().empty()) {
    FB_CO_ASSIGN(id, tenants_.Resolve(request.tenant()));
  }
  const std::vector<AccessKey> all = keys_.List(id);
  auto next = std::ranges::upper_bound(all, request.start_after(), {}, &AccessKey::id);
  for (uint32_t count = 0; next != all.end() && count < limit; ++next, ++count)
    ToMessage(*next, response.add_keys());
  response.set_truncated(next != all.end());
  co_return Status();
}

rt::Task<Status> TenantServices::DeleteKey(const Caller&, store::Context& context,
                                           const pb::DeleteKeyRequest& request, pb::DeleteKeyResponse&) {
  return keys_.Delete(context.reactor, request.id());
}

}  // namespace forebay::control
