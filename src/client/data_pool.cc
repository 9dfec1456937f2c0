// SPDX-License-Identifier: Apache-2.0
#include "client/data_pool.h"

#include <algorithm>
#include <utility>

namespace forebay::client {
namespace {

/// A way that is not the last one to be tried.
constexpr base::Duration kTryFor = std::chrono::seconds(2);

fabric::EndpointOptions EndpointOptionsOf() {
  fabric::EndpointOptions options;
  options.max_message_bytes = base::kMaxMessageBytes;
  options.max_transfer_bytes = base::kMaxTransferBytes;
  return options;
}

}  // namespace

DataPool::DataPool(rt::Reactor& reactor, MoverChoice choice, rt::ThreadPool& threads, Opener open,
                   unsigned lanes, base::Random& random, RetryOptions retry)
    : reactor_(reactor),
      choice_(std::move(choice)),
      threads_(threads),
      open_(std::move(open)),
      random_(random),
      retry_(retry),
      gate_(reactor) {
  for (unsigned i = 0; i < lanes; ++i) lanes_.push_back(std::make_unique<Lane>(reactor));
}

rt::Task<Result<DataSession*>> DataPool::Next(base::TimePoint deadline) {
  FB_CO_ASSIGN(const auto holder, gate_.Enter());
  Lane& lane = *lanes_[turn_++ % lanes_.size()];
  co_return co_await Ready(lane, deadline);
}

rt::Task<Result<DataSession*>> DataPool::Ready(Lane& lane, base::TimePoint deadline) {
  if (lane.session != nullptr && lane.session->state().ok()) co_return lane.session.get();
  const rt::Units lock = co_await lane.opening.Lock();
  if (lane.session != nullptr && lane.session->state().ok())
    co_return lane.session.get();  // another call was first
  FB_CO_TRY(closed_);
  if (lane.session != nullptr) Retire(std::move(lane.session));
  Result<std::unique_ptr<DataSession>> opened = co_await Open(deadline);
  if (!opened.ok()) co_return opened.status();
  if (!closed_.ok()) {
    co_await (*opened)->Close(closed_);
    co_return closed_;
  }
  lane.session = *std::move(opened);
  co_return lane.session.get();
}

/// Tries the ways in turn, each with a session of its own, and notes why one that looked better was not
/// taken.
rt::Task<Result<std::unique_ptr<DataSession>>> DataPool::Open(base::TimePoint deadline) {
  std::vector<std::string> failures;
  for (size_t turn = 0;; ++turn) {
    const base::Duration left = deadline == base::kNever ? base::kMaxWait : deadline - reactor_.Now();
    if (left <= base::Duration::zero())
      co_return Status::DeadlineExceeded("no time was left to open a session");
    FB_CO_ASSIGN(DataTarget target,
                 co_await rt::Offload(reactor_, threads_, [this, left] { return open_(left); }));
    std::vector<std::string> notes = failures;
    FB_CO_ASSIGN(const std::vector<Way> ways, WaysTo(choice_, target.endpoints, notes));
    const Way& way = ways[std::min(turn, ways.size() - 1)];
    const bool last = turn + 1 >= ways.size();
    // A way that leads nowhere must not use up the time of those behind it.
    const base::TimePoint until =
        last ? deadline : std::min(deadline, base::DeadlineAfter(reactor_.Now(), kTryFor));
    auto session = co_await Take(way, std::move(target.key), until);
    if (session.ok()) {
      path_ = fmt::format("{} to {}", way.fabric->name(), way.address);
      path_reason_ = ReasonOf(choice_, way.fabric->name(), notes);
    }
    if (session.ok() || last) co_return session;
    failures.push_back(fmt::format("{}: {}", way.fabric->name(), session.error().message()));
  }
}

rt::Task<Result<std::unique_ptr<DataSession>>> DataPool::Take(Way way, SessionKey key,
                                                              base::TimePoint deadline) {
  FB_CO_ASSIGN(auto endpoint,
               co_await way.fabric->Connect(reactor_, way.address, EndpointOptionsOf(), deadline));
  co_return co_await DataSession::Open(std::move(endpoint), std::move(key), deadline);
}

/// A lost session goes once its last call is through.
void DataPool::Retire(std::unique_ptr<DataSession> session) {
  reactor_.Spawn(gate_, [session = std::move(session)]() -> rt::Task<void> {
    co_await session->Close(session->state());
  });
}

rt::Task<Status> DataPool::OpenAll(base::TimePoint deadline) {
  FB_CO_ASSIGN(const auto holder, gate_.Enter());
  for (const auto& lane : lanes_) {
    const auto ready = co_await Ready(*lane, deadline);
    if (!ready.ok()) co_return ready.status();
  }
  co_return Status();
}

rt::Task<bool> DataPool::Pause(base::Duration pause) {
  co_await reactor_.Sleep(pause, &life_);
  co_return closed_.ok();
}

rt::Task<void> DataPool::Close(Status reason) {
  if (closed_.ok()) closed_ = Status::Unavailable("{}", reason.message());
  life_.Cancel();
  for (const auto& lane : lanes_) {
    const rt::Units lock = co_await lane->opening.Lock();
    if (lane->session == nullptr) continue;
    co_await lane->session->Close(closed_);
  }
  co_await gate_.Close();
  for (const auto& lane : lanes_) lane->session.reset();
}

}  // namespace forebay::client
