// SPDX-License-Identifier: Apache-2.0
#include "fabric/secure_stream.h"

namespace forebay::fabric {

void SecureStream::Start(rt::Reactor& reactor, rt::Gate& gate, rt::CancelToken& life) {
  wire_->Start(reactor, gate, life);
  life_ = &life;
  sealed_.emplace(reactor);
  carried_.emplace(reactor);
  reactor.Spawn(gate, Carry());
}

rt::Task<Result<size_t>> SecureStream::Receive(std::span<const iovec> places, rt::CancelToken& operation) {
  while (!operation.cancelled()) {
    const Result<size_t> opened = channel_->Open(places);
    if (!channel_->outgoing().empty()) sealed_->Set();  // the protocol's own answers, or why it ends
    if (!opened.ok()) co_return opened.status().WithContext("receive from " + peer_);
    if (*opened != 0 || channel_->peer_ended()) co_return *opened;
    const MutableByteView room = channel_->incoming();
    if (room.empty()) {
      // Answers to the peer have to go first; a peer that does not take them is noticed by its silence.
      co_await carried_->Wait({&operation});
      continue;
    }
    const iovec place{room.data(), room.size()};
    FB_CO_ASSIGN(const size_t got, co_await wire_->Receive({&place, 1}, operation));
    if (got == 0)
      co_return Status::Unavailable("the connection to {} was cut: TLS had not come to its end", peer_);
    channel_->Received(got);
  }
  co_return Status::Cancelled("cancelled");
}

rt::Task<Result<size_t>> SecureStream::Send(std::span<const iovec> pieces, rt::CancelToken& operation) {
  size_t sealed = 0;
  while (sealed == 0) {
    if (operation.cancelled()) co_return Status::Cancelled("cancelled");
    FB_CO_TRY(broken_);
    FB_CO_ASSIGN(sealed, channel_->Seal(pieces));
    if (sealed == 0 && channel_->outgoing().empty())
      co_return Status::Internal("TLS to {} takes nothing to send", peer_);
    sealed_->Set();
    if (sealed == 0) co_await carried_->Wait({&operation});
  }
  while (!channel_->outgoing().empty() && broken_.ok() && !operation.cancelled())
    co_await carried_->Wait({&operation});
  co_return sealed;
}

rt::Task<void> SecureStream::Carry() {
  while (!life_->cancelled()) {
    const ByteView out = channel_->outgoing();
    if (out.empty()) {
      sealed_->Reset();
      co_await sealed_->Wait({life_});
      continue;
    }
    const iovec piece{const_cast<std::byte*>(out.data()), out.size()};  // only read
    carrying_ = true;
    const Result<size_t> sent = co_await wire_->Send({&piece, 1}, *life_);
    carrying_ = false;
    if (sent.ok()) {
      channel_->Sent(*sent);
    } else if (sent.status().code() != Code::kCancelled) {
      broken_ = sent.status();
    }
    WakeSenders();
    if (!broken_.ok()) break;
  }
}

void SecureStream::WakeSenders() {
  carried_->Set();
  carried_->Reset();
}

// Bytes that are in the wire's hands cannot be followed: then the end is a cut.
void SecureStream::Finish(ByteView last) {
  if (carrying_ || !broken_.ok()) return wire_->Finish({});
  const iovec piece{const_cast<std::byte*>(last.data()), last.size()};  // only read
  (void)channel_->Seal({&piece, 1});                                    // what does not fit is left out
  channel_->End();
  wire_->Finish(channel_->outgoing());
}

}  // namespace forebay::fabric
