// SPDX-License-Identifier: Apache-2.0
// What rates do to requests: they wait, in order, within their deadlines, and hold no memory meanwhile.
#include <string>
#include <vector>

#include "native/native_suite.h"

namespace forebay::native {
namespace {

using fabric::Direction;
using std::chrono::milliseconds;
using wire::GetReply;
using wire::GetRequest;
using wire::Type;

class RatesTest : public NativeTest {
 protected:
  explicit RatesTest(ServerOptions options = {}) : NativeTest(std::move(options)) {}

  wire::ExistsRequest ExistsOf(size_t count) { return {.items = std::vector<wire::ExistsItem>(count, {"models", "a"})}; }
  /// Lets time pass until the answer to `number` came; how much.
  rt::Task<base::Duration> Await(TestPeer& peer, uint64_t number, Code expected) {
    const base::TimePoint start = clock_.Now();
    bool answered = false;
    rt::Gate gate(*reactor_);
    reactor_->Spawn(gate, [&]() -> rt::Task<void> {
      const auto answer = co_await peer.Receive();
      EXPECT_TRUE(answer.ok());
      if (answer.ok()) {
        EXPECT_EQ(answer->view.header.request, number);
        EXPECT_EQ(answer->view.header.status, expected);
      }
      answered = true;
    });
    for (int turn = 0; turn < 50; ++turn) co_await reactor_->Yield();
    for (int ms = 0; !answered && ms < 100'000; ++ms) {
      clock_.Advance(milliseconds(1));
      for (int turn = 0; turn < 5; ++turn) co_await reactor_->Yield();
    }
    co_await gate.Close();
    co_return clock_.Now() - start;
  }
  template <typename Body>
  rt::Task<uint64_t> Send(TestPeer& peer, Type type, Body body, std::chrono::microseconds deadline = {}) {
    wire::Header header = peer.Next(type);
    header.deadline_us = static_cast<uint64_t>(deadline.count());
    EXPECT_TRUE((co_await peer.endpoint->Send(peer.Make(header, body))).ok());
    co_return header.request;
  }
};

TEST_F(RatesTest, OperationsOfABatchAreCountedEach) {
  rates_.SetTenant(TenantId::kRoot, {.operations_per_s = 10});
  Run([this](TestPeer& peer) -> rt::Task<void> {
    EXPECT_EQ(co_await Await(peer, co_await Send(peer, Type::kExists, ExistsOf(11)), Code::kOk), milliseconds(0));
    // 1.1 s are used up, of which the burst forgives 0.1.
    EXPECT_EQ(co_await Await(peer, co_await Send(peer, Type::kExists, ExistsOf(1)), Code::kOk), milliseconds(1000));
  });
}

TEST_F(RatesTest, ALongWaitIsRefusedAtOnceAndSaysWhose) {
  rates_.SetTenant(TenantId::kRoot, {.operations_per_s = 1});
  Run([this](TestPeer& peer) -> rt::Task<void> {
    EXPECT_EQ(co_await Await(peer, co_await Send(peer, Type::kExists, ExistsOf(60)), Code::kOk), milliseconds(0));
    const uint64_t refused = co_await Send(peer, Type::kExists, ExistsOf(1), std::chrono::seconds(30));
    EXPECT_EQ(co_await Await(peer, refused, Code::kResourceExhausted), milliseconds(0));
  });
}

TEST_F(RatesTest, ALargeGetIsPacedByItsBytesAndHoldsNoMemoryMeanwhile) {
  rates_.SetTenant(TenantId::kRoot, {.bytes_per_s = 4 * base::kMiB});
  Run([this](TestPeer& peer) -> rt::Task<void> {
    const Bytes content = Pattern(6 * base::kMiB, 3);
    co_await Store("large", content);
    Bytes memory(content.size());
    const auto region = peer.Offer(memory, Direction::kPeerWrites);
    const uint64_t get = co_await Send(
        peer, Type::kGet, GetRequest{false, region, {{.bucket = "models", .key = "large", .length = memory.size()}}});
    // The last of six chunks of 250 ms begins when the five before it are used up, but for the burst. The 64 KiB that the
    // request had a place for while it opened the object were given back.
    EXPECT_EQ(co_await Await(peer, get, Code::kOk), milliseconds(1150));
    EXPECT_EQ(memory, content);
  });
}

TEST_F(RatesTest, WhatWasNotReadIsNotCharged) {
  rates_.SetTenant(TenantId::kRoot, {.bytes_per_s = base::kMiB});
  Run([this](TestPeer& peer) -> rt::Task<void> {
    co_await Store("tiny", AsBytes("x"));
    for (int i = 0; i < 100; ++i) {
      const GetRequest get{true, {}, {{.bucket = "models", .key = "tiny", .length = 8 * base::kKiB}}};
      EXPECT_EQ(co_await Await(peer, co_await Send(peer, Type::kGet, get), Code::kOk), milliseconds(0));
    }
  });
}

TEST_F(RatesTest, GetsAtOnceDoNotWaitForWhatOthersOnlyAskedFor) {
  rates_.SetTenant(TenantId::kRoot, {.bytes_per_s = base::kMiB});
  Run([this](TestPeer& peer) -> rt::Task<void> {
    co_await Store("tiny", AsBytes("x"));
    Bytes memory(base::kMiB);
    const auto region = peer.Offer(memory, Direction::kPeerWrites);
    for (int i = 0; i < 50; ++i)
      co_await Send(peer, Type::kGet,
                    GetRequest{false, region, {{.bucket = "models", .key = "tiny", .length = memory.size()}}});
    // The clock stands still.
    for (int i = 0; i < 50; ++i) {
      const auto answer = co_await peer.Receive();
      EXPECT_TRUE(answer.ok() && answer->view.header.status == Code::kOk);
    }
  });
}

TEST_F(RatesTest, ACancelledRequestWaitsNoMoreAndPaysNothing) {
  rates_.SetTenant(TenantId::kRoot, {.operations_per_s = 1});
  Run([this](TestPeer& peer) -> rt::Task<void> {
    EXPECT_EQ(co_await Await(peer, co_await Send(peer, Type::kExists, ExistsOf(1)), Code::kOk), milliseconds(0));
    const uint64_t waits = co_await Send(peer, Type::kExists, ExistsOf(50));
    for (int turn = 0; turn < 20; ++turn) co_await reactor_->Yield();
    const uint64_t cancel = co_await Send(peer, Type::kCancel, wire::CancelRequest{.request = waits});
    for (int answers = 0; answers < 2; ++answers) {
      const auto answer = co_await peer.Receive();
      EXPECT_TRUE(answer.ok());
      if (!answer.ok()) co_return;
      EXPECT_EQ(answer->view.header.status, answer->view.header.request == cancel ? Code::kOk : Code::kCancelled);
    }
    EXPECT_EQ(co_await Await(peer, co_await Send(peer, Type::kExists, ExistsOf(1)), Code::kOk), milliseconds(900));
  });
}

TEST_F(RatesTest, TransfersAtOnceAreLimitedOverAllConnections) {
  rates_.SetTenant(TenantId::kRoot, {.transfers = 2});
  Run([this](TestPeer& peer) -> rt::Task<void> {
    const Bytes content = Pattern(100'000, 4);
    co_await Store("a", content);
    const std::unique_ptr<TestPeer> other = co_await Connect();
    EXPECT_TRUE((co_await other->Hello()).ok());
    fabric_.Hold();
    std::vector<Bytes> memories(4, Bytes(content.size()));
    std::vector<TestPeer*> peers = {&peer, &peer, other.get(), other.get()};
    for (size_t i = 0; i < memories.size(); ++i) {
      const auto region = peers[i]->Offer(memories[i], Direction::kPeerWrites);
      co_await Send(*peers[i], Type::kGet,
                    GetRequest{false, region, {{.bucket = "models", .key = "a", .length = content.size()}}});
    }
    for (int turn = 0; turn < 100; ++turn) co_await reactor_->Yield();
    EXPECT_EQ(fabric_.writes(), 2U);
    fabric_.Release();
    for (TestPeer* const one : peers) {
      const auto answer = co_await one->Receive();
      EXPECT_TRUE(answer.ok() && answer->view.header.status == Code::kOk);
    }
    EXPECT_EQ(fabric_.writes(), 4U);
    for (const Bytes& memory : memories) EXPECT_EQ(memory, content);
    co_await other->endpoint->Fence(Status::Unavailable("the test is over"));
  });
}

TEST_F(RatesTest, WhoWaitsForATurnUntilItsDeadlineIsRefused) {
  rates_.SetTenant(TenantId::kRoot, {.transfers = 1});
  Run([this](TestPeer& peer) -> rt::Task<void> {
    const Bytes content = Pattern(100'000, 5);
    co_await Store("a", content);
    fabric_.Hold();
    Bytes memory(content.size());
    const auto region = peer.Offer(memory, Direction::kPeerWrites);
    const GetRequest get{false, region, {{.bucket = "models", .key = "a", .length = content.size()}}};
    const uint64_t first = co_await Send(peer, Type::kGet, get);
    const uint64_t second = co_await Send(peer, Type::kGet, get, milliseconds(50));
    EXPECT_EQ(co_await Await(peer, second, Code::kResourceExhausted), milliseconds(50));
    fabric_.Release();
    EXPECT_EQ(co_await Await(peer, first, Code::kOk), milliseconds(0));
  });
}

class OneChunkTest : public RatesTest {
 protected:
  OneChunkTest() : RatesTest({.window_bytes = base::kMiB, .request_window_bytes = base::kMiB}) {}
};

TEST_F(OneChunkTest, WhatFoundNoPlaceIsNotCharged) {
  rates_.SetTenant(TenantId::kRoot, {.bytes_per_s = base::kMiB});
  Run([this](TestPeer& peer) -> rt::Task<void> {
    const Bytes content = Pattern(base::kMiB, 6);
    co_await Store("a", content);
    Bytes memory(content.size());
    const auto region = peer.Offer(memory, Direction::kPeerWrites);
    Bytes source = Pattern(512 * base::kKiB, 7);
    const auto offered = peer.Offer(source, Direction::kPeerReads);
    const auto put = [&](size_t size) {
      return wire::PutRequest{offered,
                              {{.bucket = "models",
                                .key = "b",
                                .size = size,
                                .crc32c = base::Crc32c(ByteView(source).first(size)),
                                .source = wire::Source::kRegion}}};
    };
    fabric_.Hold();  // the get holds the whole window
    const uint64_t get = co_await Send(
        peer, Type::kGet, GetRequest{false, region, {{.bucket = "models", .key = "a", .length = content.size()}}});
    for (int turn = 0; turn < 50; ++turn) co_await reactor_->Yield();
    clock_.Advance(std::chrono::seconds(2));  // what it used is past
    const uint64_t late = co_await Send(peer, Type::kPut, put(source.size()), milliseconds(20));
    EXPECT_EQ(co_await Await(peer, late, Code::kDeadlineExceeded), milliseconds(20));
    fabric_.Release();
    EXPECT_EQ(co_await Await(peer, get, Code::kOk), milliseconds(0));
    // Half a second's worth, had it been kept.
    EXPECT_EQ(co_await Await(peer, co_await Send(peer, Type::kPut, put(4096)), Code::kOk), milliseconds(0));
  });
}

}  // namespace
}  // namespace forebay::native
