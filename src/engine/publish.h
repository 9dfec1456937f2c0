// SPDX-License-Identifier: Apache-2.0
// Publish: the commit of new content, which puts, parts and composes share: one transaction, once when the operation has
// an id, and units that stay reserved when its rows may be on the media. Reactor-local.
#pragma once

#include "engine/core.h"
#include "engine/transactions.h"
#include "rt/task.h"
#include "store/object_store.h"
#include "store/operations.h"

namespace forebay::engine {

/// How the transaction is made: MakePublish, MakePutPart or MakeCompleteUpload.
using MakeTransaction = std::unique_ptr<meta::Transaction> (*)(Core& core, PublishRequest request,
                                                               PublishOutcome* outcome);

/// Gives the version (or part) that was published, or that was the first time. DeadlineExceeded, and the outcome is not known,
/// when the context's deadline comes first; else the errors of the transaction.
rt::Task<Result<store::ObjectInfo>> Publish(Core& core, const store::Context& context, store::Operation operation,
                                            PublishRequest request, MakeTransaction make = MakePublish);

}  // namespace forebay::engine
