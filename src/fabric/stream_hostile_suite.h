// SPDX-License-Identifier: Apache-2.0
// Peers that lie, as tests: whoever speaks the frames of a StreamConnection says garbage, half-truths and
// attacks to a good endpoint. In each case the memory is unchanged (or changed only where the liar was
// allowed to), the liar gets an error or an end, and the listener goes on to serve a good peer. A test
// program defines DialRaw and ListenRaw for its transport and instantiates both suites. For tests only.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "fabric/fabric_fixture.h"
#include "fabric/limits.h"
#include "fabric/region_table.h"
#include "fabric/tcp_frames.h"
#include "rt/when_all.h"

namespace forebay::fabric {

inline constexpr EndpointOptions kOptions;

struct Frame {
  FrameHeader header;
  Bytes payload;
};

/// A blocking connection that sends whatever the test wants: bytes of the transport until Greet, of the
/// stream from then on.
class RawStream {
 public:
  virtual ~RawStream() = default;
  /// Tells the limits and takes the other side's, as a good peer does. A listener answers.
  virtual bool Greet(Role role) = 0;
  /// False once the other side is gone.
  virtual bool Send(ByteView bytes) = 0;
  virtual bool ReadExactly(MutableByteView out) = 0;
  virtual void AwaitReadable() = 0;
  virtual void Close() = 0;
};

class RawListener {
 public:
  virtual ~RawListener() = default;
  virtual std::string address() const = 0;
  virtual std::unique_ptr<RawStream> Accept() = 0;
};

// Of the test program.
std::unique_ptr<RawStream> DialRaw(const std::string& address);
std::unique_ptr<RawListener> ListenRaw();

/// What a RawStream tells of itself in Greet.
inline constexpr uint32_t kRawMaxMessage = 1 << 18, kRawMaxTransfer = 1 << 20, kRawMaxTransfers = 1024;

/// A raw stream, in frames.
class RawPeer {
 public:
  explicit RawPeer(std::unique_ptr<RawStream> stream) : stream_(std::move(stream)) {}

  static RawPeer Connect(const std::string& address) { return RawPeer(DialRaw(address)); }
  static RawPeer Greeted(const std::string& address) {
    RawPeer peer = Connect(address);
    EXPECT_TRUE(peer.Greet(Role::kConnector));
    return peer;
  }

  bool Greet(Role role) { return stream_->Greet(role); }
  bool Send(ByteView bytes) { return stream_->Send(bytes); }
  bool Send(const FrameHeader& header, ByteView payload = {}) {
    const HeaderBytes bytes = EncodeHeader(header);
    return Send(bytes) && Send(payload);
  }
  bool ReadExactly(MutableByteView out) { return stream_->ReadExactly(out); }
  void AwaitReadable() { stream_->AwaitReadable(); }
  /// The next frame; nothing when the connection is at its end.
  std::optional<Frame> Read() {
    HeaderBytes bytes;
    if (!ReadExactly(bytes)) return std::nullopt;
    const auto header =
        DecodeHeader(bytes, {.max_message_bytes = kRawMaxMessage,
                             .max_transfer_bytes = kRawMaxTransfer,
                             .borrows = true});
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
  void Close() { stream_->Close(); }

 private:
  std::unique_ptr<RawStream> stream_;
};

class StreamHostileTest : public FabricTest {
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
  /// Why the victim's connection ended.
  Status ReceiveToEnd() {
    return owner_->Run([&]() -> rt::Task<Status> {
      (void)b_->Offer(memory_, Direction::kPeerWrites, kNever).ok();  // unless it has ended already
      while (true) {
        auto message = co_await b_->Receive();
        if (!message.ok()) co_return message.status();
      }
    });
  }
  bool VictimFenced() {
    return !owner_->Run([&]() -> rt::Task<Status> { co_return b_->state(); }).ok();
  }

  Bytes memory_ = Pattern(4096, 42);
  const Bytes before_ = memory_;
};

inline FrameHeader WriteOf(uint64_t key, uint64_t offset, uint32_t length, uint64_t id = 1) {
  return {.type = FrameType::kWrite, .length = length, .id = id, .key = key, .offset = offset};
}
inline FrameHeader ReadOf(uint64_t key, uint64_t offset, uint32_t count, uint64_t id = 1) {
  return {.type = FrameType::kRead, .id = id, .key = key, .offset = offset, .count = count};
}

// ---- attacks on regions ----

TEST_P(StreamHostileTest, TransfersOutsideOfTheRegionAreRefused) {
  RawPeer peer = Attacker();
  const uint64_t writes = Offer(memory_, Direction::kPeerWrites).key,
                 reads = Offer(memory_, Direction::kPeerReads).key;
  const std::pair<uint64_t, uint32_t> ranges[] = {{4096, 1},
                                                  {4095, 2},
                                                  {0, 4097},
                                                  {UINT64_MAX, 1},
                                                  {UINT64_MAX - 9, 10},
                                                  {UINT64_MAX - 4000, 4096},
                                                  {uint64_t{1} << 63, 4096}};
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

TEST_P(StreamHostileTest, TransfersInTheWrongDirectionAreRefused) {
  RawPeer peer = Attacker();
  const uint64_t writes = Offer(memory_, Direction::kPeerWrites).key,
                 reads = Offer(memory_, Direction::kPeerReads).key;
  peer.Send(WriteOf(reads, 0, 4096), Bytes(4096));
  EXPECT_EQ(peer.Answer(), static_cast<int>(Refusal::kWrongDirection));
  peer.Send(ReadOf(writes, 0, 4096));
  EXPECT_EQ(peer.Answer(), static_cast<int>(Refusal::kWrongDirection));
  SyncWithOwner();
  EXPECT_EQ(memory_, before_);
  ServeGoodPeer();
}

TEST_P(StreamHostileTest, TransfersAfterExpiryOrWithdrawAreRefused) {
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

TEST_P(StreamHostileTest, WithdrawDoesNotWaitForAPeerThatStallsInMidWrite) {
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

TEST_P(StreamHostileTest, WithdrawDoesNotWaitForAPeerThatTakesNoReadData) {
  RawPeer peer = Attacker();
  Bytes large = Pattern(base::kMiB, 1);
  const RegionToken region = Offer(large, Direction::kPeerReads);
  for (uint64_t id = 1; id <= 64; ++id)
    peer.Send(ReadOf(region.key, 0, base::kMiB, id));  // more than a socket holds
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
      ASSERT_TRUE(frame->payload[i] == std::byte{0} ||
                  frame->payload[i] == original[frame->header.offset + i]);
    }
  }
  EXPECT_GT(cut, 0);
  ServeGoodPeer();
}

TEST_P(StreamHostileTest, TenThousandGuessedKeysEndInAFence) {
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

TEST_P(StreamHostileTest, LiesAreFenced) {
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

TEST_P(StreamHostileTest, BadChecksumAndGarbageAreFenced) {
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

TEST_P(StreamHostileTest, MessagesBeyondTheWindowAreFenced) {
  RawPeer peer = Attacker();
  for (int i = 0; i < 3; ++i) peer.Send({.type = FrameType::kMessage, .length = 1 << 18}, Bytes(1 << 18));
  EXPECT_NE(peer.ReadToEnd().find("room"), std::string::npos);
  EXPECT_EQ(StatsOf(*owner_, *b_).messages_received, 2u);  // the window is two of the largest
  ServeGoodPeer();
}

TEST_P(StreamHostileTest, EmptyMessagesAreBoundedToo) {
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

TEST_P(StreamHostileTest, FloodsOfReadsAndProbesThatNobodyWaitsForAreFenced) {
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

TEST_P(StreamHostileTest, ConnectionsCutAtEveryByteDoNoHarm) {
  Bytes stream;
  const auto add = [&](ByteView bytes) { stream.insert(stream.end(), bytes.begin(), bytes.end()); };
  add(EncodeHeader({.type = FrameType::kMessage, .length = 5}));
  add(AsBytes("hello"));
  add(EncodeHeader(WriteOf(12345, 0, 16)));
  add(Bytes(16));
  add(EncodeHeader(ReadOf(12345, 0, 16, 2)));
  for (size_t length = 0; length < stream.size(); ++length) {
    SCOPED_TRACE(length);
    RawPeer peer = RawPeer::Greeted(listener_->address());
    peer.Send(ByteView(stream).first(length));
    peer.Close();
    AcceptVictim();
    EXPECT_EQ(ReceiveToEnd().code(), Code::kUnavailable);
    EndVictim();
  }
  EXPECT_EQ(memory_, before_);
  ServeGoodPeer();
}

TEST_P(StreamHostileTest, PeerThatEndsAtEachEdgeOfAWriteLeavesTheRestAlone) {
  constexpr size_t kChunk = 64 * base::kKiB;
  const Bytes data = Pattern(16 * kChunk, 3);
  for (size_t chunks = 0; chunks <= 16; ++chunks) {
    SCOPED_TRACE(chunks);
    RawPeer peer = Attacker();
    Bytes region(data.size() + 200, std::byte{0xEE});
    const RegionToken token =
        Offer(MutableByteView(region).subspan(100, data.size()), Direction::kPeerWrites);
    peer.Send(WriteOf(token.key, 0, static_cast<uint32_t>(data.size())),
              ByteView(data).first(chunks * kChunk));
    peer.Close();
    EXPECT_EQ(ReceiveToEnd().code(), Code::kUnavailable);
    EndVictim();
    Bytes expected(region.size(), std::byte{0xEE});
    std::copy_n(data.begin(), chunks * kChunk, expected.begin() + 100);
    EXPECT_EQ(region, expected);
  }
  ServeGoodPeer();
}

// ---- hostile servers ----

class StreamHostileServerTest : public FabricTest {
 protected:
  std::future<Result<std::unique_ptr<Endpoint>>> StartConnect(base::TimePoint deadline = kNever) {
    return initiator_->Submit([this, deadline] {
      return fabric_->Connect(initiator_->reactor(), listening_->address(), kOptions, deadline);
    });
  }
  RawPeer AcceptRaw() { return RawPeer(listening_->Accept()); }
  /// Connects a_.
  RawPeer Victim() {
    auto connecting = StartConnect();
    RawPeer server = AcceptRaw();
    EXPECT_TRUE(server.Greet(Role::kListener));
    auto connected = connecting.get();
    EXPECT_TRUE(connected.ok()) << connected.status().ToString();
    a_ = *std::move(connected);
    return server;
  }

  std::unique_ptr<RawListener> listening_ = ListenRaw();
};

TEST_P(StreamHostileServerTest, SilentAndClosingServersAreErrors) {
  auto connecting = StartConnect();
  AcceptRaw().Close();
  EXPECT_EQ(connecting.get().status().code(), Code::kUnavailable);
  auto waiting = StartConnect(clock_.Now() + seconds(3));
  RawPeer silent = AcceptRaw();
  silent.AwaitReadable();
  Advance(seconds(3));
  EXPECT_EQ(waiting.get().status().code(), Code::kDeadlineExceeded);
}

TEST_P(StreamHostileServerTest, LyingAnswersToAReadLeaveItsTargetAlone) {
  const auto frame = [](FrameHeader header) {
    const HeaderBytes bytes = EncodeHeader(header);
    Bytes all(bytes.begin(), bytes.end());
    all.insert(all.end(), header.length, std::byte{0xAA});
    return all;
  };
  const std::vector<std::pair<const char*, Bytes>> lies = {
      {"beyond the end", frame({.type = FrameType::kReadData, .length = 101, .id = 1})},
      {"out of order", frame({.type = FrameType::kReadData, .length = 10, .id = 1, .offset = 50})},
      {"offset that overflows",
       frame({.type = FrameType::kReadData, .length = 10, .id = 1, .offset = UINT64_MAX - 5})},
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

TEST_P(StreamHostileServerTest, ReadThatStallsEndsAtItsDeadlineAndItsTargetStaysPut) {
  RawPeer server = Victim();
  Bytes target(100'000);
  const base::TimePoint deadline = clock_.Now() + seconds(1);
  auto read =
      initiator_->Submit([&] { return a_->Read({.key = 5, .length = 100'000}, 0, target, deadline); });
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

TEST_P(StreamHostileServerTest, RefusalOfAWriteIsAnErrorOfThatWriteOnly) {
  RawPeer server = Victim();
  auto write = initiator_->Submit(
      [&] { return a_->Write({.key = 5, .length = 10}, 0, BuffersOf(Bytes(10)), kNever); });
  EXPECT_EQ(server.Read()->header, WriteOf(5, 0, 10, 1));
  server.Send({.type = FrameType::kWriteDone, .code = 4, .id = 1});
  const Status status = write.get();
  EXPECT_EQ(status.code(), Code::kPermissionDenied);
  EXPECT_NE(status.message().find("expired"), std::string_view::npos) << status.ToString();
  // The same answer once more is a lie.
  server.Send({.type = FrameType::kWriteDone, .code = 0, .id = 1});
  EXPECT_EQ(Receive(*initiator_, *a_).status().code(), Code::kUnavailable);
}

TEST_P(StreamHostileServerTest, GoodbyesReasonIsShownWithoutControlCharacters) {
  RawPeer server = Victim();
  const std::string_view reason = "maintenance\n\x1b[31m";
  server.Send({.type = FrameType::kGoodbye, .length = static_cast<uint32_t>(reason.size())}, AsBytes(reason));
  const Status status = Receive(*initiator_, *a_).status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_NE(status.message().find("maintenance??[31m"), std::string_view::npos) << status.ToString();
}

TEST_P(StreamHostileServerTest, ServerThatTalksButTakesNothingIsGivenUp) {
  RawPeer server = Victim();
  // Far more than sockets hold, and the server reads none of it.
  const base::Buffer block = BufferOf(Bytes(base::kMiB));
  auto writes = initiator_->Submit([&]() -> rt::Task<std::vector<Status>> {
    std::vector<rt::Task<Status>> tasks;
    for (int i = 0; i < 64; ++i) tasks.push_back(a_->Write({.key = 5}, 0, {block}, kNever));
    return rt::WhenAll(std::move(tasks));
  });
  initiator_->Run([]() -> rt::Task<void> { co_return; });
  const auto fenced = [&] {
    return !initiator_->Run([&]() -> rt::Task<Status> { co_return a_->state(); }).ok();
  };
  for (int second = 0; second < 600 && !fenced(); ++second) {
    server.Send({.type = FrameType::kProbeAnswer});
    Advance(milliseconds(500));
  }
  for (const Status& status : writes.get()) EXPECT_EQ(status.code(), Code::kUnavailable);
}

}  // namespace forebay::fabric
