// SPDX-License-Identifier: Apache-2.0
#include "fabric/shm_stream.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <iterator>
#include <utility>

#include "fabric/shm_descriptors.h"

namespace forebay::fabric {

namespace {

size_t TotalOf(std::span<const iovec> pieces) {
  size_t total = 0;
  for (const iovec& piece : pieces) total += piece.iov_len;
  return total;
}

}  // namespace

ShmByteStream::ShmByteStream(Socket socket, ShmMapping own, ShmMapping peer, std::string name, Loans loans)
    : socket_(std::move(socket)),
      own_(std::move(own)),
      peer_(std::move(peer)),
      name_(std::move(name)),
      loans_(loans),
      writer_(own_.writable(), peer_.bytes()),
      reader_(own_.writable(), peer_.bytes()) {}

void ShmByteStream::Start(rt::Reactor& reactor, rt::Gate& gate, rt::CancelToken& life) {
  reactor_ = &reactor;
  life_ = &life;
  rung_.emplace(reactor);
  reactor.Spawn(gate, ListenForBell());
}

rt::Task<Result<size_t>> ShmByteStream::Receive(std::span<const iovec> places, rt::CancelToken& operation) {
  const size_t wanted = TotalOf(places);
  while (true) {
    co_await TakeTurns();
    if (operation.cancelled()) co_return Status::Cancelled("cancelled");
    if (flooded_) co_return Status::InvalidArgument("{} passed descriptors that it did not announce", name_);
    auto available = reader_.Available();
    if (!available.ok()) co_return Lied(available.status());
    if (*available == 0 && hung_up_) co_return 0;
    size_t done = 0;
    while (done < wanted && *available != 0 && copied_ < kTurnBytes) {
      const size_t taken = reader_.Take(places, done, *available);
      done += taken;
      *available -= taken;
      copied_ += taken;
      if (reader_.PeerAwaitsRoom()) Ring();
    }
    if (done != 0) co_return done;
    reader_.StartWait();
    available = reader_.Available();
    if (available.ok() && *available == 0 && !flooded_) co_await rung_->Wait({&operation});
    reader_.EndWait();
    copied_ = 0;
  }
}

rt::Task<Result<size_t>> ShmByteStream::Send(std::span<const iovec> pieces, rt::CancelToken& operation) {
  const size_t wanted = TotalOf(pieces);
  while (true) {
    co_await TakeTurns();
    if (operation.cancelled()) co_return Status::Cancelled("cancelled");
    auto room = writer_.Room();
    if (!room.ok()) co_return Lied(room.status());
    size_t done = 0;
    while (done < wanted && *room != 0 && copied_ < kTurnBytes) {
      const size_t put = writer_.Put(pieces, done, *room);
      done += put;
      *room -= put;
      copied_ += put;
      if (writer_.PeerAwaitsData()) Ring();
    }
    if (done != 0) co_return done;
    // A peer that hung up makes no room: the receiving side notices, and ends this wait.
    writer_.StartWait();
    room = writer_.Room();
    if (room.ok() && *room == 0) co_await rung_->Wait({&operation});
    writer_.EndWait();
    copied_ = 0;
  }
}

rt::Task<void> ShmByteStream::TakeTurns() {
  if (copied_ < kTurnBytes) co_return;
  co_await reactor_->Yield();
  copied_ = 0;
}

void ShmByteStream::Finish(ByteView last) {
  const auto room = writer_.Room();
  if (!last.empty() && room.ok() && *room >= last.size()) {
    const iovec piece{const_cast<std::byte*>(last.data()), last.size()};  // only read
    writer_.Put({&piece, 1}, 0, *room);
  }
  shutdown(socket_.fd(), SHUT_WR);  // wakes the peer as well
}

void ShmByteStream::Close() {
  own_.Unmap();
  peer_.Unmap();
  socket_.Close();
  descriptors_.clear();
}

// Never waits: a socket that is full of rings will wake the peer, one that is broken is noticed where it is
// listened to.
void ShmByteStream::Ring() {
  const char byte = 0;
  (void)!send(socket_.fd(), &byte, sizeof(byte), MSG_DONTWAIT | MSG_NOSIGNAL);
}

rt::Task<void> ShmByteStream::ListenForBell() {
  std::array<std::byte, 256> rings;
  while (!hung_up_ && !flooded_) {
    DescriptorMessage message(rings.data(), rings.size());
    if (!loans_.takes) message.RefuseDescriptors();
    const int got = co_await reactor_->Recvmsg(socket_.fd(), &message.header, MSG_CMSG_CLOEXEC, {life_});
    if (got == -EINTR) continue;
    if (got == -ECANCELED) break;
    if (got <= 0) {
      hung_up_ = true;
      reader_.Freeze();
    } else if (loans_.takes) {
      std::vector<Socket> descriptors;
      const bool had_room = message.Collect(descriptors);
      flooded_ = !TakeIn(std::move(descriptors)) || !had_room;
    }
    rung_->Set();
    rung_->Reset();
  }
}

bool ShmByteStream::TakeIn(std::vector<Socket> descriptors) {
  if (descriptors_.size() + descriptors.size() > kMaxDescriptors) return false;
  std::ranges::move(descriptors, std::back_inserter(descriptors_));
  return true;
}

bool ShmByteStream::PassDescriptor(int fd) {
  char ring = 0;
  DescriptorMessage message(&ring, sizeof(ring));
  message.Attach(fd);
  return loans_.passes && sendmsg(socket_.fd(), &message.header, MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(ring);
}

rt::Task<Result<Socket>> ShmByteStream::ReceiveDescriptor() {
  while (descriptors_.empty()) {
    if (hung_up_ || flooded_) co_return Status::Unavailable("{} passes no more descriptors", name_);
    if (!co_await rung_->Wait({life_})) co_return Status::Cancelled("cancelled");
  }
  Socket first = std::move(descriptors_.front());
  descriptors_.pop_front();
  co_return first;
}

Status ShmByteStream::Lied(const Status& how) const { return how.WithContext(name_); }

}  // namespace forebay::fabric
