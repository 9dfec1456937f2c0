// SPDX-License-Identifier: Apache-2.0
#include "fabric/ucx_greeting.h"

#include <utility>

#include "fabric/limits.h"

namespace forebay::fabric {

namespace {

Bytes HelloOf(const EndpointOptions& options, UcxRole role) {
  const UcxHelloBytes bytes =
      EncodeUcxHello({.role = role,
                      .max_message_bytes = static_cast<uint32_t>(options.max_message_bytes),
                      .max_transfer_bytes = static_cast<uint32_t>(options.max_transfer_bytes),
                      .max_transfers = options.max_transfers,
                      .max_regions = options.max_regions});
  return Bytes(bytes.begin(), bytes.end());
}

void SayHello(UcxChannel& channel, const EndpointOptions& options, UcxRole role) {
  channel.Send({.type = UcxFrameType::kHello}, HelloOf(options, role), {}, nullptr);
}

rt::Task<Result<UcxHello>> ReceiveHello(UcxChannel& channel, UcxRole expected, rt::OpOptions until) {
  FB_CO_ASSIGN(const UcxChannel::Received received, co_await channel.Next(until));
  FB_CO_ASSIGN(const UcxFrame frame, DecodeUcxFrame(received.header, received.payload.size(), 0));
  if (frame.type != UcxFrameType::kHello || frame.sequence != 0) {
    co_return Status::InvalidArgument("the peer's first frame is no HELLO");
  }
  co_return DecodeUcxHello(received.payload, expected);
}

UcxGreeted Agreed(std::unique_ptr<UcxChannel> channel, std::shared_ptr<UcxContext> context,
                  const EndpointOptions& own, const UcxHello& peer) {
  EndpointOptions theirs;
  theirs.max_message_bytes = peer.max_message_bytes;
  theirs.max_transfer_bytes = peer.max_transfer_bytes;
  theirs.max_transfers = peer.max_transfers;
  return {std::move(channel), std::move(context), CommonLimits(own, theirs), peer.max_regions};
}

rt::Task<Result<UcxHello>> Dial(UcxChannel& channel, EndpointOptions options, rt::OpOptions until) {
  SayHello(channel, options, UcxRole::kConnector);
  FB_CO_ASSIGN(const UcxHello hello, co_await ReceiveHello(channel, UcxRole::kListener, until));
  FB_CO_TRY(channel.Verify());
  co_return hello;
}

rt::Task<Result<UcxHello>> Answer(UcxChannel& channel, EndpointOptions options, rt::OpOptions until) {
  auto hello = co_await ReceiveHello(channel, UcxRole::kConnector, until);
  if (hello.ok()) FB_CO_TRY(channel.Verify());
  // Answered also when the version does not fit, so that the connector can say what is wrong; a stranger gets
  // nothing.
  if (hello.ok() || hello.status().code() == Code::kFailedPrecondition) {
    SayHello(channel, options, UcxRole::kListener);
    if (!co_await channel.Drain(until))
      co_return Status::Unavailable("the connector takes no answer to its HELLO");
  }
  co_return hello;
}

}  // namespace

rt::Task<Result<UcxGreeted>> DialUcx(rt::Reactor& reactor, std::shared_ptr<UcxContext> context,
                                     rt::SocketAddress address, EndpointOptions options,
                                     rt::OpOptions until) {
  FB_CO_ASSIGN(auto channel, UcxChannel::Dial(context, reactor, address));
  const auto hello = co_await Dial(*channel, options, until);
  if (!hello.ok()) {
    co_await channel->Close(nullptr);
    co_return hello.status().WithContext("connect to " + address.ToString());
  }
  co_await channel->Pause();
  co_return Agreed(std::move(channel), std::move(context), options, *hello);
}

rt::Task<Result<UcxGreeted>> GreetUcxConnector(std::unique_ptr<UcxChannel> channel,
                                               std::shared_ptr<UcxContext> context, EndpointOptions options,
                                               rt::OpOptions until) {
  const auto hello = co_await Answer(*channel, options, until);
  if (!hello.ok()) {
    co_await channel->Close(nullptr);
    co_return hello.status();
  }
  co_await channel->Pause();
  co_return Agreed(std::move(channel), std::move(context), options, *hello);
}

}  // namespace forebay::fabric
