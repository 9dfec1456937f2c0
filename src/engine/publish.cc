// SPDX-License-Identifier: Apache-2.0
#include "engine/publish.h"

#include <memory>
#include <string>
#include <utility>

#include "engine/eviction.h"
#include "engine/operations.h"

namespace forebay::engine {
namespace {

struct PendingCommit {
  std::shared_ptr<ReservedUnits> units;
  PublishOutcome outcome;
  std::shared_ptr<OnceOutcome> once;  // with an operation id
  Status status;
};

rt::Task<void> CommitTo(Core& core, rt::Reactor& reactor, store::Operation operation, PublishRequest request,
                        MakeTransaction make, std::shared_ptr<PendingCommit> pending) {
  std::unique_ptr<meta::Transaction> change = make(core, std::move(request), &pending->outcome);
  if (!operation.id.IsNone()) {
    pending->once = std::make_shared<OnceOutcome>();
    change = MakeOnce(core.operations, operation, std::move(change), {pending, &pending->outcome.info}, pending->once);
  }
  pending->status = co_await core.meta->Commit(reactor, std::move(change));
  // A group that failed may be on the media all the same: its units must not be written again before a
  // restart looked.
  if (pending->outcome.prepared && pending->units != nullptr) pending->units->Keep();
}

}  // namespace

rt::Task<Result<store::ObjectInfo>> Publish(Core& core, const store::Context& context, store::Operation operation,
                                            PublishRequest request, MakeTransaction make) {
  const std::string bucket_name = request.bucket_name;
  const std::string key = request.key;
  const store::UserMetadata metadata = request.metadata;
  const store::UserMetadata attributes = request.attributes;
  auto pending = std::make_shared<PendingCommit>();  // shared with the commit, which goes on when the
                                                     // deadline comes first
  pending->units = request.content.units;
  FB_CO_ASSIGN(const bool ended, co_await core.gates.RunUntil(
                                     context.reactor, context.deadline,
                                     CommitTo(core, context.reactor, operation, std::move(request), make, pending)));
  if (!ended) co_return CommitIsLate().WithContext(fmt::format("put of `{}/{}`", bucket_name, key));
  EvictAhead(core, context.reactor);
  if (pending->once != nullptr) LetGoOfOperations(core, context.reactor);  // also when the table is full
  FB_CO_TRY(pending->status);
  if (pending->once != nullptr) {
    if (pending->once->earlier) co_return store::ResultOfPut(*pending->once->earlier, key, metadata, attributes);
    FB_CO_TRY(pending->once->refusal);
  }
  co_return std::move(pending->outcome.info);
}

}  // namespace forebay::engine
