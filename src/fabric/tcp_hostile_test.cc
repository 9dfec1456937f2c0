// SPDX-License-Identifier: Apache-2.0
// Hostile peers on a socket: the suite of all streams, and what may go wrong before the first frame.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "fabric/stream_hostile_suite.h"
#include "fabric/stream_listener.h"
#include "fabric/tcp_fabric.h"

namespace forebay::fabric {
namespace {

Preamble Ours(Role role) {
  return {.role = role,
          .max_message_bytes = kRawMaxMessage,
          .max_transfer_bytes = kRawMaxTransfer,
          .max_transfers = kRawMaxTransfers};
}

class RawSocket final : public RawStream {
 public:
  explicit RawSocket(int fd) : fd_(fd) {
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  }
  ~RawSocket() override { Close(); }

  bool Greet(Role role) override {
    Bytes theirs(kPreambleBytes);
    if (role == Role::kConnector && !Send(EncodePreamble(Ours(role)))) return false;
    if (!ReadExactly(theirs)) return false;
    if (role == Role::kListener && !Send(EncodePreamble(Ours(role)))) return false;
    return DecodePreamble(theirs, role == Role::kListener ? Role::kConnector : Role::kListener).ok();
  }
  bool Send(ByteView bytes) override {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return false;
      bytes = bytes.subspan(static_cast<size_t>(sent));
    }
    return true;
  }
  bool ReadExactly(MutableByteView out) override {
    while (!out.empty()) {
      const ssize_t got = recv(fd_, out.data(), out.size(), 0);
      if (got < 0 && errno == EINTR) continue;  // the end of an earlier test's ring may interrupt this thread
      if (got <= 0) return false;
      out = out.subspan(static_cast<size_t>(got));
    }
    return true;
  }
  void AwaitReadable() override {
    std::byte first;
    while (recv(fd_, &first, 1, MSG_PEEK) < 0 && errno == EINTR) {
    }
  }
  void Close() override {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }
  /// Ends without a goodbye of TCP's: what is on its way is dropped.
  void Reset() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &at_once, sizeof(at_once));
    Close();
  }

 private:
  int fd_;
};

class RawTcpListener final : public RawListener {
 public:
  RawTcpListener() : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(listen(fd_, 8), 0);
  }
  ~RawTcpListener() override { close(fd_); }
  std::string address() const override { return rt::SocketAddress::LocalOf(fd_)->ToString(); }
  std::unique_ptr<RawStream> Accept() override {
    return std::make_unique<RawSocket>(accept(fd_, nullptr, nullptr));
  }

 private:
  const int fd_;
};

std::unique_ptr<RawSocket> DialSocket(const std::string& address) {
  const auto parsed = *rt::SocketAddress::ParseHostPort(address);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  EXPECT_EQ(connect(fd, parsed.get(), parsed.size()), 0);
  return std::make_unique<RawSocket>(fd);
}

}  // namespace

std::unique_ptr<RawStream> DialRaw(const std::string& address) { return DialSocket(address); }
std::unique_ptr<RawListener> ListenRaw() { return std::make_unique<RawTcpListener>(); }

namespace {

TEST_P(StreamHostileTest, PreamblesCutAtEveryByteDoNoHarm) {
  const PreambleBytes preamble = EncodePreamble(Ours(Role::kConnector));
  for (size_t length = 0; length < kPreambleBytes; ++length) {
    RawPeer peer = RawPeer::Connect(listener_->address());
    peer.Send(ByteView(preamble).first(length));
    peer.Close();
  }
  ServeGoodPeer();
}

// ---- before the first frame ----

TEST_P(StreamHostileTest, StrangersAndWrongPreamblesAreTurnedAway) {
  Bytes other_role(kPreambleBytes);
  std::ranges::copy(EncodePreamble(Ours(Role::kListener)), other_role.begin());
  Bytes broken = other_role;
  broken[39] ^= std::byte{1};
  const std::string http = "GET / HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/7.88.1\r\n\r\n";
  const Bytes zeros(4000);
  for (ByteView bytes : {ByteView(other_role), ByteView(broken), AsBytes(http), ByteView(zeros)}) {
    RawPeer peer = RawPeer::Connect(listener_->address());
    peer.Send(bytes);
    Bytes answer(1);
    EXPECT_FALSE(peer.ReadExactly(answer));
  }
  ServeGoodPeer();
}

TEST_P(StreamHostileTest, AnotherVersionGetsOurPreambleAndNoMore) {
  RawPeer peer = RawPeer::Connect(listener_->address());
  Preamble preamble = Ours(Role::kConnector);
  preamble.version = 9;
  peer.Send(EncodePreamble(preamble));
  Bytes answer(kPreambleBytes), more(1);
  EXPECT_TRUE(peer.ReadExactly(answer));
  EXPECT_EQ(DecodePreamble(answer, Role::kListener)->version, kTcpVersion);
  EXPECT_FALSE(peer.ReadExactly(more));
  ServeGoodPeer();
}

TEST_P(StreamHostileTest, SilentConnectionsNeitherHoldUpOthersNorStay) {
  std::vector<RawPeer> silent;
  for (size_t i = 0; i < StreamListener::kMaxWaiting + 50; ++i) {
    silent.push_back(RawPeer::Connect(listener_->address()));
    silent.back().Send(Bytes(1, std::byte{0x46}));
  }
  ServeGoodPeer();
  // Whoever was not pushed out by others goes when the time for a preamble is over.
  Advance(kOptions.dead_after);
  for (RawPeer& peer : silent) {
    Bytes answer(1);
    EXPECT_FALSE(peer.ReadExactly(answer));
  }
  ServeGoodPeer();
}

// In turns: before a word, within the preamble, greeted but not accepted, and in the middle of a write.
TEST_P(StreamHostileTest, ThousandConnectionsThatAreResetLeaveNothing) {
  ServeGoodPeer();
  const size_t descriptors = OpenDescriptors();
  const PreambleBytes preamble = EncodePreamble(Ours(Role::kConnector));
  Bytes region(3 * 4096, std::byte{0xEE});
  for (int round = 0; round < 1000; ++round) {
    const int stage = round % 4;
    const auto peer = DialSocket(listener_->address());
    if (stage == 1) ASSERT_TRUE(peer->Send(ByteView(preamble).first(17)));
    if (stage >= 2) ASSERT_TRUE(peer->Greet(Role::kConnector));
    if (stage == 3) {
      AcceptVictim();
      const RegionToken token = Offer(MutableByteView(region).subspan(4096, 4096), Direction::kPeerWrites);
      ASSERT_TRUE(peer->Send(EncodeHeader(WriteOf(token.key, 0, 4096))));
      ASSERT_TRUE(peer->Send(Bytes(2000)));
    }
    peer->Reset();
    if (stage == 2) AcceptVictim();
    if (stage < 2) continue;
    EXPECT_EQ(ReceiveToEnd().code(), Code::kUnavailable);
    EndVictim();
  }
  ServeGoodPeer();
  while (OpenDescriptors() > descriptors) SyncWithOwner();  // those that were never greeted
  SyncWithOwner();
  EXPECT_EQ(memory_, before_);
  for (size_t i = 0; i < region.size(); ++i) {
    const bool offered = i >= 4096 && i < 4096 + 2000;
    ASSERT_TRUE(region[i] == std::byte{0xEE} || (offered && region[i] == std::byte{0})) << i;
  }
}

TEST_P(StreamHostileServerTest, WrongPreamblesAreClearErrors) {
  Preamble newer = Ours(Role::kListener);
  newer.version = 2;
  const struct {
    PreambleBytes bytes;
    Code code;
    const char* words;
  } cases[] = {
      {EncodePreamble(newer), Code::kFailedPrecondition, "version 2"},
      {EncodePreamble(Ours(Role::kConnector)), Code::kInvalidArgument, "listener"},
      {PreambleBytes{}, Code::kInvalidArgument, "does not speak"},
  };
  for (const auto& wrong : cases) {
    auto connecting = StartConnect();
    RawPeer server = AcceptRaw();
    server.Send(wrong.bytes);
    const Status status = connecting.get().status();
    EXPECT_EQ(status.code(), wrong.code) << status.ToString();
    EXPECT_NE(status.message().find(wrong.words), std::string_view::npos) << status.ToString();
  }
}

const FabricFactory kTcp{"tcp", "127.0.0.1:0",
                         [](base::Random& random) { return std::make_unique<TcpFabric>(random); }};
const auto kName = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Tcp, StreamHostileTest, testing::Values(kTcp), kName);
INSTANTIATE_TEST_SUITE_P(Tcp, StreamHostileServerTest, testing::Values(kTcp), kName);

}  // namespace
}  // namespace forebay::fabric
