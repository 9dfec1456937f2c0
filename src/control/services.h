// SPDX-License-Identifier: Apache-2.0
// Services: what each RPC does, once the door has let the call in. One coroutine for each, run on a reactor.
// Private to src/control. Thread-safe: called on several reactors; everything is constant after construction.
#pragma once

#include <functional>

#include "auth/session_table.h"
#include "base/clock.h"
#include "base/random.h"
#include "control/backups.h"
#include "control/store_devices.h"
#include "control/capability_authority.h"
#include "control/method.h"
#include "control/scrubs.h"
#include "control/object_services.h"
#include "control/server.h"
#include "control/tenant_services.h"
#include "control/upload_services.h"
#include "wire/control.pb.h"

namespace forebay::control {

namespace pb = ::forebay::control::v1;

class Services {
 public:
  using Traffic = std::function<rt::Task<std::vector<FabricTraffic>>(rt::Reactor& here)>;

  /// Everything is borrowed for the life of the services; `calls_in_progress` and `traffic`, which may be
  /// null, are asked by Stats. `backups`, `devices` and `scrubs` may be null.
  Services(const ControlServerOptions& options, store::ObjectStore& store, auth::SessionTable& sessions,
           CapabilityAuthority& authority, TenantRegistry& tenants, AccessKeys& keys, const base::Clock& clock,
           base::Random& random, std::function<size_t()> calls_in_progress, Traffic traffic, Backups* backups,
           StoreDevices* devices, Scrubs* scrubs);

  /// The methods, which borrow the services.
  MethodTable Methods();

 private:
  rt::Task<Status> OpenSession(const Caller& caller, store::Context& context,
                               const pb::OpenSessionRequest& request, pb::OpenSessionResponse& response);
  /// By a capability: each side signs its share of the key (auth/session_exchange.h).
  rt::Task<Result<auth::OpenedSession>> AgreeOnSession(const Caller& caller, rt::Reactor& reactor,
                                                       const pb::OpenSessionRequest& request,
                                                       const auth::SessionNonce& client_nonce,
                                                       pb::OpenSessionResponse& response);
  rt::Task<Status> CloseSession(const Caller& caller, store::Context& context,
                                const pb::CloseSessionRequest& request, pb::CloseSessionResponse& response);
  rt::Task<Status> CreateBucket(const Caller& caller, store::Context& context,
                                const pb::CreateBucketRequest& request, pb::CreateBucketResponse& response);
  rt::Task<Status> DeleteBucket(const Caller& caller, store::Context& context,
                                const pb::DeleteBucketRequest& request, pb::DeleteBucketResponse& response);
  rt::Task<Status> GetBucket(const Caller& caller, store::Context& context,
                             const pb::GetBucketRequest& request, pb::GetBucketResponse& response);
  rt::Task<Status> ListBuckets(const Caller& caller, store::Context& context,
                               const pb::ListBucketsRequest& request, pb::ListBucketsResponse& response);
  rt::Task<Status> ListObjects(const Caller& caller, store::Context& context,
                               const pb::ListObjectsRequest& request, pb::ListObjectsResponse& response);
  rt::Task<Status> StatObject(const Caller& caller, store::Context& context,
                              const pb::StatObjectRequest& request, pb::StatObjectResponse& response);
  rt::Task<Status> DeleteObject(const Caller& caller, store::Context& context,
                                const pb::DeleteObjectRequest& request, pb::DeleteObjectResponse& response);
  rt::Task<Status> ComposeObject(const Caller& caller, store::Context& context,
                                 const pb::ComposeObjectRequest& request, pb::ComposeObjectResponse& response);
  rt::Task<Status> RenameObject(const Caller& caller, store::Context& context,
                                const pb::RenameObjectRequest& request, pb::RenameObjectResponse& response);
  rt::Task<Status> RenamePrefix(const Caller& caller, store::Context& context,
                                const pb::RenamePrefixRequest& request, pb::RenamePrefixResponse& response);
  rt::Task<Status> Health(const Caller& caller, store::Context& context, const pb::HealthRequest& request,
                          pb::HealthResponse& response);
  rt::Task<Status> Stats(const Caller& caller, store::Context& context, const pb::StatsRequest& request,
                         pb::StatsResponse& response);
  rt::Task<Status> Space(const Caller& caller, store::Context& context, const pb::SpaceRequest& request,
                         pb::SpaceResponse& response);
  rt::Task<Status> StartBackup(const Caller& caller, store::Context& context, const pb::StartBackupRequest& request,
                               pb::StartBackupResponse& response);
  rt::Task<Status> GetBackup(const Caller& caller, store::Context& context, const pb::GetBackupRequest& request,
                             pb::GetBackupResponse& response);
  rt::Task<Status> ReplaceDevice(const Caller& caller, store::Context& context,
                                 const pb::ReplaceDeviceRequest& request, pb::ReplaceDeviceResponse& response);
  rt::Task<Status> AddDevice(const Caller& caller, store::Context& context, const pb::AddDeviceRequest& request,
                             pb::AddDeviceResponse& response);
  rt::Task<Status> DrainDevice(const Caller& caller, store::Context& context, const pb::DrainDeviceRequest& request,
                               pb::DrainDeviceResponse& response);
  rt::Task<Status> RemoveDevice(const Caller& caller, store::Context& context, const pb::RemoveDeviceRequest& request,
                                pb::RemoveDeviceResponse& response);
  rt::Task<Status> StartScrub(const Caller& caller, store::Context& context, const pb::StartScrubRequest& request,
                              pb::StartScrubResponse& response);
  rt::Task<Status> GetScrub(const Caller& caller, store::Context& context, const pb::GetScrubRequest& request,
                            pb::GetScrubResponse& response);
  rt::Task<Status> StopScrub(const Caller& caller, store::Context& context, const pb::StopScrubRequest& request,
                             pb::StopScrubResponse& response);

  const ControlServerOptions& options_;
  store::ObjectStore& store_;
  TenantRegistry& tenants_;
  ObjectServices object_services_;
  UploadServices upload_services_;
  TenantServices tenant_services_;
  auth::SessionTable& sessions_;
  CapabilityAuthority& authority_;
  const base::Clock& clock_;
  base::Random& random_;
  const base::TimePoint started_;
  const std::function<size_t()> calls_in_progress_;
  const Traffic traffic_;
  Backups* const backups_;       // null: none are made
  StoreDevices* const devices_;  // null: it has none of its own
  Scrubs* const scrubs_;         // null: there are none
};

}  // namespace forebay::control
