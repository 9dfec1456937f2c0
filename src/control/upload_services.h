// SPDX-License-Identifier: Apache-2.0
// UploadServices: the RPCs of uploads by parts; the bytes of a part travel on the data plane. Private to src/control.
// Thread-safe: called on several reactors; everything is constant after construction.
#pragma once

#include "control/method.h"
#include "wire/control.pb.h"

namespace forebay::control {

namespace pb = ::forebay::control::v1;

class UploadServices {
 public:
  /// Borrowed for the life of the services.
  explicit UploadServices(store::ObjectStore& store) : store_(store) {}

  /// Adds the methods, which borrow the services.
  void AddTo(MethodTable* table);

 private:
  rt::Task<Status> Create(const Caller& caller, store::Context& context, const pb::CreateUploadRequest& request,
                          pb::CreateUploadResponse& response);
  rt::Task<Status> CopyPart(const Caller& caller, store::Context& context, const pb::CopyPartRequest& request,
                            pb::CopyPartResponse& response);
  rt::Task<Status> ListParts(const Caller& caller, store::Context& context, const pb::ListPartsRequest& request,
                             pb::ListPartsResponse& response);
  rt::Task<Status> List(const Caller& caller, store::Context& context, const pb::ListUploadsRequest& request,
                        pb::ListUploadsResponse& response);
  rt::Task<Status> Complete(const Caller& caller, store::Context& context, const pb::CompleteUploadRequest& request,
                            pb::CompleteUploadResponse& response);
  rt::Task<Status> Abort(const Caller& caller, store::Context& context, const pb::AbortUploadRequest& request,
                         pb::AbortUploadResponse& response);

  store::ObjectStore& store_;
};

}  // namespace forebay::control
