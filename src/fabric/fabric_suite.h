// SPDX-License-Identifier: Apache-2.0
// The behaviour that every fabric has, as tests: a test program includes this and instantiates FabricSuite with a factory.
// For tests only.
#pragma once

#include <atomic>
#include <set>
#include <vector>

#include "fabric/fabric_fixture.h"
#include "fabric/region_table.h"
#include "rt/when_all.h"

namespace forebay::fabric {

class FabricSuite : public FabricTest {};

// ---- messages ----

TEST_P(FabricSuite, MessagesArriveWholeAndInOrder) {
  Connect();
  const std::vector<size_t> sizes = {0, 1, 39, 40, 4096, 16384, 65537, 256 * 1024, 2};
  auto received = owner_->Submit([&]() -> rt::Task<std::vector<Bytes>> {
    std::vector<Bytes> messages;
    for (size_t i = 0; i < sizes.size(); ++i) {
      auto message = co_await b_->Receive();
      if (message.ok()) messages.push_back(*std::move(message));
    }
    co_return messages;
  });
  for (size_t size : sizes) EXPECT_TRUE(Send(*initiator_, *a_, Pattern(size, size)).ok());
  const std::vector<Bytes> messages = received.get();
  ASSERT_EQ(messages.size(), sizes.size());
  for (size_t i = 0; i < sizes.size(); ++i) EXPECT_EQ(messages[i], Pattern(sizes[i], sizes[i])) << sizes[i];
}

TEST_P(FabricSuite, MessageOverTheLimitOfEitherEndIsRefused) {
  EndpointOptions small;
  small.max_message_bytes = 1000;
  Connect({}, small);
  EXPECT_EQ(Send(*initiator_, *a_, Bytes(1001)).code(), Code::kInvalidArgument);
  EXPECT_EQ(Send(*owner_, *b_, Bytes(1001)).code(), Code::kInvalidArgument);
  EXPECT_TRUE(Send(*initiator_, *a_, Bytes(1000)).ok());
  EXPECT_EQ(Receive(*owner_, *b_)->size(), 1000u);
}

TEST_P(FabricSuite, PayloadFollowsTheHead) {
  Connect();
  const Bytes head = Pattern(100, 1), first = Pattern(5000, 2), second = Pattern(1, 3);
  EXPECT_TRUE(initiator_
                  ->Run([&] {
                    return a_->SendWithPayload(head, {BufferOf(first), base::Buffer(), BufferOf(second)});
                  })
                  .ok());
  Bytes expected = head;
  expected.insert(expected.end(), first.begin(), first.end());
  expected.insert(expected.end(), second.begin(), second.end());
  EXPECT_EQ(*Receive(*owner_, *b_), expected);
}

TEST_P(FabricSuite, UnreceivedMessagesAreBoundedAndHoldUpNoTransfer) {
  EndpointOptions options;
  options.max_message_bytes = 4096;
  Connect(options, options);
  constexpr int kMessages = 300;
  std::atomic<int> sent = 0;
  auto sender = initiator_->Submit([&]() -> rt::Task<Status> {
    for (int i = 0; i < kMessages; ++i) {
      FB_CO_TRY(co_await a_->Send(Pattern(4096, static_cast<uint64_t>(i))));
      ++sent;
    }
    co_return Status();
  });
  // Transfers go past the messages that nobody takes.
  Bytes memory(1000);
  const RegionToken region = Offer(memory, Direction::kPeerWrites);
  const Bytes data = Pattern(1000, 7);
  EXPECT_TRUE(Write(region, 0, data).ok());
  EXPECT_EQ(memory, data);
  EXPECT_LT(sent, 20);  // 2 x 4096 bytes fit
  for (int i = 0; i < kMessages; ++i) EXPECT_EQ(*Receive(*owner_, *b_), Pattern(4096, static_cast<uint64_t>(i)));
  EXPECT_TRUE(sender.get().ok());
}

TEST_P(FabricSuite, MessagesThatArrivedAreGivenBeforeTheEndOfTheConnection) {
  Connect();
  EXPECT_TRUE(Send(*initiator_, *a_, Pattern(10, 1)).ok());
  EXPECT_TRUE(Send(*initiator_, *a_, Pattern(20, 2)).ok());
  EXPECT_EQ(Receive(*owner_, *b_)->size(), 10u);
  Fence(*initiator_, a_, Status::Unavailable("gone fishing"));
  EXPECT_EQ(*Receive(*owner_, *b_), Pattern(20, 2));
  EXPECT_EQ(Receive(*owner_, *b_).status().code(), Code::kUnavailable);
}

// ---- regions ----

struct Edge {
  uint64_t offset;
  uint64_t length;
  bool allowed;
};
inline constexpr uint64_t kRegionBytes = 100'000;
inline const std::vector<Edge>& Edges() {
  static const std::vector<Edge> edges = {
      {0, 0, true},
      {0, 1, true},
      {0, kRegionBytes, true},
      {kRegionBytes - 1, 1, true},
      {kRegionBytes, 0, true},
      {12'345, 67'890, true},
      {kRegionBytes, 1, false},
      {kRegionBytes + 1, 0, false},
      {0, kRegionBytes + 1, false},
      {kRegionBytes - 1, 2, false},
      {UINT64_MAX, 0, false},
      {UINT64_MAX, 1, false},
      {UINT64_MAX - 99, 100, false},
      {UINT64_MAX - 98, 100, false},
      {UINT64_MAX / 2 + 1, 100, false},
  };
  return edges;
}

TEST_P(FabricSuite, WriteChangesExactlyItsRangeOrNothing) {
  Connect();
  for (const Edge& edge : Edges()) {
    SCOPED_TRACE(testing::Message() << edge.offset << "+" << edge.length);
    const Bytes before = Pattern(kRegionBytes, 1), data = Pattern(edge.length, 2);
    Bytes memory = before;
    const RegionToken region = Offer(memory, Direction::kPeerWrites);
    EXPECT_EQ(region.length, kRegionBytes);
    EXPECT_EQ(Write(region, edge.offset, data).code(), edge.allowed ? Code::kOk : Code::kPermissionDenied);
    Bytes expected = before;
    if (edge.allowed) std::copy(data.begin(), data.end(), expected.begin() + static_cast<ptrdiff_t>(edge.offset));
    EXPECT_EQ(memory, expected);
    EXPECT_TRUE(Withdraw(region).ok());
  }
}

TEST_P(FabricSuite, ReadGivesExactlyItsRangeOrNothing) {
  Connect();
  Bytes memory = Pattern(kRegionBytes, 1);
  const RegionToken region = Offer(memory, Direction::kPeerReads);
  for (const Edge& edge : Edges()) {
    SCOPED_TRACE(testing::Message() << edge.offset << "+" << edge.length);
    const Bytes before = Pattern(edge.length, 3);
    Bytes data = before;
    EXPECT_EQ(Read(region, edge.offset, data).code(), edge.allowed ? Code::kOk : Code::kPermissionDenied);
    if (edge.allowed) {
      const auto from = memory.begin() + static_cast<ptrdiff_t>(edge.offset);
      EXPECT_TRUE(std::equal(data.begin(), data.end(), from));
    } else {
      EXPECT_EQ(data, before);
    }
  }
  EXPECT_TRUE(Withdraw(region).ok());
}

TEST_P(FabricSuite, WriteGathersItsBuffers) {
  Connect();
  Bytes memory(300'000);
  const RegionToken region = Offer(memory, Direction::kPeerWrites);
  const Bytes data = Pattern(250'000, 5);
  const ByteView view(data);
  const Status written = initiator_->Run([&] {
    std::vector<base::Buffer> buffers;
    for (size_t at = 0; at < data.size(); at += 1000) buffers.push_back(BufferOf(view.subspan(at, 1000)));
    return a_->Write(region, 50'000, std::move(buffers), kNever);
  });
  EXPECT_TRUE(written.ok());
  SyncWithOwner();
  EXPECT_TRUE(std::equal(data.begin(), data.end(), memory.begin() + 50'000));
}

TEST_P(FabricSuite, TransferOverTheLimitIsRefusedBeforeItStarts) {
  EndpointOptions small;
  small.max_transfer_bytes = 4096;
  Connect({}, small);
  Bytes memory(8192);
  const RegionToken region = Offer(memory, Direction::kPeerWrites);
  EXPECT_EQ(Write(region, 0, Bytes(4097)).code(), Code::kInvalidArgument);
  Bytes target(4097);
  EXPECT_EQ(Read(region, 0, target).code(), Code::kInvalidArgument);
  EXPECT_TRUE(Write(region, 0, Bytes(4096)).ok());
}

TEST_P(FabricSuite, RegionHasOneDirection) {
  Connect();
  Bytes readable = Pattern(64, 1), writable = Pattern(64, 2);
  const RegionToken reads = Offer(readable, Direction::kPeerReads), writes = Offer(writable, Direction::kPeerWrites);
  Bytes data = Pattern(64, 3);
  EXPECT_EQ(Write(reads, 0, data).code(), Code::kPermissionDenied);
  EXPECT_EQ(Read(writes, 0, data).code(), Code::kPermissionDenied);
  EXPECT_EQ(data, Pattern(64, 3));
  EXPECT_EQ(readable, Pattern(64, 1));
  EXPECT_EQ(writable, Pattern(64, 2));
  EXPECT_EQ(StatsOf(*owner_, *b_).refused, 2u);
}

TEST_P(FabricSuite, WrongKeyIsRefusedAndTheConnectionGoesOn) {
  Connect();
  Bytes memory = Pattern(64, 1);
  RegionToken region = Offer(memory, Direction::kPeerWrites);
  RegionToken wrong = region;
  for (uint64_t key : {region.key ^ 1, uint64_t{0}, ~region.key}) {
    wrong.key = key;
    EXPECT_EQ(Write(wrong, 0, Bytes(64)).code(), Code::kPermissionDenied);
  }
  EXPECT_EQ(memory, Pattern(64, 1));
  EXPECT_TRUE(Write(region, 0, Bytes(64)).ok());
}

TEST_P(FabricSuite, KeysAreDistinctAndNeverZero) {
  Connect();
  Bytes memory(8);
  std::set<uint64_t> keys;
  for (int i = 0; i < 1000; ++i) keys.insert(Offer(memory, Direction::kPeerReads).key);
  EXPECT_EQ(keys.size(), 1000u);
  EXPECT_FALSE(keys.contains(0));
}

TEST_P(FabricSuite, GuessedKeysEndInAFence) {
  Connect();
  Bytes memory = Pattern(64, 1);
  const RegionToken region = Offer(memory, Direction::kPeerWrites);
  RegionToken guess = region;
  base::SeededRandom random(TestSeed());
  uint32_t refused = 0;
  Status status;
  while (status.code() != Code::kUnavailable && refused < 10'000) {
    guess.key = random.Next64();
    status = Write(guess, 0, Bytes(64));
    if (status.code() == Code::kPermissionDenied) ++refused;
    ASSERT_FALSE(status.ok());
  }
  EXPECT_LE(refused, RegionTable::kMaxViolations + 1);
  EXPECT_GE(refused, RegionTable::kMaxViolations);
  EXPECT_EQ(memory, Pattern(64, 1));
}

TEST_P(FabricSuite, TransfersThatCrossAWithdrawAreNoViolations) {
  Connect();
  Bytes memory = Pattern(64, 1);
  const RegionToken region = Offer(memory, Direction::kPeerWrites);
  EXPECT_TRUE(Withdraw(region).ok());
  for (uint32_t i = 0; i < 2 * RegionTable::kMaxViolations; ++i) {
    ASSERT_EQ(Write(region, 0, Bytes(64)).code(), Code::kPermissionDenied);
  }
  EXPECT_EQ(memory, Pattern(64, 1));
  RoundTrip();
}

TEST_P(FabricSuite, OfferExpires) {
  Connect();
  Bytes memory = Pattern(64, 1);
  const RegionToken region = Offer(memory, Direction::kPeerWrites, clock_.Now() + seconds(1));
  EXPECT_TRUE(Write(region, 0, Bytes(32)).ok());
  const Bytes after_write = memory;
  Advance(seconds(1));
  EXPECT_EQ(Write(region, 32, Bytes(32)).code(), Code::kPermissionDenied);
  EXPECT_EQ(memory, after_write);
  EXPECT_TRUE(Withdraw(region).ok());
}

TEST_P(FabricSuite, WithdrawnRegionIsOutOfReach) {
  Connect();
  Bytes memory = Pattern(64, 1), data(64);
  const RegionToken writes = Offer(memory, Direction::kPeerWrites), reads = Offer(memory, Direction::kPeerReads);
  EXPECT_TRUE(Withdraw(writes).ok());
  EXPECT_TRUE(Withdraw(reads).ok());
  EXPECT_EQ(Write(writes, 0, data).code(), Code::kPermissionDenied);
  EXPECT_EQ(Read(reads, 0, data).code(), Code::kPermissionDenied);
  EXPECT_EQ(memory, Pattern(64, 1));
  EXPECT_EQ(data, Bytes(64));
  EXPECT_EQ(Withdraw(writes).code(), Code::kNotFound);
}

TEST_P(FabricSuite, RegionsOfOneEndpointAreLimited) {
  EndpointOptions options;
  options.max_regions = 3;
  Connect({}, options);
  Bytes memory(8);
  std::vector<RegionToken> regions;
  for (int i = 0; i < 3; ++i) regions.push_back(Offer(memory, Direction::kPeerReads));
  const auto offer = [&] {
    return owner_->Run(
        [&]() -> rt::Task<Status> { co_return b_->Offer(memory, Direction::kPeerReads, kNever).status(); });
  };
  EXPECT_EQ(offer().code(), Code::kResourceExhausted);
  EXPECT_TRUE(Withdraw(regions[1]).ok());
  EXPECT_TRUE(offer().ok());
}

TEST_P(FabricSuite, RegionIsWorthNothingOnAnotherConnection) {
  Connect();
  Bytes memory = Pattern(64, 1);
  const RegionToken region = Offer(memory, Direction::kPeerWrites);
  auto connected = ConnectFrom(*initiator_);
  ASSERT_TRUE(connected.ok());
  auto other_a = *std::move(connected);
  auto other_b = *AcceptOn(*owner_);
  const Status status = initiator_->Run([&] { return other_a->Write(region, 0, BuffersOf(Bytes(64)), kNever); });
  EXPECT_EQ(status.code(), Code::kPermissionDenied);
  SyncWithOwner();
  EXPECT_EQ(memory, Pattern(64, 1));
  Fence(*initiator_, other_a);
  Fence(*owner_, other_b);
}

// ---- ending early ----

/// Writes one after the other, over and over, until one fails.
inline rt::Task<Status> WriteUntilError(Endpoint& from, RegionToken region, base::Buffer data, size_t depth) {
  while (true) {
    std::vector<rt::Task<Status>> writes;
    for (size_t i = 0; i < depth; ++i) writes.push_back(from.Write(region, 0, {data}, kNever));
    for (const Status& status : co_await rt::WhenAll(std::move(writes))) FB_CO_TRY(status);
  }
}

TEST_P(FabricSuite, NoByteChangesAfterWithdrawWhileThePeerGoesOnWriting) {
  Connect();
  Bytes memory(base::kMiB);
  for (int round = 0; round < 10; ++round) {
    const RegionToken region = Offer(memory, Direction::kPeerWrites);
    auto writer = initiator_->Submit(
        [&, data = BufferOf(Pattern(base::kMiB, static_cast<uint64_t>(round)))] { return WriteUntilError(*a_, region, data, 4); });
    AwaitTransferred(&EndpointStats::bytes_written, StatsOf(*initiator_, *a_).bytes_written + 2 * base::kMiB);
    owner_->Run([&]() -> rt::Task<void> {
      EXPECT_TRUE((co_await b_->Withdraw(region)).ok());
      // Still on the owner's thread: from here on the memory is the test's.
      std::fill(memory.begin(), memory.end(), std::byte{0xEE});
    });
    EXPECT_EQ(writer.get().code(), Code::kPermissionDenied);
    RoundTrip();
    EXPECT_EQ(memory, Bytes(base::kMiB, std::byte{0xEE}));
  }
}

TEST_P(FabricSuite, ReadOfAWithdrawnRegionFailsAndTheConnectionGoesOn) {
  Connect();
  for (int round = 0; round < 10; ++round) {
    auto memory = std::make_unique<Bytes>(Pattern(base::kMiB, 1));
    const RegionToken region = Offer(*memory, Direction::kPeerReads);
    auto reader = initiator_->Submit([&]() -> rt::Task<Status> {
      Bytes first(base::kMiB), second(base::kMiB);
      while (true) {
        std::vector<rt::Task<Status>> reads;
        reads.push_back(a_->Read(region, 0, first, kNever));
        reads.push_back(a_->Read(region, 0, second, kNever));
        for (const Status& status : co_await rt::WhenAll(std::move(reads))) FB_CO_TRY(status);
        if (first != Pattern(base::kMiB, 1)) co_return Status::DataLoss("wrong bytes in a read that was ok");
      }
    });
    AwaitTransferred(&EndpointStats::bytes_read, StatsOf(*initiator_, *a_).bytes_read + base::kMiB);
    owner_->Run([&]() -> rt::Task<void> {
      EXPECT_TRUE((co_await b_->Withdraw(region)).ok());
      memory.reset();  // whoever reads it now is caught by the address sanitizer
    });
    EXPECT_EQ(reader.get().code(), Code::kPermissionDenied);
    RoundTrip();
  }
}

TEST_P(FabricSuite, ThousandWithdrawsAtRandomMoments) {
  Connect();
  base::SeededRandom random(TestSeed());
  constexpr size_t kBytes = 32 * 1024;
  Bytes memory(kBytes);
  const base::Buffer ones = BufferOf(Bytes(kBytes, std::byte{1}));
  for (int i = 0; i < 1000; ++i) {
    const RegionToken region = Offer(memory, Direction::kPeerWrites);
    const uint64_t writes = 1 + random.Below(6);
    auto writer = initiator_->Submit([&, writes]() -> rt::Task<std::vector<Status>> {
      std::vector<rt::Task<Status>> tasks;
      for (uint64_t k = 0; k < writes; ++k) tasks.push_back(a_->Write(region, 0, {ones}, kNever));
      return rt::WhenAll(std::move(tasks));
    });
    const uint64_t turns = random.Below(8);
    owner_->Run([&]() -> rt::Task<void> {
      for (uint64_t turn = 0; turn < turns; ++turn) co_await owner_->reactor().Yield();
      EXPECT_TRUE((co_await b_->Withdraw(region)).ok());
      std::fill(memory.begin(), memory.end(), std::byte{2});
    });
    for (const Status& status : writer.get()) {
      ASSERT_TRUE(status.ok() || status.code() == Code::kPermissionDenied) << status.ToString();
    }
    ASSERT_EQ(memory, Bytes(kBytes, std::byte{2})) << "round " << i;
  }
  RoundTrip();
}

TEST_P(FabricSuite, FenceInMidTransferEndsBothSides) {
  Connect();
  Bytes memory(base::kMiB);
  const RegionToken region = Offer(memory, Direction::kPeerWrites);
  auto writer =
      initiator_->Submit([&, data = BufferOf(Pattern(base::kMiB, 1))] { return WriteUntilError(*a_, region, data, 4); });
  AwaitTransferred(&EndpointStats::bytes_written, 4 * base::kMiB);
  owner_->Run([&]() -> rt::Task<void> {
    co_await b_->Fence(Status::Aborted("the test fences"));
    std::fill(memory.begin(), memory.end(), std::byte{0xEE});
    EXPECT_EQ(b_->state().code(), Code::kUnavailable);
    EXPECT_EQ((co_await b_->Send(Bytes(1))).code(), Code::kUnavailable);
    EXPECT_EQ(b_->Offer(memory, Direction::kPeerReads, kNever).status().code(), Code::kUnavailable);
    co_await b_->Fence(Status());  // twice is once
  });
  EXPECT_EQ(writer.get().code(), Code::kUnavailable);
  EXPECT_EQ(memory, Bytes(base::kMiB, std::byte{0xEE}));
}

TEST_P(FabricSuite, OwnFenceEndsOutstandingCalls) {
  Connect();
  Stopped stopped(owner_->reactor());
  RegionToken region{.key = 1, .length = 10};
  auto write = initiator_->Submit([&] { return a_->Write(region, 0, BuffersOf(Bytes(10)), kNever); });
  auto receive = initiator_->Submit([&] { return a_->Receive(); });
  Bytes target = Pattern(1000, 1);
  auto read = initiator_->Submit([&] { return a_->Read(region, 0, target, kNever); });
  initiator_->Run([&]() -> rt::Task<void> { co_await a_->Fence(Status::Aborted("enough is enough")); });
  for (const Status& status : {write.get(), read.get(), receive.get().status()}) {
    EXPECT_EQ(status.code(), Code::kUnavailable);
    EXPECT_NE(status.message().find("enough is enough"), std::string_view::npos) << status.ToString();
  }
  EXPECT_EQ(target, Pattern(1000, 1));
}

TEST_P(FabricSuite, PeersDeathIsNoticed) {
  Connect();
  auto receive = initiator_->Submit([&] { return a_->Receive(); });
  owner_->Run([&]() -> rt::Task<void> {
    b_.reset();  // without a Fence
    for (int turn = 0; turn < 20; ++turn) co_await owner_->reactor().Yield();  // for it to end by itself
  });
  EXPECT_EQ(receive.get().status().code(), Code::kUnavailable);
  EXPECT_EQ(Write({.key = 1, .length = 1}, 0, Bytes(1)).code(), Code::kUnavailable);
}

TEST_P(FabricSuite, StoppedPeerIsGivenUpAfterDeadAfterWhenSomethingIsAwaited) {
  Connect();
  RoundTrip();
  Stopped stopped(owner_->reactor());
  auto write = initiator_->Submit([&] { return a_->Write({.key = 1, .length = 1}, 0, BuffersOf(Bytes(1)), kNever); });
  initiator_->Run([]() -> rt::Task<void> { co_return; });
  const auto state = [&] { return initiator_->Run([&]() -> rt::Task<Status> { co_return a_->state(); }); };
  for (int half_second = 1; half_second < 10; ++half_second) {
    Advance(milliseconds(500));
    EXPECT_TRUE(state().ok()) << half_second;
  }
  Advance(milliseconds(500));
  EXPECT_EQ(write.get().code(), Code::kUnavailable);
  stopped.Resume();
}

TEST_P(FabricSuite, StoppedIdlePeerIsGivenUpAfterIdleDeadAfter) {
  Connect();
  RoundTrip();
  auto receive = initiator_->Submit([&] { return a_->Receive(); });
  Stopped stopped(owner_->reactor());
  for (int second = 0; second < 16; ++second) {
    Advance(seconds(1));
    initiator_->Run([]() -> rt::Task<void> { co_return; });
  }
  EXPECT_EQ(receive.get().status().code(), Code::kUnavailable);
  stopped.Resume();
}

TEST_P(FabricSuite, IdleConnectionOfLivingPeersStays) {
  Connect();
  for (int step = 0; step < 40; ++step) {
    Advance(seconds(2));
    // Both loops turn a few times, for a probe and its answer.
    for (int turn = 0; turn < 20; ++turn) {
      initiator_->Run([]() -> rt::Task<void> { co_return; });
      owner_->Run([]() -> rt::Task<void> { co_return; });
    }
  }
  RoundTrip();
}

TEST_P(FabricSuite, WriteEndsAtItsDeadline) {
  Connect();
  Bytes memory = Pattern(4096, 1);
  const RegionToken region = Offer(memory, Direction::kPeerWrites);
  RoundTrip();  // the offer is known
  const size_t free_before = arena_->free_bytes();
  Stopped stopped(owner_->reactor());
  const base::TimePoint deadline = clock_.Now() + seconds(1);
  auto write = initiator_->Submit([&] { return a_->Write(region, 0, BuffersOf(Pattern(4096, 2)), deadline); });
  initiator_->Run([]() -> rt::Task<void> { co_return; });
  if (GetParam().transfers_pass_a_stopped_owner) {
    EXPECT_TRUE(write.get().ok());
  } else {
    Advance(seconds(1));
    EXPECT_EQ(write.get().code(), Code::kDeadlineExceeded);
  }
  stopped.Resume();
  RoundTrip();
  EXPECT_TRUE(Write(region, 0, Pattern(4096, 3)).ok());
  EXPECT_EQ(memory, Pattern(4096, 3));
  RoundTrip();
  EXPECT_EQ(arena_->free_bytes(), free_before);  // buffers of the abandoned write were let go
}

TEST_P(FabricSuite, NoByteOfAReadsTargetChangesAfterItsDeadline) {
  Connect();
  Bytes memory = Pattern(base::kMiB, 1);
  const RegionToken region = Offer(memory, Direction::kPeerReads);
  Bytes target(base::kMiB);
  if (GetParam().transfers_pass_a_stopped_owner) GTEST_SKIP() << "the owner's device answers for it: nothing holds a read up";
  RoundTrip();  // the offer is known
  Stopped stopped(owner_->reactor());
  const base::TimePoint deadline = clock_.Now() + seconds(1);
  auto read = initiator_->Submit([&] { return a_->Read(region, 0, target, deadline); });
  initiator_->Run([]() -> rt::Task<void> { co_return; });
  Advance(seconds(1));
  EXPECT_EQ(read.get().code(), Code::kDeadlineExceeded);
  std::fill(target.begin(), target.end(), std::byte{0xEE});
  stopped.Resume();
  Bytes other(base::kMiB);
  if (GetParam().read_deadline_ends_the_connection) {
    EXPECT_EQ(Read(region, 0, other).code(), Code::kUnavailable);
  } else {
    EXPECT_TRUE(Read(region, 0, other).ok());
    EXPECT_EQ(other, memory);
  }
  EXPECT_EQ(target, Bytes(base::kMiB, std::byte{0xEE}));
  EXPECT_TRUE(Withdraw(region).ok());  // the owner may still be reading for a connection that is over
}

TEST_P(FabricSuite, TransfersInFlightAreLimited) {
  EndpointOptions options;
  options.max_transfers = 2;
  if (GetParam().transfers_pass_a_stopped_owner) GTEST_SKIP() << "the owner's device answers for it: transfers do not pile up";
  Connect(options, {});
  Bytes memory(100);
  const RegionToken region = Offer(memory, Direction::kPeerWrites);
  Stopped stopped(owner_->reactor());
  const base::TimePoint deadline = clock_.Now() + seconds(1);
  std::vector<std::future<Status>> writes;
  for (int i = 0; i < 3; ++i) {
    const base::TimePoint until = i == 2 ? deadline : kNever;
    writes.push_back(initiator_->Submit([&, until] { return a_->Write(region, 0, BuffersOf(Bytes(100)), until); }));
  }
  initiator_->Run([]() -> rt::Task<void> { co_return; });
  Advance(seconds(1));
  const Status third = writes[2].get();
  EXPECT_EQ(third.code(), Code::kDeadlineExceeded);
  EXPECT_NE(third.message().find("2 transfers in flight"), std::string_view::npos) << third.ToString();
  stopped.Resume();
  EXPECT_TRUE(writes[0].get().ok());
  EXPECT_TRUE(writes[1].get().ok());
  EXPECT_TRUE(Write(region, 0, Bytes(100)).ok());
}

// ---- many at once ----

TEST_P(FabricSuite, SixtyFourTransfersAtOnceBothWays) {
  Connect();
  constexpr size_t kSlot = 20'000, kDepth = 64;
  Bytes target(kSlot * kDepth), source = Pattern(kSlot * kDepth, 9);
  const RegionToken writes = Offer(target, Direction::kPeerWrites), reads = Offer(source, Direction::kPeerReads);
  Bytes read(kSlot * kDepth);
  const Bytes data = Pattern(kSlot * kDepth, 8);
  const std::vector<Status> statuses = initiator_->Run([&] {
    std::vector<rt::Task<Status>> tasks;
    for (size_t i = 0; i < kDepth; ++i) {
      const size_t at = i * kSlot;
      tasks.push_back(a_->Write(writes, at, BuffersOf(ByteView(data).subspan(at, kSlot)), kNever));
      tasks.push_back(a_->Read(reads, at, MutableByteView(read).subspan(at, kSlot), kNever));
    }
    return rt::WhenAll(std::move(tasks));
  });
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.ToString();
  SyncWithOwner();
  EXPECT_EQ(target, data);
  EXPECT_EQ(read, source);
  RoundTrip();  // an owner that sees no transfers is told with the next message
  const EndpointStats a = StatsOf(*initiator_, *a_), b = StatsOf(*owner_, *b_);
  EXPECT_EQ(a.bytes_written, kSlot * kDepth);
  EXPECT_EQ(a.bytes_read, kSlot * kDepth);
  EXPECT_EQ(b.peer_bytes_written, kSlot * kDepth);
  EXPECT_EQ(b.peer_bytes_read, kSlot * kDepth);
  EXPECT_EQ(b.refused, 0u);
}

TEST_P(FabricSuite, BothEndsWriteToEachOtherAtOnce) {
  Connect();
  Bytes at_a(base::kMiB), at_b(base::kMiB);
  const RegionToken region_b = Offer(at_b, Direction::kPeerWrites);
  const RegionToken region_a = initiator_->Run([&]() -> rt::Task<RegionToken> {
    co_return *a_->Offer(at_a, Direction::kPeerWrites, kNever);
  });
  const auto many = [](Endpoint& from, RegionToken region, base::Buffer data) -> rt::Task<std::vector<Status>> {
    std::vector<rt::Task<Status>> tasks;
    for (int i = 0; i < 16; ++i) tasks.push_back(from.Write(region, 0, {data}, kNever));
    co_return co_await rt::WhenAll(std::move(tasks));
  };
  const Bytes from_a = Pattern(base::kMiB, 1), from_b = Pattern(base::kMiB, 2);
  auto a = initiator_->Submit([&, data = BufferOf(from_a)] { return many(*a_, region_b, data); });
  auto b = owner_->Submit([&, data = BufferOf(from_b)] { return many(*b_, region_a, data); });
  for (const Status& status : a.get()) EXPECT_TRUE(status.ok()) << status.ToString();
  for (const Status& status : b.get()) EXPECT_TRUE(status.ok()) << status.ToString();
  SyncWithOwner();
  initiator_->Run([]() -> rt::Task<void> { co_return; });
  EXPECT_EQ(at_a, from_b);
  EXPECT_EQ(at_b, from_a);
}

// ---- listening and connecting ----

TEST_P(FabricSuite, AcceptedEndpointLivesOnTheReactorItWasAskedFor) {
  Listen();
  auto connected = ConnectFrom(*initiator_);
  ASSERT_TRUE(connected.ok());
  a_ = *std::move(connected);
  auto home = Thread("home");
  auto accepted = AcceptOn(*home);
  ASSERT_TRUE(accepted.ok());
  auto endpoint = *std::move(accepted);
  EXPECT_EQ(&endpoint->reactor(), &home->reactor());
  EXPECT_TRUE(Send(*initiator_, *a_, Pattern(10, 1)).ok());
  EXPECT_EQ(*Receive(*home, *endpoint), Pattern(10, 1));
  Fence(*home, endpoint);
}

TEST_P(FabricSuite, CloseEndsAcceptAndFurtherConnects) {
  Listen();
  auto accept = owner_->Submit([&] { return listener_->Accept(owner_->reactor()); });
  owner_->Run([&]() -> rt::Task<void> { co_await listener_->Close(); });
  EXPECT_EQ(accept.get().status().code(), Code::kCancelled);
  EXPECT_EQ(AcceptOn(*owner_).status().code(), Code::kCancelled);
  EXPECT_EQ(ConnectFrom(*initiator_).status().code(), Code::kUnavailable);
}

TEST_P(FabricSuite, TwoListenersCannotShareAnAddress) {
  Listen();
  owner_->Run([&]() -> rt::Task<void> {
    EXPECT_EQ(fabric_->Listen(owner_->reactor(), listener_->address(), {}).status().code(), Code::kFailedPrecondition);
    co_return;
  });
}

TEST_P(FabricSuite, ConnectHasADeadline) {
  Listen();
  EXPECT_EQ(ConnectFrom(*initiator_, {}, clock_.Now()).status().code(), Code::kDeadlineExceeded);
}

}  // namespace forebay::fabric
