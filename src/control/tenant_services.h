// SPDX-License-Identifier: Apache-2.0
// TenantServices: the RPCs of Tenants and Keys, between the messages and the registry. Whatever right a
// caller has, these are for the root tenant. Private to src/control. Thread-safe: called on several reactors;
// everything is constant after construction.
#pragma once

#include "control/access_keys.h"
#include "control/method.h"
#include "control/tenant_registry.h"
#include "wire/control.pb.h"

namespace forebay::control {

namespace pb = ::forebay::control::v1;

class TenantServices {
 public:
  /// Both are borrowed for the life of the services.
  TenantServices(TenantRegistry& tenants, AccessKeys& keys) : tenants_(tenants), keys_(keys) {}

  /// Adds the methods, which borrow the services.
  void AddTo(MethodTable* table);

 private:
  rt::Task<Status> Create(const Caller& caller, store::Context& context,
                          const pb::CreateTenantRequest& request, pb::CreateTenantResponse& response);
  rt::Task<Status> List(const Caller& caller, store::Context& context, const pb::ListTenantsRequest& request,
                        pb::ListTenantsResponse& response);
  rt::Task<Status> Get(const Caller& caller, store::Context& context, const pb::GetTenantRequest& request,
                       pb::GetTenantResponse& response);
  rt::Task<Status> Set(const Caller& caller, store::Context& context, const pb::SetTenantRequest& request,
                       pb::SetTenantResponse& response);
  rt::Task<Status> Delete(const Caller& caller, store::Context& context,
                          const pb::DeleteTenantRequest& request, pb::DeleteTenantResponse& response);
  rt::Task<Status> CreateKey(const Caller& caller, store::Context& context,
                             const pb::CreateKeyRequest& request, pb::CreateKeyResponse& response);
  rt::Task<Status> ListKeys(const Caller& caller, store::Context& context, const pb::ListKeysRequest& request,
                            pb::ListKeysResponse& response);
  rt::Task<Status> DeleteKey(const Caller& caller, store::Context& context,
                             const pb::DeleteKeyRequest& request, pb::DeleteKeyResponse& response);

  TenantRegistry& tenants_;
  AccessKeys& keys_;
};

}  // namespace forebay::control
