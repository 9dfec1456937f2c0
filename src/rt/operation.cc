// SPDX-License-Identifier: Apache-2.0
// How operations start, end early and finish, and the requests they are made of.
#include "rt/operation.h"

#include <algorithm>
#include <limits>

#include "rt/reactor.h"
#include "rt/ring.h"

namespace forebay::rt {

namespace {

// Completions with this user data are nobody's: the answers to cancel requests.
constexpr uint64_t kIgnored = 0;

// A transfer of more than this is cut short, which callers handle anyway.
uint32_t Cut(size_t size) { return static_cast<uint32_t>(std::min<size_t>(size, 1U << 30)); }

uint64_t Address(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

}  // namespace

bool Operation::await_ready() noexcept {
  if (options_.token != nullptr && options_.token->cancelled()) {
    result_ = -ECANCELED;
    return true;
  }
  if (options_.deadline <= reactor_.Now()) {
    result_ = -ETIMEDOUT;
    return true;
  }
  return false;
}

void Operation::await_suspend(std::coroutine_handle<> awaiting) noexcept {
  waiter = awaiting;
  reactor_.Start(*this);
}

void Operation::OnCancel(CancelNode& self) {
  auto& operation = static_cast<Operation&>(self);
  operation.reactor_.EndEarly(operation, ECANCELED);
}

void Operation::OnDeadline(TimerNode& self) {
  auto& operation = static_cast<Operation&>(self);
  operation.reactor_.EndEarly(operation, ETIMEDOUT);
}

void Reactor::Start(Operation& operation) {
  FB_CHECK(InReactor());
  ++in_flight_;
  operation.stop_reason_ = 0;
  SubmitOrQueue(operation);
  if (operation.options_.token != nullptr) operation.options_.token->Link(operation);
  if (operation.options_.deadline != kNever) timers_.Arm(operation, operation.options_.deadline);
}

void Reactor::SubmitOrQueue(Operation& operation) {
  operation.state_ = Operation::State::kRunning;
  // Behind those that wait already: a queue of requests to one file must not be reordered more than the kernel does.
  if (backlog_.empty() && Submit(operation)) return;
  operation.state_ = Operation::State::kBacklog;
  backlog_.Push(operation);
}

bool Reactor::Submit(const Operation& operation) {
  io_uring_sqe* entry = ring_->NextEntry();
  if (entry == nullptr) return false;
  const Operation::Request& request = operation.request_;
  io_uring_prep_rw(request.opcode, entry, request.fd, nullptr, request.len, request.off);
  entry->addr = request.addr;
  entry->rw_flags = static_cast<__kernel_rwf_t>(request.op_flags);  // one place for the flags of all opcodes
  entry->user_data = Address(&operation);
  return true;
}

bool Reactor::SubmitCancel(const Operation& operation) {
  io_uring_sqe* entry = ring_->NextEntry();
  if (entry == nullptr) return false;
  // The queue is worked off in order, so this cannot hit a later operation that happens to live at the same address.
  io_uring_prep_rw(IORING_OP_ASYNC_CANCEL, entry, -1, nullptr, 0, 0);
  entry->addr = Address(&operation);
  entry->user_data = kIgnored;
  return true;
}

void Reactor::FlushBacklog() {
  while (!backlog_.empty()) {
    auto& operation = static_cast<Operation&>(*backlog_.first());
    const bool waits_for_cancel = operation.state_ == Operation::State::kCancelBacklog;
    if (!(waits_for_cancel ? SubmitCancel(operation) : Submit(operation))) return;
    operation.state_ = Operation::State::kRunning;
    backlog_.Pop();
  }
}

void Reactor::EndEarly(Operation& operation, int reason) {
  if (operation.stop_reason_ != 0) return;
  operation.stop_reason_ = reason;
  if (operation.state_ == Operation::State::kBacklog) {
    backlog_.Remove(operation);
    Finish(operation, -ECANCELED);
    return;
  }
  if (SubmitCancel(operation)) return;
  operation.state_ = Operation::State::kCancelBacklog;
  backlog_.Push(operation);
}

void Reactor::Finish(Operation& operation, int result) {
  if (operation.state_ == Operation::State::kCancelBacklog) backlog_.Remove(operation);
  if (result == -EINTR && operation.stop_reason_ == 0 && operation.request_.opcode != IORING_OP_CONNECT) {
    SubmitOrQueue(operation);  // a signal came in between; nothing was transferred
    return;
  }
  if (operation.stop_reason_ != 0 && (result == -ECANCELED || result == -EINTR)) result = -operation.stop_reason_;
  operation.result_ = result;
  operation.state_ = Operation::State::kIdle;
  operation.Unlink();
  timers_.Cancel(operation);
  --in_flight_;
  ready_.Push(operation);
}

Operation Reactor::Read(int fd, void* buffer, uint32_t size, uint64_t offset, const OpOptions& options) {
  return {*this, {IORING_OP_READ, fd, offset, Address(buffer), Cut(size), 0}, options};
}

Operation Reactor::Write(int fd, const void* buffer, uint32_t size, uint64_t offset, const OpOptions& options) {
  return {*this, {IORING_OP_WRITE, fd, offset, Address(buffer), Cut(size), 0}, options};
}

Operation Reactor::Readv(int fd, const iovec* iov, uint32_t count, uint64_t offset, const OpOptions& options) {
  return {*this, {IORING_OP_READV, fd, offset, Address(iov), count, 0}, options};
}

Operation Reactor::Writev(int fd, const iovec* iov, uint32_t count, uint64_t offset, const OpOptions& options) {
  return {*this, {IORING_OP_WRITEV, fd, offset, Address(iov), count, 0}, options};
}

Operation Reactor::Fsync(int fd, bool data_only, const OpOptions& options) {
  return {*this, {IORING_OP_FSYNC, fd, 0, 0, 0, data_only ? IORING_FSYNC_DATASYNC : 0U}, options};
}

Operation Reactor::Fallocate(int fd, int mode, uint64_t offset, uint64_t size, const OpOptions& options) {
  return {*this, {IORING_OP_FALLOCATE, fd, offset, size, static_cast<uint32_t>(mode), 0}, options};
}

Operation Reactor::Recv(int fd, void* buffer, size_t size, int flags, const OpOptions& options) {
  return {*this, {IORING_OP_RECV, fd, 0, Address(buffer), Cut(size), static_cast<uint32_t>(flags)}, options};
}

Operation Reactor::Send(int fd, const void* buffer, size_t size, int flags, const OpOptions& options) {
  return {*this, {IORING_OP_SEND, fd, 0, Address(buffer), Cut(size), static_cast<uint32_t>(flags | MSG_NOSIGNAL)}, options};
}

Operation Reactor::Recvmsg(int fd, msghdr* message, int flags, const OpOptions& options) {
  return {*this, {IORING_OP_RECVMSG, fd, 0, Address(message), 1, static_cast<uint32_t>(flags)}, options};
}

Operation Reactor::Sendmsg(int fd, const msghdr* message, int flags, const OpOptions& options) {
  return {*this, {IORING_OP_SENDMSG, fd, 0, Address(message), 1, static_cast<uint32_t>(flags | MSG_NOSIGNAL)}, options};
}

Operation Reactor::Accept(int fd, const OpOptions& options) {
  return {*this, {IORING_OP_ACCEPT, fd, 0, 0, 0, SOCK_CLOEXEC}, options};
}

Operation Reactor::Connect(int fd, const sockaddr* address, socklen_t size, const OpOptions& options) {
  return {*this, {IORING_OP_CONNECT, fd, size, Address(address), 0, 0}, options};
}

Operation Reactor::Poll(int fd, uint32_t events, const OpOptions& options) {
  return {*this, {IORING_OP_POLL_ADD, fd, 0, 0, 0, events}, options};
}

}  // namespace forebay::rt
