// SPDX-License-Identifier: Apache-2.0
// Peers that lie, over a bare channel: they connect as strangers, talk nonsense, write and read with keys
// that are dead, made up or for another range, and keep what they were asked to give back. In each case the
// memory is unchanged (or changed only while the liar was allowed to), the liar gets an error or an end, and
// the listener goes on to serve a good peer. What is not attacked, because UCX cannot keep it
// (docs/fabric.md): the direction of a region and the session it belongs to, against a peer that uses UCX
// itself and not our library.

#include <algorithm>

#include <gtest/gtest.h>

#include "fabric/fabric_fixture.h"
#include "fabric/limits.h"
#include "fabric/region_table.h"
#include "fabric/ucx_fixture.h"
#include "fabric/ucx_listener.h"
#include "fabric/ucx_raw_fixture.h"

namespace forebay::fabric {
namespace {

class UcxHostileTest : public FabricTest {
 protected:
  void SetUp() override {
    context_ = *UcxContext::Open("rc");
    Listen();
  }

  std::unique_ptr<RawUcxPeer> Raw() { return std::make_unique<RawUcxPeer>(*initiator_, context_); }
  /// A raw peer that is connected; its victim is b_.
  std::unique_ptr<RawUcxPeer> Attacker() {
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
  void AcceptTalking(RawUcxPeer& peer) {
    peer.Send({.type = UcxFrameType::kMessage});
    while (true) {
      b_ = *AcceptOn(*owner_);
      if (Receive(*owner_, *b_).ok()) return;
      EndVictim();
    }
  }
  void EndVictim() {
    if (b_) Fence(*owner_, b_);
  }
  /// The victim noticed, and the reason it gives holds `words`.
  void ExpectEnd(RawUcxPeer& peer, std::string_view words) {
    const std::string said = peer.AwaitEnd();
    const Status status = Receive(*owner_, *b_).status();
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_NE(status.message().find(words), std::string_view::npos) << status.ToString() << " / " << said;
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
  }
  MutableByteView window() { return MutableByteView(memory_).subspan(4096 + 17, 4096 - 35); }
  uint64_t window_address() { return reinterpret_cast<uintptr_t>(window().data()); }

  std::shared_ptr<UcxContext> context_;  // the attackers'
  Bytes memory_ =
      Pattern(3 * 4096, 42);  // the window is in the middle, on odd bytes: its neighbours must stay
  const Bytes before_ = memory_;
};

// ---- before the connection ----

TEST_P(UcxHostileTest, StrangersAreRefused) {
  Bytes magic = RawUcxPeer::Hello();
  magic[0] ^= std::byte{1};
  const Bytes good = RawUcxPeer::Hello();
  const std::vector<Bytes> hellos = {
      {}, Bytes(good.begin(), good.end() - 1), magic, RawUcxPeer::Hello(UcxRole::kListener)};
  for (const Bytes& hello : hellos)
    EXPECT_EQ(Raw()->Dial(listener_->address(), hello).code(), Code::kUnavailable);
  EXPECT_EQ(Raw()->Dial(listener_->address(), {}, UcxFrameType::kProbe).code(), Code::kUnavailable);
  ServeGoodPeer();
}

TEST_P(UcxHostileTest, ConnectorOfAnotherVersionIsAnsweredAndRefused) {
  Bytes later = RawUcxPeer::Hello();
  later[4] = std::byte{7};
  auto peer = Raw();
  EXPECT_TRUE(peer->Dial(listener_->address(), later).ok());  // it gets our HELLO, with our version
  EXPECT_EQ(peer->AwaitEnd(), "");
  ServeGoodPeer();
}

TEST_P(UcxHostileTest, SilentConnectorsNeitherHoldUpOthersNorStay) {
  std::vector<std::unique_ptr<RawUcxPeer>> silent;
  for (int i = 0; i < 3; ++i) {
    silent.push_back(Raw());
    EXPECT_TRUE(silent.back()->DialSilently(listener_->address()).ok());
  }
  ServeGoodPeer();
  const size_t descriptors = OpenDescriptors();
  Advance(seconds(5));
  while (OpenDescriptors() >= descriptors) SyncWithOwner();  // the listener let go of them
}

TEST_P(UcxHostileTest, ConnectAndResetStormLeavesNothingBehind) {
  ServeGoodPeer();
  const size_t descriptors = OpenDescriptors();
  const int storms = Attacks(10);
  for (int i = 0; i < storms; ++i) {
    auto peer = Raw();
    ASSERT_TRUE(peer->Dial(listener_->address()).ok()) << i;
    if (i % 2 == 0) continue;  // gone before it was accepted, perhaps before it was greeted
    AcceptTalking(*peer);
    peer->Close();
    EXPECT_EQ(Receive(*owner_, *b_).status().code(), Code::kUnavailable);
    EndVictim();
  }
  auto last = Raw();
  ASSERT_TRUE(last->Dial(listener_->address()).ok());
  AcceptTalking(*last);
  last.reset();
  ServeGoodPeer();
  EXPECT_EQ(OpenDescriptors(), descriptors);
}

// ---- frames ----

TEST_P(UcxHostileTest, LiesEndTheConnection) {
  const struct {
    UcxFrame frame;
    size_t payload;
    std::string_view why;
  } lies[] = {
      {{.type = static_cast<UcxFrameType>(99)}, 0, "do not exist"},
      {{.type = UcxFrameType::kProbe, .key = 1}, 0, "reserved"},
      {{.type = UcxFrameType::kHello}, kUcxHelloBytes, "second HELLO"},
      {{.type = UcxFrameType::kMessage}, 300'000, "its limit"},
      {{.type = UcxFrameType::kCredit, .count = 1}, 0, "never sent"},
      {{.type = UcxFrameType::kCredit, .count = UINT64_MAX}, 0, "never sent"},
      {{.type = UcxFrameType::kAnswer, .id = 1}, 0, "not asked"},
      {{.type = UcxFrameType::kAnswer, .code = 6, .id = 1}, 0, "code"},
      {{.type = UcxFrameType::kRevoke, .key = 5}, 0, "did not offer"},
      {{.type = UcxFrameType::kAsk, .code = 3}, 0, "code"},
      {{.type = UcxFrameType::kOffer, .code = 1, .key = 5, .count = 10}, 0, "remote key"},
      {{.type = UcxFrameType::kOffer, .code = 1, .key = 5, .count = 10}, 100, "remote key"},
      {{.type = UcxFrameType::kOffer, .code = 1, .key = 5}, 18, "without bytes"},
      {{.type = UcxFrameType::kOffer, .code = 1, .key = 0}, 0, "cannot be"},
      {{.type = UcxFrameType::kGoodbye}, 513, "its limit"},
  };
  for (const auto& lie : lies) {
    SCOPED_TRACE(lie.why);
    auto peer = Attacker();
    peer->Send(lie.frame, Bytes(lie.payload));
    ExpectEnd(*peer, lie.why);
  }
  ServeGoodPeer();
}

TEST_P(UcxHostileTest, MoreRegionsThanAnnouncedEndTheConnection) {
  auto peer = Attacker();
  for (uint64_t key = 1; key <= 17; ++key)
    peer->Send({.type = UcxFrameType::kOffer, .code = 1, .id = kUcxNoEnd, .key = key});
  ExpectEnd(*peer, "more regions than the 16");
  peer = Attacker();
  for (int i = 0; i < 2; ++i)
    peer->Send({.type = UcxFrameType::kOffer, .code = 1, .id = kUcxNoEnd, .key = 1});
  ExpectEnd(*peer, "two regions with one key");
}

TEST_P(UcxHostileTest, MoreMessagesThanTheWindowEndTheConnection) {
  auto peer = Attacker();
  const size_t fit = MessageWindow(256 * 1024) / kMessageOverheadBytes;
  for (size_t i = 0; i <= fit; ++i) peer->Send({.type = UcxFrameType::kMessage});
  for (size_t i = 0; i < fit; ++i) ASSERT_TRUE(Receive(*owner_, *b_).ok()) << i;
  ExpectEnd(*peer, "than it has room for");
  ServeGoodPeer();
}

TEST_P(UcxHostileTest, RandomFramesDoNoHarm) {
  base::SeededRandom random(TestSeed());
  for (int round = 0; round < Attacks(3); ++round) {
    auto peer = Attacker();
    const RegionToken region = Offer(window(), Direction::kPeerReads);
    for (int i = 0; i < 100; ++i) {
      UcxFrame frame{.type = static_cast<UcxFrameType>(2 + random.Below(10)),
                     .code = static_cast<uint16_t>(random.Below(4)),
                     .id = random.Below(3),
                     .key = random.Below(2) == 0 ? region.key : random.Below(3),
                     .offset = random.Below(3) == 0 ? random.Next64() : random.Below(4096),
                     .count = random.Below(3) == 0 ? random.Next64() : random.Below(4096)};
      peer->Send(frame, Bytes(random.Below(2) * random.Below(64)));
    }
    peer->Close();
    EXPECT_EQ(Receive(*owner_, *b_).status().code(), Code::kUnavailable);
  }
  ExpectUnchanged();
  ServeGoodPeer();
}

// ---- memory ----

TEST_P(UcxHostileTest, KeyOpensExactlyItsRange) {
  const int64_t size = static_cast<int64_t>(window().size());
  const struct {
    int64_t at;
    size_t length;
  } ranges[] = {{-1, 1}, {-16, 64}, {size - 1, 2}, {size + 4096, 64}};
  for (const auto& range : ranges) {
    for (const Direction way : {Direction::kPeerWrites, Direction::kPeerReads}) {
      SCOPED_TRACE(testing::Message() << range.at << " " << static_cast<int>(way));
      auto peer = Attacker();  // for each a new one: a refusal ends its connection
      (void)Offer(window(), way);
      const auto offer = peer->Await(UcxFrameType::kOffer);
      EXPECT_EQ(offer.frame.offset, window_address());
      EXPECT_EQ(offer.frame.count, window().size());
      const ucp_rkey_h key = peer->Unpack(offer.payload);
      const uint64_t address = window_address() + static_cast<uint64_t>(range.at);
      Bytes stolen(range.length);
      const ucs_status_t status = way == Direction::kPeerWrites ? peer->Put(address, Bytes(range.length), key)
                                                                : peer->Get(address, stolen, key);
      EXPECT_NE(status, UCS_OK);
      EXPECT_EQ(stolen, Bytes(range.length));
      ExpectUnchanged();
    }
  }
  ServeGoodPeer();
}

TEST_P(UcxHostileTest, RangeIsOpenToTheLastByte) {
  auto peer = Attacker();
  (void)Offer(window(), Direction::kPeerWrites);
  const ucp_rkey_h key = peer->Unpack(peer->Await(UcxFrameType::kOffer).payload);
  EXPECT_EQ(peer->Put(window_address(), Pattern(window().size(), 5), key), UCS_OK);
  SyncWithOwner();
  EXPECT_TRUE(std::ranges::equal(window(), Pattern(window().size(), 5)));
  EXPECT_TRUE(std::equal(before_.begin(), before_.begin() + 4096 + 17, memory_.begin()));
  EXPECT_TRUE(std::equal(before_.end() - 4096 - 18, before_.end(), memory_.end() - 4096 - 18));
}

TEST_P(UcxHostileTest, GuessedKeysOpenNothing) {
  base::SeededRandom random(TestSeed());
  for (int i = 0; i < Attacks(4); ++i) {
    auto peer = Attacker();
    (void)Offer(window(), Direction::kPeerWrites);
    Bytes packed = peer->Await(UcxFrameType::kOffer).payload;
    ASSERT_TRUE(CheckUcxRkey(packed).ok());
    // The device's number is in the last eight bytes: near ones first, then any.
    for (size_t byte = 10; byte < 14; ++byte) {
      if (i < 3) {
        packed[byte] ^= static_cast<std::byte>(byte == 10 ? i + 1 : 0);
      } else {
        packed[byte] = static_cast<std::byte>(random.Below(256));
      }
    }
    EXPECT_NE(peer->Put(window_address(), Bytes(64), peer->Unpack(packed)), UCS_OK);
    ExpectUnchanged();
  }
  ServeGoodPeer();
}

TEST_P(UcxHostileTest, KeyIsDeadAfterWithdraw) {
  auto peer = Attacker();
  const RegionToken region = Offer(window(), Direction::kPeerWrites);
  const ucp_rkey_h key = peer->Unpack(peer->Await(UcxFrameType::kOffer).payload);
  auto withdraw = owner_->Submit([&] { return b_->Withdraw(region); });
  EXPECT_EQ(peer->Await(UcxFrameType::kRevoke).frame.key, region.key);
  peer->Send({.type = UcxFrameType::kRevoked, .key = region.key});  // a lie: it keeps the key
  EXPECT_TRUE(withdraw.get().ok());
  EXPECT_NE(peer->Put(window_address(), Bytes(64), key), UCS_OK);
  ExpectUnchanged();
  ServeGoodPeer();
}

TEST_P(UcxHostileTest, WithdrawDoesNotWaitForAPeerThatDoesNotAnswer) {
  auto peer = Attacker();
  const RegionToken region = Offer(window(), Direction::kPeerWrites);
  const ucp_rkey_h key = peer->Unpack(peer->Await(UcxFrameType::kOffer).payload);
  auto withdraw = owner_->Submit([&] { return b_->Withdraw(region); });
  peer->Await(UcxFrameType::kRevoke);
  Advance(seconds(1));
  EXPECT_TRUE(withdraw.get().ok());
  EXPECT_NE(peer->Put(window_address(), Bytes(64), key), UCS_OK);
  ExpectUnchanged();
  ServeGoodPeer();
}

TEST_P(UcxHostileTest, PeerThatGoesOnWritingChangesNothingAfterWithdraw) {
  Bytes memory(base::kMiB);
  for (int round = 0; round < Attacks(3); ++round) {
    auto peer = Attacker();
    const RegionToken region = Offer(memory, Direction::kPeerWrites);
    const auto offer = peer->Await(UcxFrameType::kOffer);
    const ucp_rkey_h key = peer->Unpack(offer.payload);
    auto withdraw = owner_->Submit([&]() -> rt::Task<void> {
      EXPECT_TRUE((co_await b_->Withdraw(region)).ok());
      std::fill(memory.begin(), memory.end(), std::byte{0xEE});
    });
    peer->Await(UcxFrameType::kRevoke);
    // The owner waits for an answer, and gets none, until its time is over in the middle of a write.
    std::thread clock([&] {
      std::this_thread::sleep_for(milliseconds(round * 3));
      Advance(seconds(1));
    });
    ucs_status_t status = UCS_OK;
    for (int i = 0; i < 1000 && status == UCS_OK; ++i)
      status = peer->Put(offer.frame.offset, Bytes(base::kMiB), key);
    EXPECT_NE(status, UCS_OK);
    clock.join();
    withdraw.get();
    SyncWithOwner();
    EXPECT_EQ(memory, Bytes(base::kMiB, std::byte{0xEE}));
  }
  ServeGoodPeer();
}

TEST_P(UcxHostileTest, KeyIsDeadAfterExpiry) {
  auto peer = Attacker();
  const RegionToken region = Offer(window(), Direction::kPeerWrites, clock_.Now() + seconds(1));
  const auto offer = peer->Await(UcxFrameType::kOffer);
  EXPECT_EQ(offer.frame.id, 1'000'000'000u);
  const ucp_rkey_h key = peer->Unpack(offer.payload);
  Advance(seconds(1));
  peer->Await(UcxFrameType::kRevoke);
  peer->Send({.type = UcxFrameType::kRevoked, .key = region.key});
  EXPECT_TRUE(Withdraw(region).ok());
  EXPECT_NE(peer->Put(window_address(), Bytes(64), key), UCS_OK);
  ExpectUnchanged();
}

TEST_P(UcxHostileTest, ExpiryDoesNotWaitForAPeerThatDoesNotAnswer) {
  auto peer = Attacker();
  const RegionToken region = Offer(window(), Direction::kPeerWrites, clock_.Now() + seconds(1));
  const ucp_rkey_h key = peer->Unpack(peer->Await(UcxFrameType::kOffer).payload);
  Advance(seconds(1));
  peer->Await(UcxFrameType::kRevoke);
  Advance(seconds(1));
  EXPECT_TRUE(Withdraw(region).ok());
  EXPECT_NE(peer->Put(window_address(), Bytes(64), key), UCS_OK);
  ExpectUnchanged();
}

TEST_P(UcxHostileTest, KeyIsDeadAfterFence) {
  auto peer = Attacker();
  (void)Offer(window(), Direction::kPeerWrites);
  const ucp_rkey_h key = peer->Unpack(peer->Await(UcxFrameType::kOffer).payload);
  EndVictim();
  EXPECT_NE(peer->Put(window_address(), Bytes(64), key), UCS_OK);
  ExpectUnchanged();
}

// One fabric is one protection domain: who must not reach the regions of another gets a fabric of its own.
TEST_P(UcxHostileTest, KeyOfOneFabricOpensNothingOverAnother) {
  base::SecureRandom random;
  const auto other = *UcxFabric::Open(random, "rc");
  auto mine = owner_->Run([&]() -> rt::Task<std::unique_ptr<Listener>> {
    co_return *other->Listen(owner_->reactor(), GetParam().address, {});
  });
  auto first = Attacker();
  (void)Offer(window(), Direction::kPeerWrites);
  const Bytes packed = first->Await(UcxFrameType::kOffer).payload;
  auto second = Raw();
  EXPECT_TRUE(second->Dial(mine->address()).ok());
  auto endpoint = *owner_->Run([&] { return mine->Accept(owner_->reactor()); });
  EXPECT_NE(second->Put(window_address(), Bytes(64), second->Unpack(packed)), UCS_OK);
  ExpectUnchanged();
  Fence(*owner_, endpoint);
  owner_->Run([&]() -> rt::Task<void> {
    co_await mine->Close();
    mine.reset();
  });
}

// ---- owners that lie to the one who writes ----

TEST_P(UcxHostileTest, OfferOfWhatIsNotThereGivesAnErrorAndNoMore) {
  auto peer = Attacker();
  // A key of the right form, for a registration that the liar does not have.
  Bytes packed(18);
  packed[0] = std::byte{1};
  packed[9] = std::byte{8};
  packed[10] = std::byte{0x77};
  peer->Send(
      {.type = UcxFrameType::kOffer, .code = 2, .id = kUcxNoEnd, .key = 5, .offset = 4096, .count = 4096},
      packed);
  peer->Send({.type = UcxFrameType::kMessage});
  EXPECT_TRUE(Receive(*owner_, *b_).ok());
  const Status written =
      owner_->Run([&] { return b_->Write({.key = 5, .length = 4096}, 0, BuffersOf(Bytes(64)), kNever); });
  EXPECT_EQ(written.code(), Code::kUnavailable) << written.ToString();
  ServeGoodPeer();
}

TEST_P(UcxHostileTest, AnswerThatAllowsWhatWasNeverOfferedMovesNothing) {
  auto peer = Attacker();
  Bytes target = Pattern(64, 3);
  auto read = owner_->Submit([&] {
    return b_->Read({.key = 5, .length = 64, .direction = Direction::kPeerReads}, 0, target, kNever);
  });
  const auto ask = peer->Await(UcxFrameType::kAsk);
  peer->Send({.type = UcxFrameType::kAnswer, .id = ask.frame.id});
  EXPECT_EQ(read.get().code(), Code::kPermissionDenied);
  EXPECT_EQ(target, Pattern(64, 3));
}

TEST_P(UcxHostileTest, GoodbyesReasonIsShownWithoutControlCharacters) {
  auto peer = Attacker();
  const ByteView text = AsBytes("bye\x1b[2J\n");
  peer->Send({.type = UcxFrameType::kGoodbye}, Bytes(text.begin(), text.end()));
  const Status status = Receive(*owner_, *b_).status();
  EXPECT_NE(status.message().find("bye?[2J?"), std::string_view::npos) << status.ToString();
}

INSTANTIATE_TEST_SUITE_P(Ucx, UcxHostileTest, testing::Values(UcxOverRc()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace forebay::fabric
