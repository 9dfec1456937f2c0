// SPDX-License-Identifier: Apache-2.0
// TargetOf: what a request names, for the policy; AlsoOf: what else it names, and the row of the policy for that; WorkOf:
// how much one call did, for the rates. A method whose request has no TargetOf here does not compile. Thread-safe: pure
// functions. Private to src/control.
#pragma once

#include <string_view>
#include <vector>

#include "auth/grant.h"
#include "auth/policy.h"
#include "wire/control.pb.h"

namespace forebay::control {

/// A row of the policy, and what it must allow. Of a string that is no row nothing compiles.
class Requirement {
 public:
  consteval static const auth::PolicyRow* Row(std::string_view operation) {
    const auth::PolicyRow* row = auth::FindPolicy(operation);
    if (row == nullptr) throw "there is no such row in auth/policy.h";
    return row;
  }

  Requirement(const auth::PolicyRow* required, auth::Target on) : row(*required), target(on) {}
  auth::PolicyRow row;
  auth::Target target;  // views of the request
};

}  // namespace forebay::control

namespace forebay::control::v1 {

// What names nothing that is anyone's; the scope of such a method says so too.
inline auth::Target TargetOf(const OpenSessionRequest&) { return {}; }
inline auth::Target TargetOf(const CloseSessionRequest&) { return {}; }
inline auth::Target TargetOf(const ListBucketsRequest&) { return {}; }
inline auth::Target TargetOf(const ListCapabilitiesRequest&) { return {}; }
inline auth::Target TargetOf(const RevokeCapabilityRequest&) { return {}; }
inline auth::Target TargetOf(const RevokeTenantRequest&) { return {}; }
inline auth::Target TargetOf(const RotateKeyRequest&) { return {}; }
inline auth::Target TargetOf(const CreateTenantRequest&) { return {}; }
inline auth::Target TargetOf(const ListTenantsRequest&) { return {}; }
inline auth::Target TargetOf(const GetTenantRequest&) { return {}; }
inline auth::Target TargetOf(const SetTenantRequest&) { return {}; }
inline auth::Target TargetOf(const DeleteTenantRequest&) { return {}; }
inline auth::Target TargetOf(const CreateKeyRequest&) { return {}; }
inline auth::Target TargetOf(const ListKeysRequest&) { return {}; }
inline auth::Target TargetOf(const DeleteKeyRequest&) { return {}; }
inline auth::Target TargetOf(const HealthRequest&) { return {}; }
inline auth::Target TargetOf(const StatsRequest&) { return {}; }
inline auth::Target TargetOf(const SpaceRequest&) { return {}; }
inline auth::Target TargetOf(const StartBackupRequest&) { return {}; }
inline auth::Target TargetOf(const GetBackupRequest&) { return {}; }
inline auth::Target TargetOf(const ReplaceDeviceRequest&) { return {}; }
inline auth::Target TargetOf(const AddDeviceRequest&) { return {}; }
inline auth::Target TargetOf(const DrainDeviceRequest&) { return {}; }
inline auth::Target TargetOf(const RemoveDeviceRequest&) { return {}; }
inline auth::Target TargetOf(const StartScrubRequest&) { return {}; }
inline auth::Target TargetOf(const GetScrubRequest&) { return {}; }
inline auth::Target TargetOf(const StopScrubRequest&) { return {}; }

inline auth::Target TargetOf(const CreateBucketRequest& request) { return {request.name(), {}}; }
inline auth::Target TargetOf(const DeleteBucketRequest& request) { return {request.name(), {}}; }
inline auth::Target TargetOf(const GetBucketRequest& request) { return {request.name(), {}}; }
inline auth::Target TargetOf(const UpdateBucketRequest& request) { return {request.name(), {}}; }

inline auth::Target TargetOf(const ListObjectsRequest& request) { return {request.bucket(), request.prefix()}; }
inline auth::Target TargetOf(const StatObjectRequest& request) { return {request.bucket(), request.key()}; }
inline auth::Target TargetOf(const DeleteObjectRequest& request) { return {request.bucket(), request.key()}; }

inline auth::Target TargetOf(const ComposeObjectRequest& request) { return {request.bucket(), request.key()}; }
inline auth::Target TargetOf(const RenameObjectRequest& request) { return {request.bucket(), request.from()}; }
inline auth::Target TargetOf(const RenamePrefixRequest& request) { return {request.bucket(), request.from()}; }

inline auth::Target TargetOf(const TruncateObjectRequest& request) { return {request.bucket(), request.key()}; }
inline auth::Target TargetOf(const SetAttributesRequest& request) { return {request.bucket(), request.key()}; }
inline auth::Target TargetOf(const ListVersionsRequest& request) { return {request.bucket(), request.prefix()}; }
inline auth::Target TargetOf(const StatVersionRequest& request) { return {request.bucket(), request.key()}; }
inline auth::Target TargetOf(const DeleteVersionRequest& request) { return {request.bucket(), request.key()}; }
inline auth::Target TargetOf(const PinRequest& request) { return {request.bucket(), request.key()}; }

inline auth::Target TargetOf(const CreateUploadRequest& request) { return {request.bucket(), request.key()}; }
inline auth::Target TargetOf(const CopyPartRequest& request) { return {request.bucket(), request.key()}; }
inline auth::Target TargetOf(const ListPartsRequest& request) { return {request.bucket(), request.key()}; }
inline auth::Target TargetOf(const ListUploadsRequest& request) { return {request.bucket(), request.prefix()}; }
inline auth::Target TargetOf(const CompleteUploadRequest& request) { return {request.bucket(), request.key()}; }
inline auth::Target TargetOf(const AbortUploadRequest& request) { return {request.bucket(), request.key()}; }

inline auth::Target TargetOf(const IssueCapabilityRequest& request) { return {request.bucket(), request.prefix()}; }

template <typename Request, typename Response>
uint64_t WorkOf(const Request&, const Response&) {
  return 0;
}
/// Runs of the map of an object: one for some 16 MiB.
inline uint64_t RunsOf(uint64_t size_bytes) { return size_bytes >> 24; }
inline uint64_t WorkOf(const ComposeObjectRequest& request, const ComposeObjectResponse& response) {
  return static_cast<uint64_t>(request.sources_size()) + RunsOf(response.object().size_bytes());
}
inline uint64_t WorkOf(const CopyPartRequest&, const CopyPartResponse& response) {
  return RunsOf(response.part().size_bytes());
}
inline uint64_t WorkOf(const CompleteUploadRequest& request, const CompleteUploadResponse& response) {
  return static_cast<uint64_t>(request.parts_size()) + RunsOf(response.object().size_bytes());
}
inline uint64_t WorkOf(const RenamePrefixRequest&, const RenamePrefixResponse& response) { return response.renamed(); }

template <typename Request>
std::vector<Requirement> AlsoOf(const Request&) {
  return {};
}
inline std::vector<Requirement> AlsoOf(const ComposeObjectRequest& request) {
  std::vector<Requirement> also;
  for (const ComposeSource& source : request.sources())
    also.emplace_back(Requirement::Row("also/Namespace/Compose/source"), auth::Target{source.bucket(), source.key()});
  return also;
}
inline std::vector<Requirement> AlsoOf(const CopyPartRequest& request) {
  return {{Requirement::Row("also/Uploads/CopyPart/source"), {request.source().bucket(), request.source().key()}}};
}
inline std::vector<Requirement> AlsoOf(const RenameObjectRequest& request) {
  return {{Requirement::Row("also/Namespace/Rename/from"), {request.bucket(), request.from()}},
          {Requirement::Row("also/Namespace/Rename/to"), {request.bucket(), request.to()}}};
}
inline std::vector<Requirement> AlsoOf(const RenamePrefixRequest& request) {
  return {{Requirement::Row("also/Namespace/RenamePrefix/from"), {request.bucket(), request.from()}},
          {Requirement::Row("also/Namespace/RenamePrefix/to"), {request.bucket(), request.to()}}};
}

}  // namespace forebay::control::v1
