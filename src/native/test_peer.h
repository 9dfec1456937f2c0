// SPDX-License-Identifier: Apache-2.0
// TestPeer: a client of the data plane that does exactly what a test says, right or wrong. For native's tests
// only. Reactor-local.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>

#include "auth/mac.h"
#include "auth/session_table.h"
#include "fabric/fabric.h"
#include "wire/message.h"

namespace forebay::native {

class TestPeer {
 public:
  struct Answer {
    Bytes bytes;
    wire::MessageView view;  // of bytes
  };

  TestPeer(std::unique_ptr<fabric::Endpoint> connected, const auth::OpenedSession& session)
      : endpoint(std::move(connected)), id(session.id), mac_(session.key.view()) {}

  /// The next header, with a fresh counter and request number.
  wire::Header Next(wire::Type type) {
    return {.type = type, .session = id, .counter = ++counter, .tenant = tenant, .request = ++request};
  }
  void Sign(Bytes& message, size_t payload_bytes = 0) const {
    std::ranges::fill(wire::MacOf(message), std::byte{0});
    const auto tag = mac_.Compute(wire::SignedPart(message, payload_bytes));
    std::copy_n(tag.begin(), wire::kMacBytes, wire::MacOf(message).begin());
  }
  template <typename Body>
  Bytes Make(const wire::Header& header, const Body& body, ByteView payload = {}) const {
    Bytes message = wire::EncodeMessage(header, body, payload);
    Sign(message, payload.size());
    return message;
  }

  /// The next message of the server, whose MAC and counter are right.
  rt::Task<Result<Answer>> Receive() {
    Result<Bytes> bytes = co_await endpoint->Receive();
    if (!bytes.ok()) co_return bytes.status();
    Answer answer{.bytes = *std::move(bytes), .view = {}};
    FB_CO_ASSIGN(answer.view, wire::DecodeMessage(answer.bytes));
    Bytes tag(wire::kMacBytes);
    std::ranges::copy(wire::MacOf(answer.bytes), tag.begin());
    std::ranges::fill(wire::MacOf(answer.bytes), std::byte{0});
    if (!mac_.Verify(tag, wire::SignedPart(answer.bytes, answer.view.payload.size())))
      co_return Status::Internal("the server's MAC is wrong");
    if (answer.view.header.counter != ++received_)
      co_return Status::Internal("the server's counter is wrong");
    co_return answer;
  }
  /// Sends and gives the answer of that request: errors of the server come as a Status.
  rt::Task<Result<Answer>> Exchange(Bytes message, uint64_t number) {
    FB_CO_TRY(co_await endpoint->Send(std::move(message)));
    FB_CO_ASSIGN(Answer answer, co_await Receive());
    if (answer.view.header.request != number) co_return Status::Internal("an answer to something else");
    if (answer.view.header.status == Code::kOk) co_return answer;
    FB_CO_ASSIGN(const wire::ErrorReply error, wire::DecodeBody<wire::ErrorReply>(answer.view.body));
    co_return Status(answer.view.header.status, std::string(error.message));
  }
  template <typename Body>
  rt::Task<Result<Answer>> Call(wire::Type type, Body body, ByteView payload = {}) {
    const wire::Header header = Next(type);
    return Exchange(Make(header, body, payload), header.request);
  }
  rt::Task<Status> Hello() {
    const auto answer = co_await Call(wire::Type::kHello, wire::HelloRequest{"test"});
    co_return answer.status();
  }
  /// Offers `memory`, for the server to write into or to read from.
  wire::RegionRef Offer(MutableByteView memory, fabric::Direction direction) {
    const auto token = endpoint->Offer(memory, direction, base::kNever);
    return {
        .key = token->key, .length = token->length, .writable = direction == fabric::Direction::kPeerWrites};
  }

  const std::unique_ptr<fabric::Endpoint> endpoint;
  const uint64_t id;
  TenantId tenant = TenantId::kRoot;
  uint64_t counter = 0;
  uint64_t request = 0;

 private:
  const auth::MessageMac mac_;
  uint64_t received_ = 0;
};

}  // namespace forebay::native
