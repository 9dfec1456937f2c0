// SPDX-License-Identifier: Apache-2.0
// RawShm: the blocking other end of an shm connection, for tests of hostile peers, and RawShmListener: it can greet well or
// badly, speak through the rings, and write anything at all to its own shared memory. For tests only; used on
// one thread.
#pragma once

#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "fabric/shm_descriptors.h"
#include "fabric/shm_hello.h"
#include "fabric/shm_memory.h"
#include "fabric/shm_ring.h"
#include "fabric/shm_socket.h"
#include "fabric/stream_hostile_suite.h"

namespace forebay::fabric {

inline constexpr uint32_t kRawRingBytes = 1 << 20;
inline constexpr size_t kRawMemoryBytes = kShmControlBytes + kRawRingBytes;

inline ShmHello RawHello(Role role, bool borrows = false, uint16_t keeps = 0) {
  return {.role = role,
          .max_message_bytes = kRawMaxMessage,
          .max_transfer_bytes = kRawMaxTransfer,
          .max_transfers = kRawMaxTransfers,
          .ring_bytes = kRawRingBytes,
          .borrows = borrows,
          .keeps = keeps};
}

/// Makes only system calls, so a child between fork and its end may use it too.
inline bool SendWithDescriptors(int socket, ByteView bytes, std::span<const int> descriptors) {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(16 * sizeof(int))> control{};
  iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  return sendmsg(socket, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
}

class RawShm final : public RawStream {
 public:
  explicit RawShm(int fd) : fd_(fd), own_(*CreateShm(kRawMemoryBytes)) {
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }
  ~RawShm() override { Close(); }

  static std::unique_ptr<RawShm> Dial(const std::string& address) {
    const auto parsed = *ShmAddress::Parse(address);
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(fd, parsed.get(), parsed.size()), 0);
    return std::make_unique<RawShm>(fd);
  }

  bool Greet(Role role) override {
    const Role other = role == Role::kListener ? Role::kConnector : Role::kListener;
    const int memory = own_.descriptor.fd();
    const ShmHelloBytes hello = EncodeShmHello(RawHello(role, borrows_, keeps_));
    if (role == Role::kConnector && !SendWithDescriptors(fd_, hello, {&memory, 1})) return false;
    if (!ReceiveHello(other)) return false;
    if (role == Role::kListener && !SendWithDescriptors(fd_, hello, {&memory, 1})) return false;
    writer_ = std::make_unique<ShmRingWriter>(own_.mapping.writable(), peer_.bytes());
    reader_ = std::make_unique<ShmRingReader>(own_.mapping.writable(), peer_.bytes());
    return true;
  }
  bool Send(ByteView bytes) override {
    if (writer_ == nullptr) return SendWithDescriptors(fd_, bytes, {});
    while (!bytes.empty()) {
      const size_t room = *writer_->Room();
      const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
      bytes = bytes.subspan(writer_->Put({&piece, 1}, 0, room));
      if (writer_->PeerAwaitsData()) Ring();
      if (bytes.empty()) break;
      writer_->StartWait();
      const bool alive = *writer_->Room() != 0 || AwaitBell();
      writer_->EndWait();
      if (!alive) return false;
    }
    return !hung_up_;
  }
  bool ReadExactly(MutableByteView out) override {
    if (reader_ == nullptr)
      return recv(fd_, out.data(), out.size(), MSG_WAITALL) == static_cast<ssize_t>(out.size());
    while (!out.empty()) {
      AwaitReadable();
      const size_t available = *reader_->Available();
      if (available == 0) return false;
      const iovec place{out.data(), out.size()};
      out = out.subspan(reader_->Take({&place, 1}, 0, available));
      if (reader_->PeerAwaitsRoom()) Ring();
    }
    return true;
  }
  /// Returns at the end of the peer as well.
  void AwaitReadable() override {
    if (reader_ == nullptr) {
      pollfd readable{fd_, POLLIN, 0};
      poll(&readable, 1, 20'000);
      return;
    }
    while (*reader_->Available() == 0 && !hung_up_) {
      reader_->StartWait();
      if (*reader_->Available() == 0) AwaitBell();
      reader_->EndWait();
    }
  }
  void Close() override {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

  /// Before Greet: it says that it takes loans, and keeps descriptors of so many.
  void Borrow(uint16_t keeps = 0) {
    borrows_ = true;
    keeps_ = keeps;
  }
  bool SendFrame(const FrameHeader& header, ByteView payload) {
    return Send(EncodeHeader(header)) && Send(payload);
  }
  int fd() const { return fd_; }
  int memory_fd() const { return own_.descriptor.fd(); }
  ShmControl& control() { return *reinterpret_cast<ShmControl*>(own_.mapping.writable().data()); }
  MutableByteView memory() { return own_.mapping.writable(); }
  ByteView peer_memory() const { return peer_.bytes(); }
  void Ring() { (void)!send(fd_, "r", 1, MSG_DONTWAIT | MSG_NOSIGNAL); }
  /// False at the end of the other side.
  bool AwaitBell() {
    char rings[64];
    DescriptorMessage message(rings, sizeof(rings));
    ssize_t got = 0;
    while ((got = recvmsg(fd_, &message.header, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
    }
    if (got <= 0) hung_up_ = true;
    if (got > 0) message.Collect(descriptors_);
    return !hung_up_;
  }
  /// What was passed with a ring; waits for it.
  Socket TakeDescriptor() {
    while (descriptors_.empty() && AwaitBell()) {
    }
    if (descriptors_.empty()) return Socket();
    Socket first = std::move(descriptors_.front());
    descriptors_.erase(descriptors_.begin());
    return first;
  }
  /// Rings with these descriptors.
  bool Pass(std::span<const int> descriptors) {
    return SendWithDescriptors(fd_, Bytes(1), descriptors);
  }
  /// Takes the other side's hello and maps its memory.
  bool ReceiveHello(Role expected) {
    ShmHelloBytes bytes;
    alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
    iovec piece{bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    ssize_t got = 0;
    while ((got = recvmsg(fd_, &message, MSG_WAITALL | MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
    }
    const cmsghdr* header = CMSG_FIRSTHDR(&message);
    if (got != static_cast<ssize_t>(bytes.size()) || header == nullptr) return false;
    int memory = -1;
    std::memcpy(&memory, CMSG_DATA(header), sizeof(memory));
    const Socket owned(memory);
    const auto hello = DecodeShmHello(bytes, expected);
    if (!hello.ok()) return false;
    auto mapped = MapPeerShm(memory, kShmControlBytes + hello->ring_bytes);
    if (!mapped.ok()) return false;
    peer_ = *std::move(mapped);
    return true;
  }

 private:
  int fd_;
  ShmMemory own_;
  ShmMapping peer_;
  std::unique_ptr<ShmRingWriter> writer_;
  std::unique_ptr<ShmRingReader> reader_;
  bool borrows_ = false;
  uint16_t keeps_ = 0;
  std::vector<Socket> descriptors_;  // passed to us
  bool hung_up_ = false;
};

class RawShmListener final : public RawListener {
 public:
  RawShmListener() : fd_(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto any = *ShmAddress::Parse("@");
    EXPECT_EQ(bind(fd_, any.get(), any.size()), 0);
    EXPECT_EQ(listen(fd_, 8), 0);
  }
  ~RawShmListener() override { close(fd_); }
  int fd() const { return fd_; }
  std::string address() const override {
    sockaddr_un bound{};
    socklen_t size = sizeof(bound);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&bound), &size);
    return ShmAddress::Of(bound, size).text();
  }
  std::unique_ptr<RawStream> Accept() override {
    return std::make_unique<RawShm>(accept(fd_, nullptr, nullptr));
  }

 private:
  const int fd_;
};

}  // namespace forebay::fabric
