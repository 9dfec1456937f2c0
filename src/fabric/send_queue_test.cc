// SPDX-License-Identifier: Apache-2.0
#include "fabric/send_queue.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "fabric/frame_reader.h"
#include "rt/reactor.h"

namespace forebay::fabric {
namespace {

class SendQueueTest : public testing::Test, private ServedSink, private FrameSink {
 protected:
  struct Served {
    uint64_t id;
    uint64_t length;
    bool complete;
  };

  /// Sends up to `limit` bytes of what Gather gives, and reads them as the peer would.
  size_t Step(size_t limit = SIZE_MAX) {
    std::array<iovec, SendQueue::kMaxPieces> pieces;
    const size_t count = queue_.Gather(pieces);
    Bytes bytes;
    for (size_t i = 0; i < count; ++i) {
      const auto* at = static_cast<const std::byte*>(pieces[i].iov_base);
      bytes.insert(bytes.end(), at, at + std::min(pieces[i].iov_len, limit - std::min(limit, bytes.size())));
    }
    queue_.Sent(bytes.size());
    Deliver(bytes);
    return bytes.size();
  }
  void Deliver(ByteView bytes) {
    while (!bytes.empty()) {
      iovec places[2];
      const size_t count = reader_.Buffers(places);
      size_t taken = 0;
      for (size_t i = 0; i < count; ++i) {
        const size_t part = std::min(places[i].iov_len, bytes.size() - taken);
        std::memcpy(places[i].iov_base, bytes.data() + taken, part);
        taken += part;
      }
      bytes = bytes.subspan(taken);
      ASSERT_TRUE(reader_.Received(taken).ok());
    }
  }
  void Drain(size_t limit = SIZE_MAX) {
    for (int i = 0; i < 100'000 && !queue_.empty(); ++i) Step(limit);
    EXPECT_TRUE(queue_.empty());
  }
  std::string Types() const {
    std::string types;
    for (const auto& [header, payload] : got_) types += static_cast<char>('0' + static_cast<int>(header.type));
    return types;
  }

  std::unique_ptr<rt::Reactor> reactor_ = *rt::Reactor::Create();
  SendQueue queue_{*this};
  std::vector<Served> served_;
  std::vector<std::pair<FrameHeader, Bytes>> got_;

 private:
  void OnServed(uint64_t id, uint64_t length, bool complete) override {
    served_.push_back({id, length, complete});
    queue_.PushControl({.type = FrameType::kReadDone, .code = static_cast<uint16_t>(complete ? 0 : 5), .id = id});
  }
  Status OnHeader(const FrameHeader& header, MutableByteView* target) override {
    payload_.assign(header.length, std::byte{0});
    *target = payload_;
    return Status();
  }
  Status OnFrame(const FrameHeader& header) override {
    got_.emplace_back(header, payload_);
    return Status();
  }

  Bytes payload_;
  FrameReader reader_{{.max_message_bytes = base::kMiB, .max_transfer_bytes = base::kMiB}, *this};
};

TEST_F(SendQueueTest, ArrivesTheSameHoweverItIsCut) {
  auto arena = *base::Arena::Create(base::kMiB);
  base::Buffer buffer = *arena->Allocate(5000);
  std::fill_n(buffer.writable().begin(), 5000, std::byte{2});
  for (size_t limit : {size_t{1}, size_t{7}, size_t{40}, size_t{4999}, SIZE_MAX}) {
    got_.clear();
    rt::Event sent(*reactor_);
    queue_.Push({.type = FrameType::kMessage}, Bytes(100, std::byte{1}), {buffer, buffer}, &sent);
    queue_.Push({.type = FrameType::kWrite, .id = 1, .key = 2, .offset = 3}, {}, {buffer}, nullptr);
    Drain(limit);
    EXPECT_TRUE(sent.is_set());
    ASSERT_EQ(Types(), "13") << limit;
    Bytes expected(100, std::byte{1});
    expected.insert(expected.end(), 10'000, std::byte{2});
    EXPECT_EQ(got_[0].second, expected);
    EXPECT_EQ(got_[1].second, Bytes(5000, std::byte{2}));
  }
}

TEST_F(SendQueueTest, ControlFramesOvertakeAtTheNextFrameBoundary) {
  queue_.Push({.type = FrameType::kMessage}, Bytes(1000), {}, nullptr);
  queue_.Push({.type = FrameType::kMessage}, Bytes(1000), {}, nullptr);
  Step(500);
  EXPECT_TRUE(queue_.in_frame());
  queue_.PushControl({.type = FrameType::kProbe});
  Drain(300);
  EXPECT_EQ(Types(), "181");
}

TEST_F(SendQueueTest, ReadsAreServedInPiecesThatTakeTurns) {
  const Bytes memory(600 * base::kKiB, std::byte{7});
  queue_.Serve(1, 11, memory);
  queue_.Serve(2, 22, ByteView(memory).first(10));
  EXPECT_EQ(queue_.owed(), 2u);
  Drain();
  ASSERT_EQ(Types(), "667667");  // piece of 1, all of 2 and its end, two more pieces of 1 and its end
  EXPECT_EQ(got_[0].first.length, kMaxPieceBytes);
  EXPECT_EQ(got_[3].first.offset, kMaxPieceBytes);
  EXPECT_EQ(got_[4].first.offset, 2 * kMaxPieceBytes);
  EXPECT_EQ(got_[4].second, Bytes(88 * base::kKiB, std::byte{7}));
  EXPECT_EQ(queue_.owed(), 0u);
}

TEST_F(SendQueueTest, WithdrawnBeforeItBeganIsAnsweredWithoutData) {
  const Bytes memory(1000, std::byte{7});
  queue_.Serve(1, 11, memory);
  queue_.Serve(2, 22, memory);
  EXPECT_FALSE(queue_.Withdraw(11));
  Drain();
  EXPECT_EQ(Types(), "767");
  EXPECT_EQ(got_[0].first.code, 5);
  EXPECT_EQ(got_[2].first.id, 2u);
}

TEST_F(SendQueueTest, WithdrawnInMidPieceIsFilledUpWithZerosAndEnds) {
  auto memory = std::make_unique<Bytes>(600 * base::kKiB, std::byte{7});
  queue_.Serve(1, 11, *memory);
  Step(kHeaderBytes + 1000);
  std::array<iovec, SendQueue::kMaxPieces> pieces;
  queue_.Gather(pieces);
  EXPECT_TRUE(queue_.Withdraw(11));  // a send points into the region
  EXPECT_TRUE(queue_.Reading(11));
  queue_.Sent(0);  // it was cancelled
  EXPECT_FALSE(queue_.Reading(11));
  memory.reset();
  Drain(50'000);
  ASSERT_EQ(Types(), "67");
  Bytes expected(kMaxPieceBytes);
  std::fill_n(expected.begin(), 1000, std::byte{7});
  EXPECT_EQ(got_[0].second, expected);
  EXPECT_EQ(got_[1].first.code, 5);
  ASSERT_EQ(served_.size(), 1u);
  EXPECT_FALSE(served_[0].complete);
}

TEST_F(SendQueueTest, OnlyWhatWasNotGivenOutIsTakenBack) {
  queue_.Push({.type = FrameType::kWrite, .id = 1}, Bytes(100), {}, nullptr);
  queue_.Push({.type = FrameType::kWrite, .id = 2}, Bytes(100), {}, nullptr);
  Step(50);
  EXPECT_FALSE(queue_.TakeBack(1));
  EXPECT_TRUE(queue_.TakeBack(2));
  EXPECT_FALSE(queue_.TakeBack(2));
  Drain();
  EXPECT_EQ(Types(), "3");
}

TEST_F(SendQueueTest, ManySmallBuffersGoOutInSeveralSends) {
  auto arena = *base::Arena::Create(base::kMiB);
  std::vector<base::Buffer> buffers(200, *arena->Allocate(10));
  queue_.Push({.type = FrameType::kMessage}, {}, buffers, nullptr);
  EXPECT_EQ(Step(), kHeaderBytes + 63 * 10);
  Drain();
  EXPECT_EQ(got_[0].second.size(), 2000u);
}

TEST_F(SendQueueTest, ClearTellsThoseWhoWait) {
  rt::Event sent(*reactor_);
  queue_.Push({.type = FrameType::kMessage}, Bytes(1), {}, &sent);
  queue_.Clear();
  EXPECT_TRUE(sent.is_set());
  EXPECT_TRUE(queue_.empty());
}

}  // namespace
}  // namespace forebay::fabric
