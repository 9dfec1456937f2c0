// SPDX-License-Identifier: Apache-2.0
#include "client/remote_link.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "rt/call_on.h"

namespace forebay::client {
namespace {

/// Calls of the control plane at once.
constexpr size_t kControlThreads = 16;
/// Sessions that are being opened at once.
constexpr size_t kOpenThreads = 2;

}  // namespace

RemoteLink::RemoteLink(const ClientOptions& options, TenantId tenant)
    : options_(options),
      tenant_(tenant),
      openers_(kOpenThreads, "forebay-open"),
      threads_(kControlThreads, "forebay-remote") {}

Result<std::unique_ptr<RemoteLink>> RemoteLink::Open(const ClientOptions& options, TenantId tenant) {
  std::unique_ptr<RemoteLink> link(new RemoteLink(options, tenant));
  FB_ASSIGN(link->connector_, Connector::Open(options));
  FB_ASSIGN(const DataTarget target, link->connector_->OpenSession(options.timeout));
  link->tenant_there_ = target.key.tenant;
  (void)link->control().CloseSession(target.key.id, options.timeout);  // it would expire by itself
  if (!link->connector_->ids().known())
    return Status::FailedPrecondition("{} keeps no results of operations, which a remote store needs", options.server);
  return link;
}

rt::Task<void> RemoteLink::Close(rt::Reactor& here) {
  std::vector<std::pair<rt::Reactor*, DataPool*>> pools;
  {
    base::MutexLock lock(mutex_);
    for (const auto& [reactor, pool] : pools_) pools.emplace_back(reactor, pool.get());
  }
  for (const auto& [reactor, pool] : pools) {
    co_await rt::CallOn(here, *reactor, [pool] { return pool->Close(Status::Unavailable("the store is closing")); });
  }
}

uint64_t RemoteLink::operation_time_ms() const {
  const uint64_t now = connector_->ids().server_ms();
  uint64_t last = last_time_ms_.load(std::memory_order_relaxed);
  while (now > last && !last_time_ms_.compare_exchange_weak(last, now, std::memory_order_relaxed)) {
  }
  return std::max(now, last);
}

Status RemoteLink::health() const {
  if (answers_.load(std::memory_order_relaxed)) return {};
  base::MutexLock lock(mutex_);
  return trouble_;
}

void RemoteLink::Note(const Status& status) {
  const bool answers = status.code() != Code::kUnavailable;
  if (answers && answers_.load(std::memory_order_relaxed)) return;
  base::MutexLock lock(mutex_);
  trouble_ = answers ? Status() : status;
  answers_.store(answers, std::memory_order_relaxed);
}

Status RemoteLink::Admit(const store::Context& context, std::string_view what) const {
  if (context.tenant != tenant_)
    return Status::PermissionDenied(
        "tenant {} is not served here: this store is another server's, {}, reached with one credential, which stands for "
        "tenant {} alone",
        static_cast<uint64_t>(context.tenant), options_.server, static_cast<uint64_t>(tenant_));
  return store::CheckDeadline(context, what);
}

Status RemoteLink::NotOurs(std::string_view what) const {
  return Status::PermissionDenied("{} are a matter of the server behind this store, {}: see to them there", what,
                                  options_.server);
}

base::TimePoint RemoteLink::DeadlineOf(const store::Context& context) const {
  return std::min(context.deadline, base::DeadlineAfter(context.reactor.Now(), options_.timeout));
}

Result<DataPool*> RemoteLink::PoolOf(rt::Reactor& reactor) {
  base::MutexLock lock(mutex_);
  if (const auto found = pools_.find(&reactor); found != pools_.end()) return found->second.get();
  FB_ASSIGN(std::unique_ptr<DataPool> pool, connector_->MakePool(reactor, openers_));
  return pools_.emplace(&reactor, std::move(pool)).first->second.get();
}

}  // namespace forebay::client
