// SPDX-License-Identifier: Apache-2.0
#include "client/core.h"

namespace forebay {
Result<std::unique_ptr<Client::Core>> Client::Core::Open(ClientOptions options) {
  std::unique_ptr<Core> core(new Core(std::move(options)));
  FB_ASSIGN(core->connector_, client::Connector::Open(core->options_));
  FB_ASSIGN(core->thread_, rt::ReactorThread::Create({.name = "forebay"}));
  core->gate_ = std::make_unique<rt::Gate>(core->reactor());
  FB_ASSIGN(core->pool_, core->connector_->MakePool(core->reactor(), core->threads_));
  const base::TimePoint deadline = core->DeadlineFor(kDefaultTimeout);
  FB_TRY(core->Block([core = core.get(), deadline] { return core->pool().OpenAll(deadline); }));
  return core;
}

Client::Core::~Core() {
  if (thread_ == nullptr) return;
  ending_ = true;
  if (pool_ != nullptr) {
    thread_->Run([this]() -> rt::Task<void> {
      gate_->Shut();
      co_await pool_->Close(Status::Unavailable("the client is going away"));
      co_await gate_->Close();
    });
  }
}

bool Client::Core::Pause(base::Duration pause) {
  if (reactor().InReactor()) return false;
  return rt::RunOn(reactor(), [this, pause] { return pool_->Pause(pause); });
}

std::string Client::Core::path() const {
  return rt::RunOn(reactor(), [this]() -> rt::Task<std::string> { co_return pool_->path(); });
}

std::string Client::Core::path_reason() const {
  return rt::RunOn(reactor(), [this]() -> rt::Task<std::string> { co_return pool_->path_reason(); });
}

Status Client::Core::CheckMayBlock() const {
  if (!reactor().InReactor()) return {};
  return Status::FailedPrecondition(
      "a blocking call inside of a callback would wait for itself; use the Async form");
}

Error Client::Core::ErrorOf(const Status& status) const {
  Error error = client::ToError(status);
  if (error.code == Code::kUnavailable && ending_) error.code = Code::kCancelled;
  return error;
}

rt::Task<Result<BatchResult<GetResult>>> Client::Core::Get(std::span<const GetItem> items,
                                                           MutableByteView memory, base::TimePoint deadline) {
  return pool_->With(deadline, true, [items, memory, deadline](client::DataSession& session) {
    return client::GetItems(session, items, memory, deadline);
  });
}

rt::Task<Result<BatchResult<PutResult>>> Client::Core::Put(std::span<const PutItem> items,
                                                           std::span<const client::PutTicket> tickets,
                                                           ByteView memory, base::TimePoint deadline) {
  return pool_->With(deadline, ids().known(),
                     [items, tickets, memory, deadline](client::DataSession& session) {
                       return client::PutItems(session, items, tickets, memory, deadline);
                     });
}

}  // namespace forebay
