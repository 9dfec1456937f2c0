// SPDX-License-Identifier: Apache-2.0
// CapabilityServices: the RPCs of Capabilities, between the messages and the authority. Private to src/control. Thread-safe:
// called on several reactors; everything is constant after construction.
#pragma once

#include "control/capability_authority.h"
#include "control/method.h"
#include "store/object_store.h"
#include "wire/control.pb.h"

namespace forebay::control {

namespace pb = ::forebay::control::v1;

class CapabilityServices {
 public:
  /// Both are borrowed for the life of the services.
  CapabilityServices(CapabilityAuthority& authority, store::ObjectStore& store)
      : authority_(authority), store_(store) {}

  /// Adds the methods, which borrow the services.
  void AddTo(MethodTable* table);

 private:
  rt::Task<Status> Issue(const Caller& caller, store::Context& context, const pb::IssueCapabilityRequest& request,
                         pb::IssueCapabilityResponse& response);
  rt::Task<Status> List(const Caller& caller, store::Context& context, const pb::ListCapabilitiesRequest& request,
                        pb::ListCapabilitiesResponse& response);
  rt::Task<Status> Revoke(const Caller& caller, store::Context& context, const pb::RevokeCapabilityRequest& request,
                          pb::RevokeCapabilityResponse& response);
  rt::Task<Status> RevokeTenant(const Caller& caller, store::Context& context,
                                const pb::RevokeTenantRequest& request, pb::RevokeTenantResponse& response);
  rt::Task<Status> RotateKey(const Caller& caller, store::Context& context, const pb::RotateKeyRequest& request,
                             pb::RotateKeyResponse& response);

  CapabilityAuthority& authority_;
  store::ObjectStore& store_;
};

}  // namespace forebay::control
