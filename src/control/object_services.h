// SPDX-License-Identifier: Apache-2.0
// ObjectServices: the RPCs about what an object is beyond its name and bytes: the versioning of its bucket, its size,
// attributes and versions. Private to src/control. Thread-safe: called on several reactors; everything is constant
// after construction.
#pragma once

#include "control/method.h"
#include "wire/control.pb.h"

namespace forebay::control {

namespace pb = ::forebay::control::v1;

class ObjectServices {
 public:
  /// Borrowed for the life of the services.
  explicit ObjectServices(store::ObjectStore& store) : store_(store) {}

  /// Adds the methods, which borrow the services.
  void AddTo(MethodTable* table);

 private:
  rt::Task<Status> UpdateBucket(const Caller& caller, store::Context& context, const pb::UpdateBucketRequest& request,
                                pb::UpdateBucketResponse& response);
  rt::Task<Status> Truncate(const Caller& caller, store::Context& context, const pb::TruncateObjectRequest& request,
                            pb::TruncateObjectResponse& response);
  rt::Task<Status> SetAttributes(const Caller& caller, store::Context& context,
                                 const pb::SetAttributesRequest& request, pb::SetAttributesResponse& response);
  rt::Task<Status> ListVersions(const Caller& caller, store::Context& context, const pb::ListVersionsRequest& request,
                                pb::ListVersionsResponse& response);
  rt::Task<Status> StatVersion(const Caller& caller, store::Context& context, const pb::StatVersionRequest& request,
                               pb::StatVersionResponse& response);
  rt::Task<Status> DeleteVersion(const Caller& caller, store::Context& context,
                                 const pb::DeleteVersionRequest& request, pb::DeleteVersionResponse& response);
  rt::Task<Status> Pin(const Caller& caller, store::Context& context, const pb::PinRequest& request,
                       pb::PinResponse& response);

  store::ObjectStore& store_;
};

}  // namespace forebay::control
