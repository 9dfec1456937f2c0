// SPDX-License-Identifier: Apache-2.0
// Peers that lie. A raw socket speaks garbage, half-truths and attacks to a good endpoint. In each case the memory is
// unchanged (or changed only where the liar was allowed to), the liar gets an error or an end, and the listener goes on
// to serve a good peer.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <string>
#include <vector>

#include "fabric/fabric_fixture.h"
#include "fabric/limits.h"
#include "fabric/region_table.h"
#include "fabric/tcp_fabric.h"
#include "fabric/tcp_frames.h"
#include "fabric/stream_listener.h"
#include "rt/when_all.h"

namespace forebay::fabric {
namespace {

constexpr EndpointOptions kOptions;

struct Frame {
  FrameHeader header;
  Bytes payload;
};

/// A blocking socket that sends whatever the test wants.
class RawPeer {
 public:
  explicit RawPeer(int fd) : fd_(fd) {
    const timeval patience{.tv_sec = 20, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  }
  RawPeer(RawPeer&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~RawPeer() { Close(); }

  static RawPeer Connect(const std::string& address) {
    const auto parsed = *rt::SocketAddress::ParseHostPort(address);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(connect(fd, parsed.get(), parsed.size()), 0);
    return RawPeer(fd);
  }
  static RawPeer Greeted(const std::string& address) {
    RawPeer peer = Connect(address);
    peer.Send(EncodePreamble(Ours(Role::kConnector)));
    Bytes answer(kPreambleBytes);
    EXPECT_TRUE(peer.ReadExactly(answer));
    EXPECT_TRUE(DecodePreamble(answer, Role::kListener).ok());
    return peer;
  }
  static Preamble Ours(Role role) {
    return {.role = role, .max_message_bytes = 1 << 18, .max_transfer_bytes = 1 << 20, .max_transfers = 1024};
  }

  /// False once the other side is gone.
  bool Send(ByteView bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno == EINTR) continue;
      if (sent <= 0) return false;
      bytes = bytes.subspan(static_cast<size_t>(sent));
    }
    return true;
  }
  bool Send(const FrameHeader& header, ByteView payload = {}) {
    const HeaderBytes bytes = EncodeHeader(header);
    return Send(bytes) && Send(payload);
  }
  bool ReadExactly(MutableByteView out) {
    while (!out.empty()) {
      const ssize_t got = recv(fd_, out.data(), out.size(), 0);
      if (got < 0 && errno == EINTR) continue;  // the end of an earlier test's ring may interrupt this thread
      if (got <= 0) return false;
      out = out.subspan(static_cast<size_t>(got));
    }
    return true;
  }
  void AwaitReadable() {
    std::byte first;
    while (recv(fd_, &first, 1, MSG_PEEK) < 0 && errno == EINTR) {
    }
  }
  /// The next frame; nothing when the connection is at its end.
  std::optional<Frame> Read() {
    HeaderBytes bytes;
    if (!ReadExactly(bytes)) return std::nullopt;
    const auto header = DecodeHeader(bytes, {.max_message_bytes = 1 << 18, .max_transfer_bytes = 1 << 20});
    EXPECT_TRUE(header.ok()) << header.status().ToString();
    if (!header.ok()) return std::nullopt;
    Frame frame{*header, Bytes(header->length)};
    if (!ReadExactly(frame.payload)) return std::nullopt;
    return frame;
  }
  /// Reads to the end; gives the reason of the goodbye, if there was one.
  std::string ReadToEnd() {
    std::string reason;
    while (auto frame = Read()) {
      if (frame->header.type == FrameType::kGoodbye) reason = AsText(frame->payload);
    }
    return reason;
  }
  /// The code of the next WRITE_DONE or READ_DONE; -1 at the end of the connection.
  int Answer() {
    while (auto frame = Read()) {
      const FrameType type = frame->header.type;
      if (type == FrameType::kWriteDone || type == FrameType::kReadDone) return frame->header.code;
    }
    return -1;
  }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  int fd_;
};

class TcpHostileTest : public FabricTest {
 protected:
  void SetUp() override { Listen(); }

  /// Accepts what the raw peer connected.
  void AcceptVictim() {
    auto accepted = AcceptOn(*owner_);
    ASSERT_TRUE(accepted.ok()) << accepted.status().ToString();
    b_ = *std::move(accepted);
  }
  RawPeer Attacker() {
    RawPeer peer = RawPeer::Greeted(listener_->address());
    AcceptVictim();
    return peer;
  }
  void EndVictim() {
    if (b_) Fence(*owner_, b_);
  }
  /// The proof that an attack did no harm to others.
  void ServeGoodPeer() {
    EndVictim();
    auto connected = ConnectFrom(*initiator_);
    ASSERT_TRUE(connected.ok()) << connected.status().ToString();
    a_ = *std::move(connected);
    AcceptVictim();
    Bytes memory(1000);
    const RegionToken region = Offer(memory, Direction::kPeerWrites);
    EXPECT_TRUE(Write(region, 0, Pattern(1000, 1)).ok());
    EXPECT_EQ(memory, Pattern(1000, 1));
    Fence(*initiator_, a_);
    Fence(*owner_, b_);
  }
  bool VictimFenced() {
    return !owner_->Run([&]() -> rt::Task<Status> { co_return b_->state(); }).ok();
  }

  Bytes memory_ = Pattern(4096, 42);
  const Bytes before_ = memory_;
};

FrameHeader WriteOf(uint64_t key, uint64_t offset, uint32_t length, uint64_t id = 1) {
  return {.type = FrameType::kWrite, .length = length, .id = id, .key = key, .offset = offset};
}
FrameHeader ReadOf(uint64_t key, uint64_t offset, uint32_t count, uint64_t id = 1) {
  return {.type = FrameType::kRead, .id = id, .key = key, .offset = offset, .count = count};
}

// ---- attacks on regions ----

TEST_P(TcpHostileTest, TransfersOutsideOfTheRegionAreRefused) {
  RawPeer peer = Attacker();
  const uint64_t writes = Offer(memory_, Direction::kPeerWrites).key, reads = Offer(memory_, Direction::kPeerReads).key;
  const std::pair<uint64_t, uint32_t> ranges[] = {
      {4096, 1}, {4095, 2}, {0, 4097}, {UINT64_MAX, 1}, {UINT64_MAX - 9, 10}, {UINT64_MAX - 4000, 4096}, {uint64_t{1} << 63, 4096}};
  for (const auto& [offset, length] : ranges) {
    peer.Send(WriteOf(writes, offset, length), Bytes(length));
    EXPECT_EQ(peer.Answer(), static_cast<int>(Refusal::kOutOfRange)) << offset;
    peer.Send(ReadOf(reads, offset, length));
    EXPECT_EQ(peer.Answer(), static_cast<int>(Refusal::kOutOfRange)) << offset;
  }
  SyncWithOwner();
  EXPECT_EQ(memory_, before_);
  EXPECT_EQ(StatsOf(*owner_, *b_).refused, 14u);
  ServeGoodPeer();
}

TEST_P(TcpHostileTest, TransfersInTheWrongDirectionAreRefused) {
  RawPeer peer = Attacker();
  const uint64_t writes = Offer(memory_, Direction::kPeerWrites).key, reads = Offer(memory_, Direction::kPeerReads).key;
  peer.Send(WriteOf(reads, 0, 4096), Bytes(4096));
  EXPECT_EQ(peer.Answer(), static_cast<int>(Refusal::kWrongDirection));
  peer.Send(ReadOf(writes, 0, 4096));
  EXPECT_EQ(peer.Answer(), static_cast<int>(Refusal::kWrongDirection));
  SyncWithOwner();
  EXPECT_EQ(memory_, before_);
  ServeGoodPeer();
}

TEST_P(TcpHostileTest, TransfersAfterExpiryOrWithdrawAreRefused) {
  RawPeer peer = Attacker();
  const uint64_t expired = Offer(memory_, Direction::kPeerWrites, clock_.Now() + seconds(1)).key;
  const RegionToken withdrawn = Offer(memory_, Direction::kPeerWrites);
  Advance(seconds(1));
  EXPECT_TRUE(Withdraw(withdrawn).ok());
  peer.Send(WriteOf(expired, 0, 4096), Bytes(4096));
  EXPECT_EQ(peer.Answer(), static_cast<int>(Refusal::kExpired));
  peer.Send(WriteOf(withdrawn.key, 0, 4096), Bytes(4096));
  EXPECT_EQ(peer.Answer(), static_cast<int>(Refusal::kWithdrawn));
  SyncWithOwner();
  EXPECT_EQ(memory_, before_);
  ServeGoodPeer();
}

TEST_P(TcpHostileTest, WithdrawDoesNotWaitForAPeerThatStallsInMidWrite) {
  RawPeer peer = Attacker();
  const RegionToken region = Offer(memory_, Direction::kPeerWrites);
  peer.Send(WriteOf(region.key, 0, 4096), Bytes(1000));  // and then nothing
  owner_->Run([&]() -> rt::Task<void> {
    while (memory_[999] != std::byte{0}) co_await owner_->reactor().Yield();
  });
  EXPECT_TRUE(Withdraw(region).ok());
  const Bytes at_withdraw = memory_;
  peer.Send(Bytes(3096, std::byte{1}));
  EXPECT_EQ(peer.Answer(), static_cast<int>(Refusal::kWithdrawn));
  SyncWithOwner();
  EXPECT_EQ(memory_, at_withdraw);
  EXPECT_EQ(StatsOf(*owner_, *b_).refused, 1u);
  ServeGoodPeer();
}

TEST_P(TcpHostileTest, WithdrawDoesNotWaitForAPeerThatTakesNoReadData) {
  RawPeer peer = Attacker();
  Bytes large = Pattern(base::kMiB, 1);
  const RegionToken region = Offer(large, Direction::kPeerReads);
  for (uint64_t id = 1; id <= 64; ++id) peer.Send(ReadOf(region.key, 0, base::kMiB, id));  // more than a socket holds
  peer.AwaitReadable();
  EXPECT_TRUE(Withdraw(region).ok());
  std::fill(large.begin(), large.end(), std::byte{0xEE});
  int done = 0, cut = 0;
  const Bytes original = Pattern(base::kMiB, 1);
  while (done + cut < 64) {
    auto frame = peer.Read();
    ASSERT_TRUE(frame.has_value());
    if (frame->header.type == FrameType::kReadDone) ++(frame->header.code == 0 ? done : cut);
    // What was promised is filled up with zeros; nothing of what stands in the memory now.
    for (size_t i = 0; i < frame->payload.size(); i += 511) {
      ASSERT_TRUE(frame->payload[i] == std::byte{0} || frame->payload[i] == original[frame->header.offset + i]);
    }
  }
  EXPECT_GT(cut, 0);
  ServeGoodPeer();
}

TEST_P(TcpHostileTest, TenThousandGuessedKeysEndInAFence) {
  RawPeer peer = Attacker();
  Offer(memory_, Direction::kPeerWrites);
  base::SeededRandom random(TestSeed());
  std::vector<std::byte> attack;
  for (uint64_t id = 1; id <= 10'000; ++id) {
    const HeaderBytes header = EncodeHeader(WriteOf(random.Next64(), 0, 8, id));
    attack.insert(attack.end(), header.begin(), header.end());
    attack.insert(attack.end(), 8, std::byte{0});
  }
  peer.Send(attack);
  int refused = 0;
  for (int code = peer.Answer(); code != -1; code = peer.Answer()) {
    EXPECT_EQ(code, static_cast<int>(Refusal::kUnknownKey));
    ++refused;
  }
  EXPECT_LE(refused, 100);
  EXPECT_TRUE(VictimFenced());
  SyncWithOwner();
  EXPECT_EQ(memory_, before_);
  ServeGoodPeer();
}

// ---- lies about the protocol ----

TEST_P(TcpHostileTest, LiesAreFenced) {
  struct Lie {
    const char* name;
    FrameHeader header;
    const char* reason;
  };
  const Lie lies[] = {
      {"never-ending message", {.type = FrameType::kMessage, .length = UINT32_MAX}, "announces"},
      {"oversize write", {.type = FrameType::kWrite, .length = (1 << 20) + 1, .id = 1}, "announces"},
      {"oversize read", {.type = FrameType::kRead, .id = 1, .count = (1 << 20) + 1}, "asked for"},
      {"oversize goodbye", {.type = FrameType::kGoodbye, .length = 513}, "announces"},
      {"answer to no write", {.type = FrameType::kWriteDone, .id = 7}, "write that is not"},
      {"data for no read", {.type = FrameType::kReadData, .length = 10, .id = 7}, "read that is not"},
      {"answer to no read", {.type = FrameType::kReadDone, .id = 7}, "read that is not"},
      {"credit for nothing", {.type = FrameType::kCredit, .count = 1}, "credit"},
      {"unknown type", {.type = static_cast<FrameType>(77)}, "do not exist"},
      {"reserved field", {.type = FrameType::kProbe, .key = 1}, "reserved"},
      {"unknown code", {.type = FrameType::kWriteDone, .code = 99, .id = 7}, "do not exist"},
  };
  for (const Lie& lie : lies) {
    SCOPED_TRACE(lie.name);
    RawPeer peer = Attacker();
    Offer(memory_, Direction::kPeerWrites);
    peer.Send(lie.header);
    const std::string reason = peer.ReadToEnd();
    EXPECT_NE(reason.find(lie.reason), std::string::npos) << reason;
    EXPECT_TRUE(VictimFenced());
    EndVictim();
  }
  EXPECT_EQ(memory_, before_);
  ServeGoodPeer();
}

TEST_P(TcpHostileTest, BadChecksumAndGarbageAreFenced) {
  for (int kind = 0; kind < 2; ++kind) {
    RawPeer peer = Attacker();
    const uint64_t key = Offer(memory_, Direction::kPeerWrites).key;
    HeaderBytes header = EncodeHeader(WriteOf(key, 0, 8));
    header[36] ^= std::byte{1};
    if (kind == 1) base::SeededRandom(TestSeed()).Fill(header);
    peer.Send(header);
    EXPECT_NE(peer.ReadToEnd().find("checksum"), std::string::npos);
    EXPECT_TRUE(VictimFenced());
    EndVictim();
  }
  EXPECT_EQ(memory_, before_);
  ServeGoodPeer();
}

TEST_P(TcpHostileTest, MessagesBeyondTheWindowAreFenced) {
  RawPeer peer = Attacker();
  for (int i = 0; i < 3; ++i) peer.Send({.type = FrameType::kMessage, .length = 1 << 18}, Bytes(1 << 18));
  EXPECT_NE(peer.ReadToEnd().find("room"), std::string::npos);
  EXPECT_EQ(StatsOf(*owner_, *b_).messages_received, 2u);  // the window is two of the largest
  ServeGoodPeer();
}

TEST_P(TcpHostileTest, EmptyMessagesAreBoundedToo) {
  RawPeer peer = Attacker();
  const HeaderBytes header = EncodeHeader({.type = FrameType::kMessage});
  const size_t fit = MessageWindow(1 << 18) / kMessageOverheadBytes;
  Bytes flood;
  for (size_t i = 0; i < fit + 1; ++i) flood.insert(flood.end(), header.begin(), header.end());
  peer.Send(flood);
  peer.ReadToEnd();
  EXPECT_TRUE(VictimFenced());
  EXPECT_EQ(StatsOf(*owner_, *b_).messages_received, fit);
  ServeGoodPeer();
}

TEST_P(TcpHostileTest, FloodsOfReadsAndProbesThatNobodyWaitsForAreFenced) {
  for (const FrameHeader& header : {FrameHeader{.type = FrameType::kProbe}, ReadOf(0, 0, 1 << 20)}) {
    RawPeer peer = Attacker();
    Bytes large(base::kMiB);
    FrameHeader frame = header;
    if (header.type == FrameType::kRead) frame.key = Offer(large, Direction::kPeerReads).key;
    // The peer reads nothing, so the socket fills up; then what is owed does.
    uint64_t id = 0;
    while (true) {
      if (frame.type == FrameType::kRead) frame.id = ++id;
      Bytes batch;
      for (int i = 0; i < 500; ++i) {
        const HeaderBytes bytes = EncodeHeader(frame);
        batch.insert(batch.end(), bytes.begin(), bytes.end());
      }
      if (!peer.Send(batch)) break;
      if (VictimFenced()) break;
    }
    EXPECT_TRUE(VictimFenced());
    EndVictim();
  }
  ServeGoodPeer();
}

TEST_P(TcpHostileTest, ConnectionsCutAtEveryByteDoNoHarm) {
  Bytes stream;
  const auto add = [&](ByteView bytes) { stream.insert(stream.end(), bytes.begin(), bytes.end()); };
  add(EncodePreamble(RawPeer::Ours(Role::kConnector)));
  add(EncodeHeader({.type = FrameType::kMessage, .length = 5}));
  add(AsBytes("hello"));
  add(EncodeHeader(WriteOf(12345, 0, 16)));
  add(Bytes(16));
  add(EncodeHeader(ReadOf(12345, 0, 16, 2)));
  for (size_t length = 0; length < stream.size(); ++length) {
    SCOPED_TRACE(length);
    RawPeer peer = RawPeer::Connect(listener_->address());
    peer.Send(ByteView(stream).first(length));
    peer.Close();
    if (length < kPreambleBytes) continue;  // never becomes an endpoint
    AcceptVictim();
    const auto ended = owner_->Run([&]() -> rt::Task<Status> {
      (void)b_->Offer(memory_, Direction::kPeerWrites, kNever).ok();  // unless it has ended already
      while (true) {
        auto message = co_await b_->Receive();
        if (!message.ok()) co_return message.status();
      }
    });
    EXPECT_EQ(ended.code(), Code::kUnavailable);
    EndVictim();
  }
  EXPECT_EQ(memory_, before_);
  ServeGoodPeer();
}

// ---- before the first frame ----

TEST_P(TcpHostileTest, StrangersAndWrongPreamblesAreTurnedAway) {
  Bytes other_role(kPreambleBytes);
  std::ranges::copy(EncodePreamble(RawPeer::Ours(Role::kListener)), other_role.begin());
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

TEST_P(TcpHostileTest, AnotherVersionGetsOurPreambleAndNoMore) {
  RawPeer peer = RawPeer::Connect(listener_->address());
  Preamble preamble = RawPeer::Ours(Role::kConnector);
  preamble.version = 9;
  peer.Send(EncodePreamble(preamble));
  Bytes answer(kPreambleBytes), more(1);
  EXPECT_TRUE(peer.ReadExactly(answer));
  EXPECT_EQ(DecodePreamble(answer, Role::kListener)->version, kTcpVersion);
  EXPECT_FALSE(peer.ReadExactly(more));
  ServeGoodPeer();
}

TEST_P(TcpHostileTest, SilentConnectionsNeitherHoldUpOthersNorStay) {
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

// ---- hostile servers ----

class TcpHostileServerTest : public FabricTest {
 protected:
  void SetUp() override {
    listening_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(bind(listening_, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(listen(listening_, 8), 0);
    address_ = rt::SocketAddress::LocalOf(listening_)->ToString();
  }
  void TearDown() override { close(listening_); }

  std::future<Result<std::unique_ptr<Endpoint>>> StartConnect(base::TimePoint deadline = kNever) {
    return initiator_->Submit(
        [this, deadline] { return fabric_->Connect(initiator_->reactor(), address_, kOptions, deadline); });
  }
  RawPeer AcceptRaw() { return RawPeer(accept(listening_, nullptr, nullptr)); }
  /// Connects a_ and reads its preamble.
  RawPeer Victim() {
    auto connecting = StartConnect();
    RawPeer server = AcceptRaw();
    Bytes preamble(kPreambleBytes);
    EXPECT_TRUE(server.ReadExactly(preamble));
    EXPECT_TRUE(DecodePreamble(preamble, Role::kConnector).ok());
    server.Send(EncodePreamble(RawPeer::Ours(Role::kListener)));
    auto connected = connecting.get();
    EXPECT_TRUE(connected.ok()) << connected.status().ToString();
    a_ = *std::move(connected);
    return server;
  }

  int listening_ = -1;
  std::string address_;
};

TEST_P(TcpHostileServerTest, WrongPreamblesAreClearErrors) {
  Preamble newer = RawPeer::Ours(Role::kListener);
  newer.version = 2;
  const struct {
    PreambleBytes bytes;
    Code code;
    const char* words;
  } cases[] = {
      {EncodePreamble(newer), Code::kFailedPrecondition, "version 2"},
      {EncodePreamble(RawPeer::Ours(Role::kConnector)), Code::kInvalidArgument, "listener"},
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

TEST_P(TcpHostileServerTest, SilentAndClosingServersAreErrors) {
  auto connecting = StartConnect();
  AcceptRaw().Close();
  EXPECT_EQ(connecting.get().status().code(), Code::kUnavailable);
  auto waiting = StartConnect(clock_.Now() + seconds(3));
  RawPeer silent = AcceptRaw();
  Bytes preamble(kPreambleBytes);
  EXPECT_TRUE(silent.ReadExactly(preamble));
  Advance(seconds(3));
  EXPECT_EQ(waiting.get().status().code(), Code::kDeadlineExceeded);
}

TEST_P(TcpHostileServerTest, LyingAnswersToAReadLeaveItsTargetAlone) {
  const auto frame = [](FrameHeader header) {
    const HeaderBytes bytes = EncodeHeader(header);
    Bytes all(bytes.begin(), bytes.end());
    all.insert(all.end(), header.length, std::byte{0xAA});
    return all;
  };
  const std::vector<std::pair<const char*, Bytes>> lies = {
      {"beyond the end", frame({.type = FrameType::kReadData, .length = 101, .id = 1})},
      {"out of order", frame({.type = FrameType::kReadData, .length = 10, .id = 1, .offset = 50})},
      {"offset that overflows", frame({.type = FrameType::kReadData, .length = 10, .id = 1, .offset = UINT64_MAX - 5})},
      {"end before all of it", frame({.type = FrameType::kReadDone, .id = 1})},
      {"end of a write", frame({.type = FrameType::kWriteDone, .id = 1})},
      {"another's data", frame({.type = FrameType::kReadData, .length = 10, .id = 2})},
  };
  for (const auto& [name, lie] : lies) {
    SCOPED_TRACE(name);
    RawPeer server = Victim();
    Bytes around = Pattern(300, 1);
    auto read = initiator_->Submit([&] {
      return a_->Read({.key = 5, .length = 100}, 0, MutableByteView(around).subspan(100, 100), kNever);
    });
    EXPECT_EQ(server.Read()->header, ReadOf(5, 0, 100, 1));
    server.Send(lie);
    EXPECT_EQ(read.get().code(), Code::kUnavailable);
    EXPECT_EQ(around, Pattern(300, 1));
    Fence(*initiator_, a_);
  }
}

TEST_P(TcpHostileServerTest, ReadThatStallsEndsAtItsDeadlineAndItsTargetStaysPut) {
  RawPeer server = Victim();
  Bytes target(100'000);
  const base::TimePoint deadline = clock_.Now() + seconds(1);
  auto read = initiator_->Submit([&] { return a_->Read({.key = 5, .length = 100'000}, 0, target, deadline); });
  EXPECT_TRUE(server.Read().has_value());
  server.Send({.type = FrameType::kReadData, .length = 100'000, .id = 1}, Bytes(60'000, std::byte{0xAA}));
  initiator_->Run([&]() -> rt::Task<void> {
    while (target[59'999] != std::byte{0xAA}) co_await initiator_->reactor().Yield();
  });
  Advance(seconds(1));
  EXPECT_EQ(read.get().code(), Code::kDeadlineExceeded);
  std::fill(target.begin(), target.end(), std::byte{0xEE});
  // The rest comes late, and the connection is still in step.
  server.Send(Bytes(40'000, std::byte{0xAA}));
  server.Send({.type = FrameType::kReadDone, .id = 1});
  server.Send({.type = FrameType::kMessage, .length = 3}, AsBytes("end"));
  EXPECT_EQ(AsText(*Receive(*initiator_, *a_)), "end");
  EXPECT_EQ(target, Bytes(100'000, std::byte{0xEE}));
}

TEST_P(TcpHostileServerTest, RefusalOfAWriteIsAnErrorOfThatWriteOnly) {
  RawPeer server = Victim();
  auto write = initiator_->Submit([&] { return a_->Write({.key = 5, .length = 10}, 0, BuffersOf(Bytes(10)), kNever); });
  EXPECT_EQ(server.Read()->header, WriteOf(5, 0, 10, 1));
  server.Send({.type = FrameType::kWriteDone, .code = 4, .id = 1});
  const Status status = write.get();
  EXPECT_EQ(status.code(), Code::kPermissionDenied);
  EXPECT_NE(status.message().find("expired"), std::string_view::npos) << status.ToString();
  // The same answer once more is a lie.
  server.Send({.type = FrameType::kWriteDone, .code = 0, .id = 1});
  EXPECT_EQ(Receive(*initiator_, *a_).status().code(), Code::kUnavailable);
}

TEST_P(TcpHostileServerTest, GoodbyesReasonIsShownWithoutControlCharacters) {
  RawPeer server = Victim();
  const std::string_view reason = "maintenance\n\x1b[31m";
  server.Send({.type = FrameType::kGoodbye, .length = static_cast<uint32_t>(reason.size())}, AsBytes(reason));
  const Status status = Receive(*initiator_, *a_).status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("maintenance??[31m"), std::string_view::npos) << status.ToString();
}

TEST_P(TcpHostileServerTest, ServerThatTalksButTakesNothingIsGivenUp) {
  RawPeer server = Victim();
  // Far more than sockets hold, and the server reads none of it.
  const base::Buffer block = BufferOf(Bytes(base::kMiB));
  auto writes = initiator_->Submit([&]() -> rt::Task<std::vector<Status>> {
    std::vector<rt::Task<Status>> tasks;
    for (int i = 0; i < 64; ++i) tasks.push_back(a_->Write({.key = 5}, 0, {block}, kNever));
    return rt::WhenAll(std::move(tasks));
  });
  initiator_->Run([]() -> rt::Task<void> { co_return; });
  const auto fenced = [&] { return !initiator_->Run([&]() -> rt::Task<Status> { co_return a_->state(); }).ok(); };
  for (int second = 0; second < 600 && !fenced(); ++second) {
    server.Send({.type = FrameType::kProbeAnswer});
    Advance(milliseconds(500));
  }
  for (const Status& status : writes.get()) EXPECT_EQ(status.code(), Code::kUnavailable);
}

const FabricFactory kTcp{"tcp", "127.0.0.1:0", [](base::Random& random) { return std::make_unique<TcpFabric>(random); }};
const auto kName = [](const auto& info) { return info.param.name; };
INSTANTIATE_TEST_SUITE_P(Tcp, TcpHostileTest, testing::Values(kTcp), kName);
INSTANTIATE_TEST_SUITE_P(Tcp, TcpHostileServerTest, testing::Values(kTcp), kName);

}  // namespace
}  // namespace forebay::fabric
