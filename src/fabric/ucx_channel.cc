// SPDX-License-Identifier: Apache-2.0
#include "fabric/ucx_channel.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/check.h"

namespace forebay::fabric {

namespace {

constexpr unsigned kMessageId = 1;
/// What may wait for a sink. A peer sends before its connection is accepted only what crosses the last step
/// of the greeting.
constexpr size_t kMaxEarlyBytes = 4 * base::kMiB;
/// How long UCX has to let go of a connection, before its worker is taken down under it.
constexpr base::Duration kCloseTime = std::chrono::seconds(2);

uint32_t Fields(uint32_t more) { return UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | more; }

}  // namespace

UcxChannel::UcxChannel(std::unique_ptr<UcxWorker> worker, std::string peer)
    : worker_(std::move(worker)), peer_(std::move(peer)) {}

UcxChannel::~UcxChannel() { FB_CHECK(worker_ == nullptr); }

Result<std::unique_ptr<UcxChannel>> UcxChannel::Dial(std::shared_ptr<UcxContext> context,
                                                     rt::Reactor& reactor, const rt::SocketAddress& address) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
  params.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
  params.sockaddr.addr = address.get();
  params.sockaddr.addrlen = address.size();
  FB_ASSIGN(auto worker, UcxWorker::Create(std::move(context)));
  return Make(std::move(worker), reactor, params, address.ToString());
}

Result<std::unique_ptr<UcxChannel>> UcxChannel::Take(std::unique_ptr<UcxWorker> worker, rt::Reactor& reactor,
                                                     ucp_conn_request_h request, std::string peer) {
  ucp_ep_params_t params{};
  params.field_mask = UCP_EP_PARAM_FIELD_CONN_REQUEST;
  params.conn_request = request;
  return Make(std::move(worker), reactor, params, std::move(peer));
}

Result<std::unique_ptr<UcxChannel>> UcxChannel::Make(std::unique_ptr<UcxWorker> worker, rt::Reactor& reactor,
                                                     ucp_ep_params_t params, std::string peer) {
  std::unique_ptr<UcxChannel> channel(new UcxChannel(std::move(worker), std::move(peer)));
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG | UCP_AM_HANDLER_PARAM_FIELD_FLAGS;
  handler.id = kMessageId;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = &OnMessage;
  handler.arg = channel.get();
  ucs_status_t status = ucp_worker_set_am_recv_handler(channel->worker_->handle(), &handler);
  params.field_mask |= UCP_EP_PARAM_FIELD_ERR_HANDLER | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {.cb = &OnError, .arg = channel.get()};
  if (status == UCS_OK) status = ucp_ep_create(channel->worker_->handle(), &params, &channel->endpoint_);
  if (status != UCS_OK) {
    channel->worker_.reset();
    return UcxError(status, "connect to " + channel->peer_);
  }
  channel->Run(reactor);
  return channel;
}

void UcxChannel::Run(rt::Reactor& reactor) {
  worker_->Start(reactor, [this] { Pump(); });
}

rt::Task<Result<UcxChannel::Received>> UcxChannel::Next(rt::OpOptions until) {
  while (early_.empty() && state_.ok()) {
    rt::CancelToken wait(until.token);
    waiting_ = &wait;
    const bool in_time = !co_await worker_->reactor().SleepUntil(until.deadline, &wait);
    waiting_ = nullptr;
    if (!early_.empty() || !state_.ok()) break;
    if (!in_time) co_return Status::DeadlineExceeded("{} said nothing until the deadline", peer_);
    if (until.token != nullptr && until.token->cancelled()) co_return Status::Cancelled("cancelled");
  }
  if (early_.empty()) co_return state_;
  Received received = std::move(early_.front());
  early_.pop_front();
  early_bytes_ -= received.header.size() + received.payload.size();
  co_return received;
}

rt::Task<bool> UcxChannel::Drain(rt::OpOptions until) {
  while (!queue_.empty() && state_.ok()) {
    rt::CancelToken wait(until.token);
    waiting_ = &wait;
    const bool in_time = !co_await worker_->reactor().SleepUntil(until.deadline, &wait);
    waiting_ = nullptr;
    if (!in_time || (until.token != nullptr && until.token->cancelled())) break;
  }
  co_return queue_.empty() && state_.ok();
}

rt::Task<bool> UcxChannel::Settle(rt::OpOptions until) {
  if (!co_await Drain(until)) co_return false;
  flushed_ = std::make_unique<EndCompletion>(worker_->reactor());
  const ucs_status_t status = Flush(*flushed_);
  co_return status == UCS_OK || (status == UCS_INPROGRESS && co_await flushed_->ended.Wait(until));
}

rt::Task<void> UcxChannel::Pause() { return worker_->Stop(); }

void UcxChannel::Resume(rt::Reactor& reactor, UcxSink& sink) {
  sink_ = &sink;
  while (!early_.empty()) {
    const Received received = std::move(early_.front());
    early_.pop_front();
    sink.OnFrame(received.header, received.payload);
  }
  early_bytes_ = 0;
  if (!state_.ok()) sink.OnBroken(state_);
  Run(reactor);
}

// ---- sending ----

void UcxChannel::Send(UcxFrame frame, Bytes head, std::vector<base::Buffer> payload, rt::Event* sent) {
  const bool answer = frame.type == UcxFrameType::kAnswer || frame.type == UcxFrameType::kProbeAnswer ||
                      frame.type == UcxFrameType::kRevoked;
  if (answer) ++owed_;
  Outgoing out{{}, std::move(head), std::move(payload), {}, sent, answer};
  size_t length = out.head.size();
  if (length != 0) out.pieces.push_back({out.head.data(), length});
  for (const base::Buffer& buffer : out.payload) {
    if (buffer.empty()) continue;
    out.pieces.push_back({const_cast<std::byte*>(buffer.data()), buffer.size()});  // only read
    length += buffer.size();
  }
  frame.sequence = next_sequence_++;
  frame.length = static_cast<uint32_t>(length);
  out.header = EncodeUcxFrame(frame);
  queue_.push_back(std::move(out));
  if (!worker_->in_callback()) Pump();
}

void UcxChannel::Pump() {
  while (!sending_ && !queue_.empty() && state_.ok()) {
    const ucs_status_t status = SendFront();
    worker_->Kick();
    if (status == UCS_INPROGRESS) {
      sending_ = true;
    } else if (status == UCS_OK) {
      PopFront();
    } else {
      Broke(UcxError(status, "send to " + peer_));
    }
  }
}

ucs_status_t UcxChannel::SendFront() {
  Outgoing& out = queue_.front();
  ucp_request_param_t params{};
  params.op_attr_mask = Fields(UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_DATATYPE);
  params.flags = UCP_AM_SEND_FLAG_EAGER;
  params.cb.send = &OnOperation;
  params.user_data = static_cast<UcxCompletion*>(&sent_);
  const void* data = out.pieces.data();
  size_t count = out.pieces.size();
  params.datatype = ucp_dt_make_iov();
  if (count <= 1) {
    params.datatype = ucp_dt_make_contig(1);
    data = count == 0 ? nullptr : out.pieces[0].buffer;
    count = count == 0 ? 0 : out.pieces[0].length;
  }
  return Started(
      ucp_am_send_nbx(endpoint_, kMessageId, out.header.data(), out.header.size(), data, count, &params));
}

void UcxChannel::OnSent(ucs_status_t status) {
  sending_ = false;
  PopFront();
  if (status != UCS_OK) Broke(UcxError(status, "send to " + peer_));
}

void UcxChannel::PopFront() {
  if (queue_.front().sent != nullptr) queue_.front().sent->Set();
  if (queue_.front().answer) --owed_;
  queue_.pop_front();
  if (queue_.empty() && waiting_ != nullptr) waiting_->Cancel();
}

ucs_status_t UcxChannel::Started(ucs_status_ptr_t request) {
  if (request == nullptr) return UCS_OK;
  return UCS_PTR_IS_ERR(request) ? UCS_PTR_STATUS(request) : UCS_INPROGRESS;
}

// ---- one-sided ----

ucs_status_t UcxChannel::Put(ByteView data, uint64_t remote, ucp_rkey_h key, UcxCompletion& completion) {
  ucp_request_param_t params{};
  params.op_attr_mask = Fields(UCP_OP_ATTR_FIELD_MEMORY_TYPE);
  params.memory_type = UCS_MEMORY_TYPE_HOST;
  params.cb.send = &OnOperation;
  params.user_data = &completion;
  worker_->Kick();
  return Started(ucp_put_nbx(endpoint_, data.data(), data.size(), remote, key, &params));
}

ucs_status_t UcxChannel::Get(MutableByteView data, uint64_t remote, ucp_rkey_h key,
                             UcxCompletion& completion) {
  ucp_request_param_t params{};
  params.op_attr_mask = Fields(UCP_OP_ATTR_FIELD_MEMORY_TYPE);
  params.memory_type = UCS_MEMORY_TYPE_HOST;
  params.cb.send = &OnOperation;
  params.user_data = &completion;
  worker_->Kick();
  return Started(ucp_get_nbx(endpoint_, data.data(), data.size(), remote, key, &params));
}

ucs_status_t UcxChannel::Flush(UcxCompletion& completion) {
  ucp_request_param_t params{};
  params.op_attr_mask = Fields(0);
  params.cb.send = &OnOperation;
  params.user_data = &completion;
  worker_->Kick();
  return Started(ucp_ep_flush_nbx(endpoint_, &params));
}

Result<ucp_rkey_h> UcxChannel::Unpack(ByteView packed) {
  ucp_rkey_h key = nullptr;
  const ucs_status_t status = ucp_ep_rkey_unpack(endpoint_, packed.data(), &key);
  if (status != UCS_OK) return UcxError(status, "unpack a key of " + peer_);
  return key;
}

// ---- what UCX tells ----

ucs_status_t UcxChannel::OnMessage(void* self, const void* header, size_t header_bytes, void* data,
                                   size_t bytes, const ucp_am_recv_param_t* param) {
  auto& channel = *static_cast<UcxChannel*>(self);
  if ((param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) {
    channel.Broke(Status::InvalidArgument("{} broke the protocol: a message by rendezvous", channel.peer_));
    return UCS_OK;
  }
  channel.OnFrame({static_cast<const std::byte*>(header), header_bytes},
                  {static_cast<const std::byte*>(data), bytes});
  return UCS_OK;
}

void UcxChannel::OnError(void* self, ucp_ep_h, ucs_status_t status) {
  auto& channel = *static_cast<UcxChannel*>(self);
  channel.Broke(Status::Unavailable("the connection to {} ended: {}", channel.peer_,
                                    UcxError(status, "ucx").message()));
}

void UcxChannel::OnOperation(void* request, ucs_status_t status, void* completion) {
  ucp_request_free(request);
  static_cast<UcxCompletion*>(completion)->OnDone(status);
}

void UcxChannel::OnFrame(ByteView header, ByteView payload) {
  if (!state_.ok()) return;
  if (sink_ != nullptr) {
    sink_->OnFrame(header, payload);
    return;
  }
  early_bytes_ += header.size() + payload.size();
  if (early_bytes_ > kMaxEarlyBytes) {
    Broke(Status::ResourceExhausted("{} sent more than {} bytes before it was accepted", peer_,
                                    kMaxEarlyBytes));
    return;
  }
  early_.push_back({Bytes(header.begin(), header.end()), Bytes(payload.begin(), payload.end())});
  if (waiting_ != nullptr) waiting_->Cancel();
}

void UcxChannel::Broke(Status why) {
  if (!state_.ok()) return;
  state_ = std::move(why);
  if (waiting_ != nullptr) waiting_->Cancel();
  if (sink_ != nullptr) sink_->OnBroken(state_);
}

// ---- the end ----

rt::Task<void> UcxChannel::Close(rt::MoveOnlyFunction before_worker_ends) {
  if (worker_ == nullptr) co_return;
  if (state_.ok()) state_ = Status::Unavailable("the connection to {} was closed", peer_);
  if (worker_->running()) {
    rt::Reactor& reactor = worker_->reactor();
    EndCompletion done(reactor);
    ucp_request_param_t params{};
    params.op_attr_mask = Fields(UCP_OP_ATTR_FIELD_FLAGS);
    params.flags = UCP_EP_CLOSE_FLAG_FORCE;
    params.cb.send = &OnOperation;
    params.user_data = static_cast<UcxCompletion*>(&done);
    worker_->Kick();
    const ucs_status_t status = Started(ucp_ep_close_nbx(std::exchange(endpoint_, nullptr), &params));
    if (status == UCS_INPROGRESS) {
      (void)co_await done.ended.Wait({nullptr, base::DeadlineAfter(reactor.Now(), kCloseTime)});
    }
    co_await worker_->Stop();
    if (before_worker_ends) before_worker_ends();
    worker_.reset();  // before `done` goes: whatever is left under way ends here
  } else {
    if (before_worker_ends) before_worker_ends();
    worker_.reset();
  }
  endpoint_ = nullptr;
  for (Outgoing& out : queue_) {
    if (out.sent != nullptr) out.sent->Set();
  }
  queue_.clear();
  early_.clear();
}

}  // namespace forebay::fabric
