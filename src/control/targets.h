// SPDX-License-Identifier: Apache-2.0
// TargetOf: what a request names, for the policy. A method whose request has no TargetOf here does not compile. Thread-safe:
// pure functions. Private to src/control.
#pragma once

#include "auth/grant.h"
#include "wire/control.pb.h"

namespace forebay::control::v1 {

// What names nothing that is anyone's; the scope of such a method says so too.
inline auth::Target TargetOf(const OpenSessionRequest&) { return {}; }
inline auth::Target TargetOf(const CloseSessionRequest&) { return {}; }
inline auth::Target TargetOf(const ListBucketsRequest&) { return {}; }
inline auth::Target TargetOf(const ListCapabilitiesRequest&) { return {}; }
inline auth::Target TargetOf(const RevokeCapabilityRequest&) { return {}; }
inline auth::Target TargetOf(const RevokeTenantRequest&) { return {}; }
inline auth::Target TargetOf(const RotateKeyRequest&) { return {}; }
inline auth::Target TargetOf(const HealthRequest&) { return {}; }
inline auth::Target TargetOf(const StatsRequest&) { return {}; }

inline auth::Target TargetOf(const CreateBucketRequest& request) { return {request.name(), {}}; }
inline auth::Target TargetOf(const DeleteBucketRequest& request) { return {request.name(), {}}; }
inline auth::Target TargetOf(const GetBucketRequest& request) { return {request.name(), {}}; }

inline auth::Target TargetOf(const ListObjectsRequest& request) { return {request.bucket(), request.prefix()}; }
inline auth::Target TargetOf(const StatObjectRequest& request) { return {request.bucket(), request.key()}; }
inline auth::Target TargetOf(const DeleteObjectRequest& request) { return {request.bucket(), request.key()}; }

inline auth::Target TargetOf(const IssueCapabilityRequest& request) { return {request.bucket(), request.prefix()}; }

}  // namespace forebay::control::v1
