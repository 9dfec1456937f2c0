// SPDX-License-Identifier: Apache-2.0
// Publish: the commit of a new version, which a put and a compose share: one transaction, once when the operation has
// an id, and units that stay reserved when its rows may be on the media. Reactor-local.
#pragma once

#include "engine/core.h"
#include "engine/transactions.h"
#include "rt/task.h"
#include "store/object_store.h"
#include "store/operations.h"

namespace forebay::engine {

/// Gives the version that was published, or that was the first time. DeadlineExceeded, and the outcome is not known,
/// when the context's deadline comes first; else the errors of the transaction (MakePublish).
rt::Task<Result<store::ObjectInfo>> Publish(Core& core, const store::Context& context, store::Operation operation,
                                            PublishRequest request);

}  // namespace forebay::engine
