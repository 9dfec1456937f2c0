// SPDX-License-Identifier: Apache-2.0
// Between the messages of control.proto and the types of the store, for server and client alike. What comes
// from outside is checked here; what the store checks itself (names, keys) is not checked twice. Thread-safe:
// pure functions.
#pragma once

#include <optional>
#include <chrono>
#include <string>

#include "auth/capability.h"
#include "base/clock.h"
#include "base/limits.h"
#include "base/ids.h"
#include "base/status.h"
#include "control/access_keys.h"
#include "control/data_plane.h"
#include "control/scrubs.h"
#include "control/tenant_registry.h"
#include "store/object_store.h"
#include "wire/control.pb.h"

namespace forebay::control {

namespace pb = ::forebay::control::v1;

void ToMessage(const store::BucketInfo& bucket, pb::Bucket* message);
Result<store::BucketInfo> FromMessage(const pb::Bucket& message);

void ToMessage(store::ObjectInfo object, pb::Object* message);
store::ObjectInfo FromMessage(pb::Object message);

pb::BucketClass ToMessage(store::BucketClass bucket_class);
/// InvalidArgument for more than the store takes.
Result<std::chrono::milliseconds> TtlFrom(uint64_t ttl_ms);
/// InvalidArgument for a class that this version does not know; unspecified is durable.
Result<store::BucketClass> FromMessage(pb::BucketClass bucket_class);

pb::Versioning ToMessage(store::Versioning versioning);
/// Nothing for unspecified; InvalidArgument for what this version does not know.
Result<std::optional<store::Versioning>> FromMessage(pb::Versioning versioning);

void ToMessage(store::VersionInfo version, pb::ObjectVersion* message);
store::VersionInfo FromMessage(pb::ObjectVersion message);

void ToMessage(store::UploadInfo upload, pb::Upload* message);
store::UploadInfo FromMessage(pb::Upload message);
void ToMessage(store::PartInfo part, pb::Part* message);
store::PartInfo FromMessage(pb::Part message);

void ToMessage(const store::Source& source, pb::ComposeSource* message);
store::Source FromMessage(const pb::ComposeSource& message);

void ToMessage(const FabricTraffic& traffic, pb::FabricTraffic* message);
FabricTraffic FromMessage(const pb::FabricTraffic& message);

/// But for why the store is read-only, which is not the space's.
void ToMessage(const store::StoreSpace& space, pb::SpaceResponse* message);
store::StoreSpace FromMessage(const pb::SpaceResponse& message);

void ToMessage(const ScrubReport& report, pb::GetScrubResponse* message);
ScrubReport FromMessage(const pb::GetScrubResponse& message);

void ToMessage(const auth::RateGrant& rates, pb::RateGrant* message);
auth::RateGrant FromMessage(const pb::RateGrant& message);
/// But for `revoked`, which a block does not know.
void ToMessage(const auth::CapabilityBlock& block, pb::CapabilityInfo* message);

/// InvalidArgument when a field has no meaning.
Status FromMessage(const pb::CapabilityInfo& message, auth::CapabilityBlock* block);

/// InvalidArgument, naming the field, unless `bytes` fills `out` exactly.
Status CopyExactly(std::string_view field, const std::string& bytes, MutableByteView out);
void ToMessage(const Tenant& tenant, pb::Tenant* message);
Tenant FromMessage(const pb::Tenant& message);
void ToMessage(const TenantChange& change, pb::TenantLimits* message);
TenantChange FromMessage(const pb::TenantLimits& message);
void ToMessage(const AccessKey& key, pb::AccessKey* message);
AccessKey FromMessage(const pb::AccessKey& message);

/// What an object must be like; InvalidArgument for both at once.
Result<store::Condition> ConditionFrom(const std::string& if_match, bool if_absent);
/// If-match, or nothing when there is no ETag.
store::Condition IfMatch(const std::string& etag);

/// The entries of one answer: what was asked for, or the most there are. InvalidArgument above that.
Result<uint32_t> PageLimit(uint32_t asked);

/// None when `bytes` is empty; InvalidArgument for any size but 16.
Result<OperationId> OperationFrom(const std::string& bytes);
/// Empty for none.
std::string ToBytes(const OperationId& operation);

}  // namespace forebay::control
