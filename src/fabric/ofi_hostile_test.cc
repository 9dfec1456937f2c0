// SPDX-License-Identifier: Apache-2.0
// Peers that lie, over the bare link: they connect as strangers, talk nonsense, write and read with keys that
// are guessed, dead, of another session or for the other direction, and keep what they were asked to give
// back. In each case the memory is unchanged (or changed only while the liar was allowed to), the liar gets
// an error or an end, and the listener goes on to serve a good peer.
#include <sys/socket.h>
#include <unistd.h>

#include <functional>

#include <gtest/gtest.h>

#include "fabric/ofi_fixture.h"
#include "fabric/ofi_raw_fixture.h"

namespace forebay::fabric {
namespace {

class OfiHostileTest : public FabricTest {
 protected:
  void SetUp() override { Listen(); }

  std::unique_ptr<RawOfiPeer> Raw() { return std::make_unique<RawOfiPeer>(*initiator_, library_); }
  /// A raw peer that is connected, and its victim, which is b_.
  std::unique_ptr<RawOfiPeer> Attacker() {
    EndVictim();
    auto peer = Raw();
    const Status dialed = peer->Dial(listener_->address());
    EXPECT_TRUE(dialed.ok()) << dialed.ToString();
    auto accepted = AcceptOn(*owner_);
    EXPECT_TRUE(accepted.ok()) << accepted.status().ToString();
    b_ = *std::move(accepted);
    return peer;
  }
  /// Has `peer` say something, and accepts until it gets it: those that reset before come first, or not at
  /// all.
  void AcceptTalking(RawOfiPeer& peer) {
    EXPECT_TRUE(peer.Send({.type = OfiFrameType::kMessage, .length = 1}, Bytes(1)));
    while (true) {
      b_ = *AcceptOn(*owner_);
      if (Receive(*owner_, *b_).ok()) return;
      Fence(*owner_, b_);
    }
  }
  void EndVictim() {
    if (b_) Fence(*owner_, b_);
  }
  Status VictimState() {
    return owner_->Run([&]() -> rt::Task<Status> { co_return b_->state(); });
  }
  void AwaitVictimsEnd() {
    EXPECT_EQ(Receive(*owner_, *b_).status().code(), Code::kUnavailable);
    EXPECT_FALSE(VictimState().ok());
  }
  /// The proof that an attack did no harm to others.
  void ServeGoodPeer() {
    EndVictim();
    auto connected = ConnectFrom(*initiator_);
    ASSERT_TRUE(connected.ok()) << connected.status().ToString();
    a_ = *std::move(connected);
    b_ = *AcceptOn(*owner_);
    Bytes memory(1000);
    const RegionToken region = Offer(memory, Direction::kPeerWrites);
    EXPECT_TRUE(Write(region, 0, Pattern(1000, 1)).ok());
    EXPECT_EQ(memory, Pattern(1000, 1));
    Fence(*initiator_, a_);
    Fence(*owner_, b_);
  }
  void ExpectUnchanged() {
    SyncWithOwner();
    EXPECT_EQ(memory_, before_);
    EXPECT_EQ(around_, Bytes(around_.size(), std::byte{0x55}));
  }
  bool device() const { return GetParam().name == "verbs"; }

  const std::shared_ptr<OfiLibrary> library_ = *OfiLibrary::Open(GetParam().name);  // the attackers'
  Bytes around_ = Bytes(3 * 4096, std::byte{0x55});  // the region's neighbours must stay as well
  Bytes memory_ = Pattern(4096, 42);
  const Bytes before_ = memory_;
};

// ---- before the connection ----

TEST_P(OfiHostileTest, StrangersAreRefused) {
  const OfiPreambleBytes good = EncodeOfiPreamble(RawOfiPeer::GoodPreamble());
  OfiPreamble listener = RawOfiPeer::GoodPreamble();
  listener.role = Role::kListener;
  OfiPreamble few = RawOfiPeer::GoodPreamble();
  few.slots = 1;
  Bytes broken(good.begin(), good.end());
  broken[9] ^= std::byte{1};
  const OfiPreambleBytes wrong_role = EncodeOfiPreamble(listener), too_few = EncodeOfiPreamble(few);
  for (const ByteView hello :
       {ByteView(), ByteView(good).first(39), ByteView(broken), ByteView(wrong_role), ByteView(too_few)}) {
    auto peer = Raw();
    EXPECT_EQ(peer->Dial(listener_->address(), hello).code(), Code::kUnavailable);
  }
  ServeGoodPeer();
}

TEST_P(OfiHostileTest, AnotherVersionIsRefusedWithBothNumbers) {
  // To the listener the connector is of a later release; it answers with its own preamble.
  OfiPreamble later = RawOfiPeer::GoodPreamble();
  later.version = 7;
  EXPECT_EQ(Raw()->Dial(listener_->address(), EncodeOfiPreamble(later)).code(), Code::kUnavailable);
  const auto decoded = DecodeOfiPreamble(EncodeOfiPreamble(later), Role::kConnector);
  EXPECT_EQ(decoded.status().code(), Code::kFailedPrecondition);
  EXPECT_NE(decoded.status().message().find("version 7"), std::string_view::npos)
      << decoded.status().ToString();
  ServeGoodPeer();
}

TEST_P(OfiHostileTest, ConnectAndResetStormLeavesNothingBehind) {
  ServeGoodPeer();
  const size_t descriptors = OpenDescriptors();
  const int storms = Attacks(device() ? 60 : 1000);
  for (int i = 0; i < storms; ++i) {
    auto peer = Raw();
    ASSERT_TRUE(peer->Dial(listener_->address()).ok()) << i;
    if (i % 3 == 0) peer->Send(OfiFrame{.type = OfiFrameType::kProbe});
    if (i % 2 == 0) continue;  // gone before it was accepted, perhaps before it was greeted
    AcceptTalking(*peer);
    Offer(memory_, Direction::kPeerWrites);
    peer.reset();
    AwaitVictimsEnd();
    EndVictim();
  }
  auto last = Raw();
  ASSERT_TRUE(last->Dial(listener_->address()).ok());
  AcceptTalking(*last);
  last.reset();
  ServeGoodPeer();
  EXPECT_LE(OpenDescriptors(), descriptors);
  ExpectUnchanged();
}

TEST_P(OfiHostileTest, SocketsThatSayNothingOrNonsenseHoldUpNobody) {
  if (device()) GTEST_SKIP() << "a device's connection request comes whole or not at all";
  const auto address = *rt::SocketAddress::ParseHostPort(listener_->address());
  std::vector<int> sockets;
  for (int i = 0; i < 60; ++i) {
    sockets.push_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(sockets.back(), address.get(), address.size()), 0);
    const Bytes nonsense = Pattern(200, static_cast<uint64_t>(i));
    if (i % 2 == 0) EXPECT_EQ(send(sockets.back(), nonsense.data(), nonsense.size(), MSG_NOSIGNAL), 200);
  }
  ServeGoodPeer();
  for (const int fd : sockets) close(fd);
  ServeGoodPeer();
}

// ---- nonsense ----

TEST_P(OfiHostileTest, LiesEndTheConnection) {
  const auto header = [](const OfiFrame& frame) {
    const OfiHeaderBytes bytes = EncodeOfiFrame(frame);
    return Bytes(bytes.begin(), bytes.end());
  };
  const auto with = [&](const OfiFrame& frame, size_t payload) {
    Bytes bytes = header(frame);
    bytes.resize(bytes.size() + payload, std::byte{7});
    return bytes;
  };
  Bytes unknown = header({.type = OfiFrameType::kProbe});
  unknown[0] = std::byte{99};
  const uint8_t reads = static_cast<uint8_t>(Direction::kPeerReads);
  const OfiFrame offer{
      .type = OfiFrameType::kOffer, .direction = reads, .key = 5, .offset = 4096, .length = 10};
  OfiFrame beyond = offer;
  beyond.offset = UINT64_MAX - 5;
  struct Attack {
    std::string name;
    std::vector<Bytes> messages;
  };
  const std::vector<Attack> attacks = {
      {"empty", {Bytes()}},
      {"half a header", {Bytes(40)}},
      {"unknown type", {unknown}},
      {"field not in use", {header({.type = OfiFrameType::kProbe, .key = 1})}},
      {"too many buffers given back", {header({.type = OfiFrameType::kSlots, .slots = 1000})}},
      {"credit for nothing", {header({.type = OfiFrameType::kCredit, .length = 1})}},
      {"message over the limit", {with({.type = OfiFrameType::kMessage, .length = (1 << 18) + 1}, 10)}},
      {"message that begins in the middle",
       {with({.type = OfiFrameType::kMessage, .offset = 5, .length = 20}, 10)}},
      {"pieces out of order",
       {with({.type = OfiFrameType::kMessage, .length = 20}, 10),
        with({.type = OfiFrameType::kMessage, .offset = 5, .length = 20}, 10)}},
      {"message that changes its length",
       {with({.type = OfiFrameType::kMessage, .length = 20}, 10),
        with({.type = OfiFrameType::kMessage, .offset = 10, .length = 30}, 10)}},
      {"empty piece", {header({.type = OfiFrameType::kMessage, .length = 20})}},
      {"answer to nothing", {header({.type = OfiFrameType::kAnswer, .id = 1})}},
      {"key offered twice", {header(offer), header(offer)}},
      {"region beyond all memory", {header(beyond)}},
      {"withdrawal of nothing", {header({.type = OfiFrameType::kWithdraw, .key = 5})}},
      {"withdrawn of nothing", {header({.type = OfiFrameType::kWithdrawn, .key = 5})}},
      {"answer to a probe that was not sent", {header({.type = OfiFrameType::kProbeAnswer, .id = 77})}},
  };
  for (const Attack& attack : attacks) {
    SCOPED_TRACE(attack.name);
    auto peer = Attacker();
    Offer(memory_, Direction::kPeerWrites);
    for (const Bytes& message : attack.messages) peer->Send(message);
    AwaitVictimsEnd();
    EXPECT_NE(VictimState().message().find("broke the protocol"), std::string_view::npos)
        << VictimState().ToString();
    EXPECT_FALSE(peer->AwaitEnd().ok());
  }
  ExpectUnchanged();
  ServeGoodPeer();
}

TEST_P(OfiHostileTest, MoreMessagesThanTheWindowEndTheConnection) {
  auto peer = Attacker();
  Bytes piece(2048, std::byte{1});
  // Slots are recycled, so only the window bounds what waits for Receive; nobody receives here.
  int sent = 0;
  while (sent < 100'000 && peer->Send({.type = OfiFrameType::kMessage, .length = piece.size()}, piece))
    ++sent;
  EXPECT_FALSE(peer->AwaitEnd().ok());
  EXPECT_FALSE(VictimState().ok());
  ServeGoodPeer();
}

TEST_P(OfiHostileTest, RandomFramesDoNoHarm) {
  base::SeededRandom random(TestSeed());
  for (int round = 0; round < (device() ? 20 : 200); ++round) {
    auto peer = Attacker();
    Offer(memory_, Direction::kPeerWrites);
    const std::optional<OfiFrame> offer = peer->Await(OfiFrameType::kOffer);
    ASSERT_TRUE(offer.has_value());
    for (int i = 0; i < 20; ++i) {
      Bytes bytes(kOfiHeaderBytes + random.Below(100));
      for (size_t at = 0; at < 8; ++at) bytes[at] = static_cast<std::byte>(at == 0 ? random.Below(12) : 0);
      if (random.Below(2) == 0) bytes[8 + 8 * random.Below(8)] = static_cast<std::byte>(random.Below(256));
      if (random.Below(4) == 0) bytes.resize(kOfiHeaderBytes);
      if (!peer->Send(bytes)) break;
    }
    peer.reset();
  }
  ExpectUnchanged();
  ServeGoodPeer();
}

// ---- attacks on regions, by the provider's own operations ----

TEST_P(OfiHostileTest, KeysOnlyOpenTheirOwnRangeAndDirection) {
  struct Attack {
    std::string name;
    Direction direction;
    int64_t from;
    size_t length;
    bool write;
  };
  const std::vector<Attack> attacks = {
      {"read of what may be written", Direction::kPeerWrites, 0, 64, false},
      {"write to what may be read", Direction::kPeerReads, 0, 64, true},
      {"write of one byte behind", Direction::kPeerWrites, 4096, 1, true},
      {"write across the end", Direction::kPeerWrites, 4090, 10, true},
      {"write of one byte before", Direction::kPeerWrites, -1, 1, true},
      {"write across the start", Direction::kPeerWrites, -5, 10, true},
      {"write of more than there is", Direction::kPeerWrites, 0, 4097, true},
      {"read of one byte behind", Direction::kPeerReads, 4096, 1, false},
      {"read across the start", Direction::kPeerReads, -5, 10, false},
      {"read far away", Direction::kPeerReads, int64_t{1} << 40, 64, false},
  };
  // The region lies within other memory, page borders on both sides.
  const MutableByteView region = MutableByteView(around_).subspan(4096, 4096);
  for (const Attack& attack : attacks) {
    SCOPED_TRACE(attack.name);
    auto peer = Attacker();
    Offer(region, attack.direction);
    const std::optional<OfiFrame> offer = peer->Await(OfiFrameType::kOffer);
    ASSERT_TRUE(offer.has_value());
    const OfiLink::Target target = RawOfiPeer::At(*offer, static_cast<uint64_t>(attack.from));
    Bytes data = Pattern(attack.length, 9);
    const Status status = attack.write ? peer->Write(target, data) : peer->Read(target, data);
    EXPECT_EQ(status.code(), device() ? Code::kPermissionDenied : Code::kUnavailable) << status.ToString();
    EXPECT_EQ(data, Pattern(attack.length, 9));
    AwaitVictimsEnd();
    ExpectUnchanged();
  }
  ServeGoodPeer();
}

TEST_P(OfiHostileTest, GuessedKeysOpenNothing) {
  base::SeededRandom random(TestSeed());
  const int guesses = Attacks(device() ? 100 : 1000);
  int denied = 0;
  for (int i = 0; i < guesses; ++i) {
    auto peer = Attacker();
    Offer(memory_, Direction::kPeerWrites);
    const std::optional<OfiFrame> offer = peer->Await(OfiFrameType::kOffer);
    ASSERT_TRUE(offer.has_value());
    OfiLink::Target target = RawOfiPeer::At(*offer);
    // Near the right one as well: a provider may count its keys.
    target.key = i % 2 == 0 ? random.Next64() : target.key + 1 + random.Below(256);
    if (device()) target.key &= UINT32_MAX;
    if (target.key == offer->provider_key) continue;
    EXPECT_FALSE(peer->Write(target, Bytes(64)).ok());
    AwaitVictimsEnd();
    ++denied;
  }
  EXPECT_GE(denied, guesses - 1);
  ExpectUnchanged();
  ServeGoodPeer();
}

TEST_P(OfiHostileTest, RegionOfAnotherSessionIsOutOfReach) {
  auto peer = Attacker();
  auto first = std::move(b_);
  const auto token = owner_->Run([&]() -> rt::Task<Result<RegionToken>> {
    co_return first->Offer(memory_, Direction::kPeerWrites, kNever);
  });
  ASSERT_TRUE(token.ok());
  const std::optional<OfiFrame> offer = peer->Await(OfiFrameType::kOffer);
  ASSERT_TRUE(offer.has_value());
  auto other = Attacker();
  EXPECT_FALSE(other->Write(RawOfiPeer::At(*offer), Bytes(64)).ok());
  AwaitVictimsEnd();
  ExpectUnchanged();
  // The session that the region belongs to has not noticed.
  EXPECT_TRUE(peer->Write(RawOfiPeer::At(*offer), Bytes(64)).ok());
  SyncWithOwner();
  EXPECT_EQ(Bytes(memory_.begin(), memory_.begin() + 64), Bytes(64));
  Fence(*owner_, first);
  ServeGoodPeer();
}

TEST_P(OfiHostileTest, KeyIsDeadAfterWithdraw) {
  auto peer = Attacker();
  const RegionToken region = Offer(memory_, Direction::kPeerWrites);
  const std::optional<OfiFrame> offer = peer->Await(OfiFrameType::kOffer);
  ASSERT_TRUE(offer.has_value());
  auto withdraw = owner_->Submit([&] { return b_->Withdraw(region); });
  ASSERT_TRUE(peer->Await(OfiFrameType::kWithdraw).has_value());
  peer->Send({.type = OfiFrameType::kWithdrawn, .key = region.key});
  if (!device()) {
    const std::optional<OfiFrame> probe = peer->Await(OfiFrameType::kProbe);
    ASSERT_TRUE(probe.has_value());
    peer->Send({.type = OfiFrameType::kProbeAnswer, .id = probe->id});
  }
  EXPECT_TRUE(withdraw.get().ok());
  EXPECT_TRUE(VictimState().ok());
  EXPECT_FALSE(peer->Write(RawOfiPeer::At(*offer), Bytes(64)).ok());
  AwaitVictimsEnd();
  ExpectUnchanged();
  ServeGoodPeer();
}

TEST_P(OfiHostileTest, KeyIsDeadAfterExpiry) {
  auto peer = Attacker();
  const RegionToken region = Offer(memory_, Direction::kPeerWrites, clock_.Now() + seconds(1));
  const std::optional<OfiFrame> offer = peer->Await(OfiFrameType::kOffer);
  ASSERT_TRUE(offer.has_value());
  EXPECT_EQ(offer->lifetime_ns, 1'000'000'000u);
  Advance(seconds(1));
  ASSERT_TRUE(peer->Await(OfiFrameType::kWithdraw).has_value());
  // It does not let go, and is fenced.
  Advance(kWithdrawPatience);
  AwaitVictimsEnd();
  EXPECT_FALSE(peer->Write(RawOfiPeer::At(*offer), Bytes(64)).ok());
  ExpectUnchanged();
  EXPECT_TRUE(Withdraw(region).ok());
  ServeGoodPeer();
}

TEST_P(OfiHostileTest, PeerThatKeepsWritingWhileAskedToLetGoIsFenced) {
  Bytes memory(base::kMiB);
  const Bytes data(base::kMiB, std::byte{0xAA});
  auto peer = Attacker();
  const RegionToken region = Offer(memory, Direction::kPeerWrites);
  const std::optional<OfiFrame> offer = peer->Await(OfiFrameType::kOffer);
  ASSERT_TRUE(offer.has_value());
  auto writing = peer->KeepWriting(RawOfiPeer::At(*offer), data);
  auto withdraw = owner_->Submit([&]() -> rt::Task<Status> {
    Status status = co_await b_->Withdraw(region);
    std::fill(memory.begin(), memory.end(), std::byte{0xEE});
    co_return status;
  });
  ASSERT_TRUE(peer->Await(OfiFrameType::kWithdraw).has_value());
  Advance(kWithdrawPatience);
  EXPECT_TRUE(withdraw.get().ok());
  EXPECT_FALSE(writing.get().ok());
  SyncWithOwner();
  EXPECT_EQ(memory, Bytes(base::kMiB, std::byte{0xEE}));
  EXPECT_NE(VictimState().message().find("did not let go"), std::string_view::npos)
      << VictimState().ToString();
  ServeGoodPeer();
}

TEST_P(OfiHostileTest, PeerThatSaysItLetGoAndKeepsWritingGainsNothing) {
  const Bytes data(base::kMiB, std::byte{0xAA});
  for (int round = 0; round < (device() ? 3 : 30); ++round) {
    Bytes memory(base::kMiB);
    auto peer = Attacker();
    const RegionToken region = Offer(memory, Direction::kPeerWrites);
    const std::optional<OfiFrame> offer = peer->Await(OfiFrameType::kOffer);
    ASSERT_TRUE(offer.has_value());
    std::vector<std::future<Status>> writing;
    for (int i = 0; i < 4; ++i) writing.push_back(peer->KeepWriting(RawOfiPeer::At(*offer), data));
    auto withdraw = owner_->Submit([&]() -> rt::Task<Status> {
      Status status = co_await b_->Withdraw(region);
      std::fill(memory.begin(), memory.end(), std::byte{0xEE});
      co_return status;
    });
    ASSERT_TRUE(peer->Await(OfiFrameType::kWithdraw).has_value());
    peer->Send({.type = OfiFrameType::kWithdrawn, .key = region.key});
    EXPECT_TRUE(withdraw.get().ok());
    for (auto& writes : writing) EXPECT_FALSE(writes.get().ok());
    peer.reset();
    AwaitVictimsEnd();
    SyncWithOwner();
    EXPECT_EQ(memory, Bytes(base::kMiB, std::byte{0xEE}));
  }
  ServeGoodPeer();
}

TEST_P(OfiHostileTest, PeerThatDoesNotPassTheBarrierIsFenced) {
  if (device())
    GTEST_SKIP() << "a device ends what is under way when a registration is closed: there is no barrier";
  auto peer = Attacker();
  const RegionToken region = Offer(memory_, Direction::kPeerReads);
  ASSERT_TRUE(peer->Await(OfiFrameType::kOffer).has_value());
  auto withdraw = owner_->Submit([&] { return b_->Withdraw(region); });
  ASSERT_TRUE(peer->Await(OfiFrameType::kWithdraw).has_value());
  peer->Send({.type = OfiFrameType::kWithdrawn, .key = region.key});
  ASSERT_TRUE(peer->Await(OfiFrameType::kProbe).has_value());
  Advance(kWithdrawPatience);
  EXPECT_TRUE(withdraw.get().ok());
  AwaitVictimsEnd();
  ServeGoodPeer();
}

// ---- attacks on the initiator ----

TEST_P(OfiHostileTest, OwnerThatOffersWhatItHasNotGivesAnError) {
  auto peer = Attacker();
  peer->Send({.type = OfiFrameType::kOffer,
              .direction = static_cast<uint8_t>(Direction::kPeerWrites),
              .key = 5,
              .offset = 4096,
              .length = 4096,
              .provider_key = 77,
              .lifetime_ns = UINT64_MAX});
  const Status status =
      owner_->Run([&] { return b_->Write({.key = 5, .length = 4096}, 0, BuffersOf(Bytes(4096)), kNever); });
  EXPECT_EQ(status.code(), device() ? Code::kPermissionDenied : Code::kUnavailable) << status.ToString();
  AwaitVictimsEnd();
  ServeGoodPeer();
}

TEST_P(OfiHostileTest, RefusalWithAnUnknownCodeEndsTheConnection) {
  auto peer = Attacker();
  auto write =
      owner_->Submit([&] { return b_->Write({.key = 5, .length = 10}, 0, BuffersOf(Bytes(10)), kNever); });
  const std::optional<OfiFrame> ask = peer->Await(OfiFrameType::kAsk);
  ASSERT_TRUE(ask.has_value());
  EXPECT_EQ(ask->key, 5u);
  peer->Send({.type = OfiFrameType::kAnswer, .code = 999, .id = ask->id});
  EXPECT_EQ(write.get().code(), Code::kUnavailable);
  ServeGoodPeer();
}

TEST_P(OfiHostileTest, OwnerThatAllowsWhatItNeverOfferedGetsNothing) {
  auto peer = Attacker();
  auto write =
      owner_->Submit([&] { return b_->Write({.key = 5, .length = 10}, 0, BuffersOf(Bytes(10)), kNever); });
  const std::optional<OfiFrame> ask = peer->Await(OfiFrameType::kAsk);
  ASSERT_TRUE(ask.has_value());
  peer->Send({.type = OfiFrameType::kAnswer, .id = ask->id});
  EXPECT_EQ(write.get().code(), Code::kPermissionDenied);
  EXPECT_TRUE(VictimState().ok());
  ServeGoodPeer();
}

INSTANTIATE_TEST_SUITE_P(Ofi, OfiHostileTest, testing::ValuesIn(OfiFactories()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace forebay::fabric
