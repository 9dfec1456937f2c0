// SPDX-License-Identifier: Apache-2.0
// Hostile peers that have a good certificate: the suite of all streams, inside of TLS; and connections that
// are cut.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "fabric/stream_hostile_suite.h"
#include "tls_fabric_fixture.h"

namespace forebay::fabric {
namespace {

Preamble Ours(Role role) {
  return {.role = role,
          .max_message_bytes = kRawMaxMessage,
          .max_transfer_bytes = kRawMaxTransfer,
          .max_transfers = kRawMaxTransfers};
}

/// A blocking socket with a channel on it, from Greet on.
class RawTls final : public RawStream {
 public:
  RawTls(int fd, std::unique_ptr<auth::TlsContext> context) : fd_(fd), context_(std::move(context)) {
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  }
  ~RawTls() override { Close(); }

  bool Greet(Role role) override {
    channel_ = *context_->Make();
    for (Result<bool> done = channel_->Handshake(); !(done.ok() && *done); done = channel_->Handshake())
      if (!done.ok() || !Flush() || !Fill()) return false;
    Bytes theirs(kPreambleBytes);
    if (role == Role::kConnector && !Send(EncodePreamble(Ours(role)))) return false;
    if (!ReadExactly(theirs)) return false;
    if (role == Role::kListener && !Send(EncodePreamble(Ours(role)))) return false;
    return DecodePreamble(theirs, role == Role::kListener ? Role::kConnector : Role::kListener).ok();
  }
  bool Send(ByteView bytes) override {
    if (channel_ == nullptr) return SendRaw(bytes);
    while (!bytes.empty()) {
      const iovec piece = auth::Piece(bytes);
      const auto sealed = channel_->Seal({&piece, 1});
      if (!sealed.ok() || !Flush()) return false;
      bytes = bytes.subspan(*sealed);
    }
    return Flush();
  }
  bool ReadExactly(MutableByteView out) override {
    while (!out.empty()) {
      const size_t size = std::min(out.size(), opened_.size());
      std::copy_n(opened_.begin(), size, out.begin());
      opened_.erase(opened_.begin(), opened_.begin() + static_cast<ptrdiff_t>(size));
      out = out.subspan(size);
      if (!out.empty() && !Open()) return false;
    }
    return true;
  }
  void AwaitReadable() override {
    std::byte first;
    if (channel_ != nullptr && opened_.empty()) (void)Open();
    while (channel_ == nullptr && recv(fd_, &first, 1, MSG_PEEK) < 0 && errno == EINTR) {
    }
  }
  void Close() override {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  bool Open() {
    Bytes piece(65'536);
    while (true) {
      const iovec place = auth::Piece(piece);
      const auto opened = channel_->Open({&place, 1});
      if (!opened.ok()) return false;
      opened_.insert(opened_.end(), piece.begin(), piece.begin() + static_cast<ptrdiff_t>(*opened));
      if (*opened != 0) return true;
      if (channel_->peer_ended() || !Fill()) return false;
    }
  }
  bool Fill() {
    const MutableByteView room = channel_->incoming();
    ssize_t got = -1;
    while ((got = recv(fd_, room.data(), room.size(), 0)) < 0 && errno == EINTR) {
    }
    if (got > 0) channel_->Received(static_cast<size_t>(got));
    return got > 0;
  }
  bool Flush() {
    while (!channel_->outgoing().empty()) {
      const size_t size = channel_->outgoing().size();
      if (!SendRaw(channel_->outgoing())) return false;
      channel_->Sent(size);
    }
    return true;
  }
  bool SendRaw(ByteView bytes) const {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return false;
      bytes = bytes.subspan(static_cast<size_t>(sent));
    }
    return true;
  }

  int fd_;
  const std::unique_ptr<auth::TlsContext> context_;
  std::unique_ptr<base::SecureChannel> channel_;
  Bytes opened_;
};

class RawTlsListener final : public RawListener {
 public:
  RawTlsListener() : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const auto any = *rt::SocketAddress::ParseHostPort("127.0.0.1:0");
    EXPECT_EQ(bind(fd_, any.get(), any.size()), 0);
    EXPECT_EQ(listen(fd_, 8), 0);
  }
  ~RawTlsListener() override { close(fd_); }
  std::string address() const override { return rt::SocketAddress::LocalOf(fd_)->ToString(); }
  std::unique_ptr<RawStream> Accept() override {
    return std::make_unique<RawTls>(accept(fd_, nullptr, nullptr), ServerTls());
  }

 private:
  const int fd_;
};

}  // namespace

std::unique_ptr<RawStream> DialRaw(const std::string& address) {
  const auto parsed = *rt::SocketAddress::ParseHostPort(address);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(fd, parsed.get(), parsed.size()), 0);
  return std::make_unique<RawTls>(fd, ClientTls());
}
std::unique_ptr<RawListener> ListenRaw() { return std::make_unique<RawTlsListener>(); }

namespace {

TEST_P(StreamHostileTest, AConnectionThatIsCutHasNotEnded) {
  RawPeer peer = RawPeer::Greeted(listener_->address());
  AcceptVictim();
  peer.Close();
  const Status status = ReceiveToEnd();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("was cut"), std::string_view::npos) << status.ToString();
  EndVictim();
  ServeGoodPeer();
}

const auto kName = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Tls, StreamHostileTest, testing::Values(TlsFactory()), kName);
INSTANTIATE_TEST_SUITE_P(Tls, StreamHostileServerTest, testing::Values(TlsFactory()), kName);

}  // namespace
}  // namespace forebay::fabric
