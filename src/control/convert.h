// SPDX-License-Identifier: Apache-2.0
// Between the messages of control.proto and the types of the store, for server and client alike. What comes
// from outside is checked here; what the store checks itself (names, keys) is not checked twice. Thread-safe:
// pure functions.
#pragma once

#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "base/status.h"
#include "control/data_plane.h"
#include "store/object_store.h"
#include "wire/control.pb.h"

namespace forebay::control {

namespace pb = ::forebay::control::v1;

void ToMessage(const store::BucketInfo& bucket, pb::Bucket* message);
Result<store::BucketInfo> FromMessage(const pb::Bucket& message);

void ToMessage(store::ObjectInfo object, pb::Object* message);
store::ObjectInfo FromMessage(pb::Object message);

pb::BucketClass ToMessage(store::BucketClass bucket_class);
/// InvalidArgument for a class that this version does not know; unspecified is durable.
Result<store::BucketClass> FromMessage(pb::BucketClass bucket_class);

void ToMessage(const FabricTraffic& traffic, pb::FabricTraffic* message);
FabricTraffic FromMessage(const pb::FabricTraffic& message);

/// None when `bytes` is empty; InvalidArgument for any size but 16.
Result<OperationId> OperationFrom(const std::string& bytes);
/// Empty for none.
std::string ToBytes(const OperationId& operation);

}  // namespace forebay::control
