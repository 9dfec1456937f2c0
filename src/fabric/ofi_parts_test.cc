// SPDX-License-Identifier: Apache-2.0
// OfiSendQueue and OfiPeerRegions, without a provider.
#include <chrono>
#include <string>

#include <gtest/gtest.h>

#include "base/arena.h"
#include "base/random.h"
#include "fabric/ofi_regions.h"
#include "fabric/ofi_send_queue.h"
#include "rt/reactor.h"

namespace forebay::fabric {
namespace {

constexpr size_t kSlot = 1024;
constexpr size_t kRoom = kSlot - kOfiHeaderBytes;

class OfiSendQueueTest : public testing::Test {
 protected:
  /// What the frame in `slot` brings to the peer.
  OfiSendQueue::Packet Take(uint16_t slot, Bytes* payload, size_t max_pieces = 3) {
    Bytes memory(kSlot);
    OfiSendQueue::Packet packet = queue_.Next(slot, memory, max_pieces);
    payload->assign(memory.begin() + kOfiHeaderBytes, memory.begin() + static_cast<ptrdiff_t>(packet.size));
    for (size_t i = 0; i < packet.more.count; ++i) {
      const auto* at = static_cast<const std::byte*>(packet.more.memory[i].iov_base);
      payload->insert(payload->end(), at, at + packet.more.memory[i].iov_len);
    }
    EXPECT_LE(payload->size(), kRoom);
    return packet;
  }
  /// Sends everything and puts messages together as the peer would.
  std::vector<Bytes> Drain(size_t max_pieces = 3) {
    std::vector<Bytes> messages;
    Bytes message;
    while (!queue_.empty()) {
      Bytes payload;
      const OfiSendQueue::Packet packet = Take(0, &payload, max_pieces);
      EXPECT_EQ(packet.frame.offset, message.size());
      message.insert(message.end(), payload.begin(), payload.end());
      if (message.size() == packet.frame.length) messages.push_back(std::exchange(message, {}));
      queue_.Sent(0);
    }
    return messages;
  }
  Bytes Random(size_t size) {
    Bytes bytes(size);
    random_.Fill(bytes);
    return bytes;
  }
  base::Buffer BufferOf(const Bytes& bytes) {
    base::Buffer buffer = *arena_->Allocate(std::max<size_t>(bytes.size(), 1));
    std::copy(bytes.begin(), bytes.end(), buffer.writable().begin());
    return buffer.Slice(0, bytes.size());
  }

  std::unique_ptr<rt::Reactor> reactor_ = *rt::Reactor::Create();
  std::unique_ptr<base::Arena> arena_ = *base::Arena::Create(base::kMiB);
  base::SeededRandom random_{7};
  bool in_place_ = true;
  OfiSendQueue queue_{8, [this](ByteView) { return OfiSendQueue::Placement{.in_place = in_place_}; }};
};

TEST_F(OfiSendQueueTest, MessagesAreCutIntoPiecesThatFit) {
  for (const size_t size : {size_t{0}, size_t{1}, kRoom, kRoom + 1, 5 * kRoom}) {
    rt::Event sent(*reactor_);
    const Bytes message = Random(size);
    queue_.PushMessage(message, {}, &sent);
    EXPECT_EQ(Drain(), std::vector<Bytes>{message}) << size;
    EXPECT_TRUE(sent.is_set());
  }
}

TEST_F(OfiSendQueueTest, PayloadIsSentFromWhereItIsOrCopied) {
  for (const bool in_place : {true, false}) {
    for (const size_t max_pieces : {size_t{0}, size_t{1}, size_t{3}}) {
      in_place_ = in_place;
      const uint64_t copied = queue_.copied();
      rt::Event sent(*reactor_);
      const Bytes head = Random(100), first = Random(3000), second = Random(7);
      std::vector<base::Buffer> payload;
      payload.push_back(BufferOf(first));
      payload.emplace_back();
      for (int i = 0; i < 6; ++i) payload.push_back(BufferOf(second));
      queue_.PushMessage(head, std::move(payload), &sent);
      Bytes expected = head;
      expected.insert(expected.end(), first.begin(), first.end());
      for (int i = 0; i < 6; ++i) expected.insert(expected.end(), second.begin(), second.end());
      EXPECT_EQ(Drain(max_pieces), std::vector<Bytes>{expected});
      EXPECT_EQ(queue_.copied() - copied, in_place && max_pieces != 0 ? 0u : 3042u);
    }
  }
}

TEST_F(OfiSendQueueTest, ControlGoesFirstAndKeepsItsOrder) {
  rt::Event sent(*reactor_);
  queue_.PushMessage(Random(2 * kRoom), {}, &sent);
  Bytes payload;
  EXPECT_EQ(Take(0, &payload).frame.type, OfiFrameType::kMessage);
  queue_.PushControl({.type = OfiFrameType::kOffer, .key = 1});
  queue_.PushControl({.type = OfiFrameType::kWithdraw, .key = 1});
  EXPECT_EQ(Take(1, &payload).frame.type, OfiFrameType::kOffer);
  EXPECT_EQ(Take(2, &payload).frame.type, OfiFrameType::kWithdraw);
  EXPECT_EQ(Take(3, &payload).frame.type, OfiFrameType::kMessage);
  EXPECT_TRUE(queue_.empty());
}

TEST_F(OfiSendQueueTest, MessageIsSentWhenItsLastPieceIs) {
  rt::Event first(*reactor_), second(*reactor_);
  queue_.PushMessage(Random(2 * kRoom), {}, &first);
  queue_.PushMessage(Random(1), {}, &second);
  Bytes payload;
  for (uint16_t slot = 0; slot < 3; ++slot) Take(slot, &payload);
  queue_.Sent(1);
  EXPECT_FALSE(first.is_set());
  queue_.Sent(0);
  EXPECT_TRUE(first.is_set());
  EXPECT_FALSE(second.is_set());
  queue_.Sent(2);
  EXPECT_TRUE(second.is_set());
}

TEST_F(OfiSendQueueTest, ClearLetsEverybodyGo) {
  rt::Event first(*reactor_), second(*reactor_);
  const size_t free_before = arena_->free_bytes();
  queue_.PushMessage(Random(10), {BufferOf(Random(5000))}, &first);
  queue_.PushMessage(Random(10), {}, &second);
  Bytes payload;
  Take(0, &payload);
  queue_.Clear();
  EXPECT_TRUE(first.is_set() && second.is_set() && queue_.empty());
  EXPECT_EQ(arena_->free_bytes(), free_before);
}

TEST(OfiPeerRegionsTest, JudgesAsTheOwnerWould) {
  const base::TimePoint now{std::chrono::seconds(100)};
  OfiPeerRegions regions;
  OfiFrame offer{.type = OfiFrameType::kOffer,
                 .direction = static_cast<uint8_t>(Direction::kPeerWrites),
                 .key = 9,
                 .offset = 4096,
                 .length = 100,
                 .provider_key = 3,
                 .lifetime_ns = 1'000'000'000};
  ASSERT_TRUE(regions.Add(offer, now).ok());
  const auto judge = [&](uint64_t key, uint64_t offset, uint64_t length, Direction wanted,
                         base::TimePoint when) { return regions.Judge(key, offset, length, wanted, when); };
  EXPECT_EQ(judge(9, 0, 100, Direction::kPeerWrites, now), Refusal::kNone);
  EXPECT_EQ(judge(9, 100, 0, Direction::kPeerWrites, now), Refusal::kNone);
  EXPECT_EQ(judge(8, 0, 100, Direction::kPeerWrites, now), Refusal::kUnknownKey);
  EXPECT_EQ(judge(9, 1, 100, Direction::kPeerWrites, now), Refusal::kOutOfRange);
  EXPECT_EQ(judge(9, UINT64_MAX, 2, Direction::kPeerWrites, now), Refusal::kOutOfRange);
  EXPECT_EQ(judge(9, 0, 100, Direction::kPeerReads, now), Refusal::kWrongDirection);
  EXPECT_EQ(judge(9, 0, 100, Direction::kPeerWrites, now + std::chrono::seconds(1)), Refusal::kExpired);
  regions.Find(9)->ending = true;
  EXPECT_EQ(judge(9, 0, 100, Direction::kPeerWrites, now), Refusal::kWithdrawn);
  EXPECT_FALSE(regions.Add(offer, now).ok());  // twice
  regions.Remove(9);
  EXPECT_EQ(judge(9, 0, 100, Direction::kPeerWrites, now), Refusal::kUnknownKey);
}

TEST(OfiPeerRegionsTest, AreBounded) {
  OfiPeerRegions regions;
  OfiFrame offer{.type = OfiFrameType::kOffer, .direction = 1, .length = 1, .lifetime_ns = UINT64_MAX};
  for (; offer.key < kMaxPeerRegions; ++offer.key) ASSERT_TRUE(regions.Add(offer, {}).ok());
  EXPECT_FALSE(regions.Add(offer, {}).ok());
  EXPECT_EQ(regions.Judge(5, 0, 1, Direction::kPeerReads, base::TimePoint::max() - std::chrono::seconds(1)),
            Refusal::kNone);
}

}  // namespace
}  // namespace forebay::fabric
