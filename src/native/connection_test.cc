// SPDX-License-Identifier: Apache-2.0
// Hostile and clumsy clients, cancellation, deadlines, overload and the server's end.
#include <fstream>

#include "native/native_suite.h"

namespace forebay::native {
namespace {

using fabric::Direction;
using wire::GetRequest;
using wire::Type;

class ConnectionTest : public NativeTest {
 protected:
  static wire::PutRequest PutOf(std::string_view key) {
    return {{}, {{.bucket = "models", .key = key, .size = 5, .crc32c = base::Crc32c(AsBytes("hello"))}}};
  }
  /// The server has ended the connection without an answer.
  static rt::Task<void> ExpectFenced(TestPeer& peer, std::string_view why) {
    const auto answer = co_await peer.Receive();
    EXPECT_EQ(answer.status().code(), Code::kUnavailable) << why;
  }
  /// A second, well-behaved client still gets its answers.
  rt::Task<void> ExpectServerLives(std::string_view why) {
    const auto peer = co_await Connect();
    EXPECT_EQ((co_await peer->Hello()).ToString(), "OK") << why;
    EXPECT_TRUE((co_await peer->Call(Type::kExists, wire::ExistsRequest{{{"models", "x"}}})).ok()) << why;
    co_await peer->endpoint->Fence(Status::Unavailable("done"));
  }
  /// Says Hello, then sends what `tamper` makes of a valid put.
  template <typename Tamper>
  void ExpectTamperedPutFences(std::string_view why, Tamper tamper) {
    Run([&](TestPeer& peer) -> rt::Task<void> {
      Bytes message = peer.Make(peer.Next(Type::kPut), PutOf("k"), AsBytes("hello"));
      tamper(peer, message);
      (void)co_await peer.endpoint->Send(std::move(message));
      co_await ExpectFenced(peer, why);
      co_await ExpectServerLives(why);
    });
    EXPECT_EQ(ObjectCount(), 0u) << why;
  }
};

TEST_F(ConnectionTest, TheDocumentedExampleHasTheRightMac) {
  std::ifstream page(FOREBAY_SOURCE_DIR "/docs/formats/data-plane.md");
  std::string hex;
  bool inside = false;
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with("```"))
      inside = line == "```hex";
    else if (inside)
      std::ranges::copy_if(line.substr(4), std::back_inserter(hex), [](char c) { return c != ' '; });
  }
  Bytes message(hex.size() / 2);
  ASSERT_TRUE(base::FromHex(hex, message));
  Bytes key(32);
  for (size_t i = 0; i < key.size(); ++i) key[i] = static_cast<std::byte>(i);
  Bytes tag(wire::kMacBytes);
  std::ranges::copy(wire::MacOf(message), tag.begin());
  std::ranges::fill(wire::MacOf(message), std::byte{0});
  EXPECT_TRUE(auth::MessageMac(key).Verify(tag, message));
}

TEST_F(ConnectionTest, AWrongMacFences) {
  ExpectTamperedPutFences("flipped MAC",
                          [](TestPeer&, Bytes& message) { message[wire::kMacOffset] ^= std::byte{1}; });
  ExpectTamperedPutFences(
      "flipped body", [](TestPeer&, Bytes& message) { message[wire::kHeaderBytes + 30] ^= std::byte{1}; });
  ExpectTamperedPutFences("flipped request", [](TestPeer&, Bytes& message) { message[72] ^= std::byte{1}; });
  ExpectTamperedPutFences("a request that is a reply", [](TestPeer& peer, Bytes& message) {
    message[6] |= std::byte{1};
    peer.Sign(message, 5);
  });
  ExpectTamperedPutFences("another session", [](TestPeer& peer, Bytes& message) {
    message[24] ^= std::byte{1};
    peer.Sign(message, 5);
  });
}

TEST_F(ConnectionTest, AWrongCounterFences) {
  const auto with_counter = [](uint64_t counter) {
    return [counter](TestPeer& peer, Bytes& message) {
      std::memcpy(message.data() + 32, &counter, sizeof(counter));
      peer.Sign(message, 5);
    };
  };
  ExpectTamperedPutFences("skipped", with_counter(3));  // Hello was 1
  ExpectTamperedPutFences("zero", with_counter(0));
  ExpectTamperedPutFences("replayed", with_counter(1));
  ExpectTamperedPutFences("huge", with_counter(UINT64_MAX));
}

TEST_F(ConnectionTest, AReplayedMessageFencesAndActsOnce) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    const Bytes message = peer.Make(peer.Next(Type::kPut), PutOf("k"), AsBytes("hello"));
    EXPECT_TRUE((co_await peer.Exchange(message, peer.request)).ok());
    EXPECT_TRUE((co_await store_.Delete(context_, "models", "k", {})).ok());
    (void)co_await peer.endpoint->Send(message);
    co_await ExpectFenced(peer, "replay");
  });
  EXPECT_EQ(ObjectCount(), 0u);
}

TEST_F(ConnectionTest, MalformedMessagesFence) {
  const auto cut_to = [](size_t size) { return [size](TestPeer&, Bytes& message) { message.resize(size); }; };
  ExpectTamperedPutFences("empty", cut_to(0));
  ExpectTamperedPutFences("half a header", cut_to(50));
  ExpectTamperedPutFences("no body", cut_to(wire::kHeaderBytes));
  ExpectTamperedPutFences("a body of 4 GiB", [](TestPeer& peer, Bytes& message) {
    std::fill_n(message.begin() + 12, 4, std::byte{0xff});
    peer.Sign(message, 5);
  });
}

TEST_F(ConnectionTest, AMalformedBodyIsAnsweredNotFenced) {
  Run([](TestPeer& peer) -> rt::Task<void> {
    Bytes message = peer.Make(peer.Next(Type::kPut), PutOf("k"), AsBytes("hello"));
    message[wire::kHeaderBytes + 18] = std::byte{0xff};  // 65,281 items
    peer.Sign(message, 5);
    EXPECT_EQ((co_await peer.Exchange(message, peer.request)).status().code(), Code::kInvalidArgument);
    for (const Type type : {Type::kGet, Type::kExists, Type::kCancel, Type::kPutBegin, Type::kPutData,
                            Type::kPutCommit, Type::kPutAbort, Type::kStat, Type::kGetVersion,
                            Type::kOverwriteBegin, Type::kPartBegin, Type::kOpen, Type::kRead, Type::kClose})
      EXPECT_EQ((co_await peer.Call(type, wire::EmptyReply{})).status().code(), Code::kInvalidArgument)
          << wire::TypeName(type);
    EXPECT_TRUE((co_await peer.Call(Type::kPut, PutOf("k"), AsBytes("hello"))).ok());
  });
}

TEST_F(ConnectionTest, UnknownTypesAndASecondHelloAreRefused) {
  Run([](TestPeer& peer) -> rt::Task<void> {
    EXPECT_EQ((co_await peer.Call(static_cast<Type>(99), wire::EmptyReply{})).status().code(),
              Code::kUnimplemented);
    EXPECT_EQ((co_await peer.Call(static_cast<Type>(0), wire::EmptyReply{})).status().code(),
              Code::kUnimplemented);
    EXPECT_EQ((co_await peer.Hello()).code(), Code::kUnimplemented);
  });
}

TEST_F(ConnectionTest, AnotherTenantsNameIsRefused) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    peer.tenant = static_cast<TenantId>(2);
    const auto refused = co_await peer.Call(Type::kPut, PutOf("k"), AsBytes("hello"));
    EXPECT_EQ(refused.status().code(), Code::kPermissionDenied);
    EXPECT_EQ(co_await Load("k"), "NOT_FOUND");
  });
}

TEST_F(ConnectionTest, RightsAreTheSessions) {
  auth::Grant readers = auth::Grant::Root("root-1");
  readers.rights = auth::RightSet::Proven().With(auth::Right::kGet);
  const auth::OpenedSession session = OpenSession(readers);
  reactor_->BlockOn([&]() -> rt::Task<void> {
    const auto peer = co_await Connect(session);
    EXPECT_EQ((co_await peer->Hello()).ToString(), "OK");
    const auto put = co_await peer->Call(Type::kPut, PutOf("k"), AsBytes("hello"));
    EXPECT_EQ(wire::DecodeBody<wire::StoredListReply>(put->view.body)->items[0].code, Code::kPermissionDenied);
    EXPECT_EQ((co_await peer->Call(Type::kPutBegin, wire::PutBeginRequest{.bucket = "models", .key = "k"}))
                  .status()
                  .code(),
              Code::kPermissionDenied);
    EXPECT_EQ((co_await peer->Call(Type::kPutAbort, wire::PutAbortRequest{.handle = 1})).status().code(),
              Code::kPermissionDenied);
    EXPECT_TRUE((co_await peer->Call(Type::kExists, wire::ExistsRequest{{{"models", "k"}}})).ok());
    co_await peer->endpoint->Fence(Status::Unavailable("done"));
  });
}

TEST_F(ConnectionTest, EachObjectOfARequestMustBeCovered) {
  auth::Grant grant = auth::Grant::Root("root-1");
  grant.bucket = "models";
  grant.prefix = "p/";
  const auth::OpenedSession session = OpenSession(grant);
  Do(Store("p/in", AsBytes("inside")));
  Do(Store("q/out", AsBytes("outside")));
  reactor_->BlockOn([&]() -> rt::Task<void> {
    const auto peer = co_await Connect(session);
    EXPECT_EQ((co_await peer->Hello()).ToString(), "OK");
    const auto found = co_await peer->Call(
        Type::kExists, wire::ExistsRequest{{{"models", "p/in"}, {"models", "q/out"}, {"models", "p"}, {"other", "p/in"}}});
    EXPECT_TRUE(found.ok()) << found.status().ToString();
    const auto list = wire::DecodeBody<wire::StoredListReply>(found->view.body);
    EXPECT_EQ(list->items[0].code, Code::kOk);
    for (size_t i = 1; i < 4; ++i) EXPECT_EQ(list->items[i].code, Code::kPermissionDenied) << i;
    EXPECT_NE(list->items[1].message.find("the right `get` on `models/q/out` is missing"), std::string::npos)
        << list->items[1].message;
    const auto got = co_await peer->Call(
        Type::kGet, wire::GetRequest{.inline_allowed = true,
                                     .items = {{.bucket = "models", .key = "p/in", .length = 100},
                                               {.bucket = "models", .key = "q/out", .length = 100}}});
    EXPECT_TRUE(got.ok()) << got.status().ToString();
    EXPECT_EQ(AsText(got->view.payload), "inside");
    EXPECT_EQ(wire::DecodeBody<wire::GetReply>(got->view.body)->items[1].code, Code::kPermissionDenied);
    const auto put = co_await peer->Call(Type::kPut, PutOf("q/new"), AsBytes("hello"));
    EXPECT_EQ(wire::DecodeBody<wire::StoredListReply>(put->view.body)->items[0].code, Code::kPermissionDenied);
    EXPECT_EQ((co_await peer->Call(Type::kPutBegin, wire::PutBeginRequest{.bucket = "models", .key = "q/new"}))
                  .status()
                  .code(),
              Code::kPermissionDenied);
    EXPECT_EQ(co_await Load("q/new"), "NOT_FOUND");
    co_await peer->endpoint->Fence(Status::Unavailable("done"));
  });
}

// ---- sessions ----

TEST_F(ConnectionTest, OnlyAHelloOfAnOpenSessionIsLetIn) {
  reactor_->BlockOn([&]() -> rt::Task<void> {
    const auto refused = [&](std::string_view why, std::unique_ptr<TestPeer> peer,
                             Bytes message) -> rt::Task<void> {
      (void)co_await peer->endpoint->Send(std::move(message));
      co_await ExpectFenced(*peer, why);
      co_await ExpectServerLives(why);
    };
    auth::OpenedSession session = OpenSession();
    auto peer = co_await Connect(session);
    Bytes message = peer->Make(peer->Next(Type::kExists), wire::ExistsRequest{{{"models", "k"}}});
    co_await refused("something before Hello", std::move(peer), message);

    session.id ^= 1;
    peer = co_await Connect(session);
    message = peer->Make(peer->Next(Type::kHello), wire::HelloRequest{"x"});
    co_await refused("unknown session", std::move(peer), message);

    session = OpenSession();
    session.key = auth::Secret::Generate(random_);
    peer = co_await Connect(session);
    message = peer->Make(peer->Next(Type::kHello), wire::HelloRequest{"x"});
    co_await refused("wrong key", std::move(peer), message);

    session = OpenSession();
    EXPECT_TRUE(sessions_.Close(session.id, TenantId::kRoot).ok());
    peer = co_await Connect(session);
    message = peer->Make(peer->Next(Type::kHello), wire::HelloRequest{"x"});
    co_await refused("closed session", std::move(peer), message);

    session = OpenSession();
    const auto first = co_await Connect(session);
    EXPECT_EQ((co_await first->Hello()).ToString(), "OK");
    peer = co_await Connect(session);
    message = peer->Make(peer->Next(Type::kHello), wire::HelloRequest{"x"});
    co_await refused("bound session", std::move(peer), message);
    co_await first->endpoint->Fence(Status::Unavailable("done"));
  });
}

TEST_F(ConnectionTest, AClosedSessionEndsItsConnection) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    EXPECT_TRUE(sessions_.Close(peer.id, TenantId::kRoot).ok());
    (void)co_await peer.endpoint->Send(peer.Make(peer.Next(Type::kPut), PutOf("k"), AsBytes("hello")));
    co_await ExpectFenced(peer, "closed");
  });
  EXPECT_EQ(ObjectCount(), 0u);
  Do(server_.Stop(base::Duration::zero()));
  EXPECT_EQ(sessions_.size(), 0u);
}

TEST_F(ConnectionTest, RevokingEndsIdleConnectionsAndTransfersUnderWay) {
  auth::Grant revoked = auth::Grant::Root("root-1");
  revoked.epoch = 5;
  auth::Grant kept = revoked;
  kept.epoch = 6;
  Do(Store("a", Pattern(30 * base::kMiB, 1)));
  const auth::OpenedSession idle_session = OpenSession(revoked);
  const auth::OpenedSession busy_session = OpenSession(revoked);
  const auth::OpenedSession other_session = OpenSession(kept);
  reactor_->BlockOn([&]() -> rt::Task<void> {
    const auto idle = co_await Connect(idle_session);
    const auto busy = co_await Connect(busy_session);
    const auto other = co_await Connect(other_session);
    for (TestPeer* const peer : {idle.get(), busy.get(), other.get()})
      EXPECT_EQ((co_await peer->Hello()).ToString(), "OK");
    Bytes memory(30 * base::kMiB);
    fabric_.Hold();
    (void)co_await busy->endpoint->Send(
        busy->Make(busy->Next(Type::kGet), GetRequest{false,
                                                      busy->Offer(memory, Direction::kPeerWrites),
                                                      {{.bucket = "models", .key = "a", .length = memory.size()}}}));
    co_await fabric_.Began(1);
    EXPECT_EQ(sessions_.Revoke([](const auth::Grant& grant) { return grant.epoch == 5; }), 2u);
    for (int i = 0; i < 20; ++i) co_await reactor_->Yield();
    const size_t under_way = fabric_.writes();
    EXPECT_LT(under_way, 30u);
    fabric_.Release();
    co_await ExpectFenced(*idle, "revoked");
    co_await ExpectFenced(*busy, "revoked");
    EXPECT_EQ(fabric_.writes(), under_way) << "no chunk was begun afterwards";
    EXPECT_TRUE((co_await other->Call(Type::kExists, wire::ExistsRequest{{{"models", "a"}}})).ok());
    co_await other->endpoint->Fence(Status::Unavailable("done"));
  });
}

TEST_F(ConnectionTest, RevokingEndsAThousandSessionsAtOnce) {
  constexpr size_t kSessions = 1000;
  const size_t connections_before = server_.connections();
  reactor_->BlockOn([&]() -> rt::Task<void> {
    std::vector<std::unique_ptr<TestPeer>> peers;
    for (size_t i = 0; i < kSessions; ++i) {
      peers.push_back(co_await Connect());
      EXPECT_EQ((co_await peers.back()->Hello()).ToString(), "OK");
    }
    EXPECT_EQ(sessions_.Revoke([](const auth::Grant&) { return true; }), kSessions);
    for (const auto& peer : peers) co_await ExpectFenced(*peer, "revoked");
    while (server_.connections() != connections_before) co_await reactor_->Yield();
  });
  EXPECT_EQ(sessions_.size(), 0u);
}

TEST_F(ConnectionTest, AConnectionEndsWhenItsGrantExpires) {
  auth::Grant grant = auth::Grant::Root("root-1");
  grant.expires = clock_.WallNow() + std::chrono::seconds(60);
  const auth::OpenedSession by_timer = OpenSession(grant);
  const auth::OpenedSession by_wall = OpenSession(grant);
  reactor_->BlockOn([&]() -> rt::Task<void> {
    const auto first = co_await Connect(by_timer);
    const auto second = co_await Connect(by_wall);
    EXPECT_EQ((co_await first->Hello()).ToString(), "OK");
    EXPECT_EQ((co_await second->Hello()).ToString(), "OK");
    EXPECT_TRUE((co_await second->Call(Type::kExists, wire::ExistsRequest{{{"models", "a"}}})).ok());
    // The wall clock jumps: what is asked for from now on is refused, though no timer fires.
    clock_.JumpWall(std::chrono::hours(1));
    (void)co_await second->endpoint->Send(second->Make(second->Next(Type::kPut), PutOf("k"), AsBytes("hello")));
    co_await ExpectFenced(*second, "jump");
    clock_.JumpWall(-std::chrono::hours(1));
    clock_.Advance(std::chrono::seconds(60));
    co_await ExpectFenced(*first, "expiry");
  });
  EXPECT_EQ(ObjectCount(), 0u);
}

TEST_F(ConnectionTest, WhoeverSaysNothingIsSentAway) {
  reactor_->BlockOn([&]() -> rt::Task<void> {
    const auto peer = co_await Connect();
    for (int i = 0; i < 20; ++i) co_await reactor_->Yield();  // until the server listens to it
    EXPECT_EQ(server_.connections(), 1u);
    clock_.Advance(ServerOptions().hello_within);
    co_await ExpectFenced(*peer, "silence");
  });
}

// ---- many requests, cancellation, deadlines ----

TEST_F(ConnectionTest, TooManyRequestsAreRefusedAtOnce) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    co_await Store("a", Pattern(4096, 1));
    Bytes memory(4096);
    const GetRequest get{false,
                         peer.Offer(memory, Direction::kPeerWrites),
                         {{.bucket = "models", .key = "a", .length = 4096}}};
    fabric_.Hold();
    const uint32_t limit = ServerOptions().max_requests;
    for (uint32_t i = 0; i < limit; ++i)
      (void)co_await peer.endpoint->Send(peer.Make(peer.Next(Type::kGet), get));
    const auto refused = co_await peer.Call(Type::kGet, get);
    EXPECT_EQ(refused.status().code(), Code::kResourceExhausted);
    fabric_.Release();
    for (uint32_t i = 0; i < limit; ++i) EXPECT_EQ((co_await peer.Receive())->view.header.status, Code::kOk);
    EXPECT_TRUE((co_await peer.Call(Type::kGet, get)).ok());
  });
}

TEST_F(ConnectionTest, ARequestNumberInFlightIsNotTakenTwice) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    co_await Store("a", Pattern(4096, 1));
    Bytes memory(4096);
    const GetRequest get{false,
                         peer.Offer(memory, Direction::kPeerWrites),
                         {{.bucket = "models", .key = "a", .length = 4096}}};
    fabric_.Hold();
    (void)co_await peer.endpoint->Send(peer.Make(peer.Next(Type::kGet), get));
    wire::Header again = peer.Next(Type::kGet);
    again.request = --peer.request;
    EXPECT_EQ((co_await peer.Exchange(peer.Make(again, get), again.request)).status().code(),
              Code::kInvalidArgument);
    fabric_.Release();
    EXPECT_EQ((co_await peer.Receive())->view.header.status, Code::kOk);
  });
}

TEST_F(ConnectionTest, CancelWaitsForTheTransferUnderWayAndStopsTheRest) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    co_await Store("a", Pattern(30 * base::kMiB, 1));
    Bytes memory(30 * base::kMiB);
    const GetRequest get{false,
                         peer.Offer(memory, Direction::kPeerWrites),
                         {{.bucket = "models", .key = "a", .length = memory.size()}}};
    fabric_.Hold();
    (void)co_await peer.endpoint->Send(peer.Make(peer.Next(Type::kGet), get));
    const uint64_t target = peer.request;
    co_await fabric_.Began(1);
    (void)co_await peer.endpoint->Send(peer.Make(peer.Next(Type::kCancel), wire::CancelRequest{target}));
    for (int i = 0; i < 20; ++i) co_await reactor_->Yield();
    const size_t under_way = fabric_.writes();
    EXPECT_LT(under_way, 30u);
    fabric_.Release();

    bool confirmed = false;
    bool answered = false;
    while (!confirmed || !answered) {
      const auto answer = co_await peer.Receive();
      EXPECT_TRUE(answer.ok());
      if (!answer.ok()) co_return;
      if (answer->view.header.request == target) {
        EXPECT_EQ(answer->view.header.status, Code::kCancelled);
        answered = true;
      } else {
        EXPECT_TRUE(wire::DecodeBody<wire::CancelReply>(answer->view.body)->was_running);
        confirmed = true;
        EXPECT_EQ(fabric_.writes(), under_way);
      }
    }
    const Bytes then = memory;
    for (int i = 0; i < 50; ++i) co_await reactor_->Yield();
    EXPECT_EQ(fabric_.writes(), under_way);
    EXPECT_TRUE(memory == then);
  });
}

TEST_F(ConnectionTest, ACancelledPutStoresNothing) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    Bytes memory = Pattern(5 * base::kMiB, 1);
    const wire::PutItem item{.bucket = "models",
                             .key = "k",
                             .size = memory.size(),
                             .crc32c = base::Crc32c(memory),
                             .source = wire::Source::kRegion};
    fabric_.Hold();
    (void)co_await peer.endpoint->Send(peer.Make(
        peer.Next(Type::kPut), wire::PutRequest{peer.Offer(memory, Direction::kPeerReads), {item}}));
    const uint64_t target = peer.request;
    co_await fabric_.Began(1);
    (void)co_await peer.endpoint->Send(peer.Make(peer.Next(Type::kCancel), wire::CancelRequest{target}));
    for (int i = 0; i < 20; ++i) co_await reactor_->Yield();
    fabric_.Release();
    for (int i = 0; i < 2; ++i) EXPECT_TRUE((co_await peer.Receive()).ok());
  });
  EXPECT_EQ(ObjectCount(), 0u);
}

TEST_F(ConnectionTest, CancellingWhatDoesNotRunSaysSo) {
  Run([](TestPeer& peer) -> rt::Task<void> {
    const auto answer = co_await peer.Call(Type::kCancel, wire::CancelRequest{12345});
    EXPECT_TRUE(answer.ok());
    EXPECT_FALSE(wire::DecodeBody<wire::CancelReply>(answer->view.body)->was_running);
    const auto itself = co_await peer.Call(Type::kCancel, wire::CancelRequest{peer.request + 1});
    EXPECT_FALSE(wire::DecodeBody<wire::CancelReply>(itself->view.body)->was_running);
  });
}

TEST_F(ConnectionTest, TheDeadlineEndsARequest) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    co_await Store("a", Pattern(30 * base::kMiB, 1));
    Bytes memory(30 * base::kMiB);
    const GetRequest get{false,
                         peer.Offer(memory, Direction::kPeerWrites),
                         {{.bucket = "models", .key = "a", .length = memory.size()}}};
    fabric_.Hold();
    wire::Header header = peer.Next(Type::kGet);
    header.deadline_us = 2'000'000;
    (void)co_await peer.endpoint->Send(peer.Make(header, get));
    co_await fabric_.Began(1);
    for (int i = 0; i < 20; ++i) co_await reactor_->Yield();
    const size_t under_way = fabric_.writes();
    clock_.Advance(std::chrono::seconds(2));
    fabric_.Release();
    EXPECT_EQ((co_await peer.Receive())->view.header.status, Code::kDeadlineExceeded);
    EXPECT_EQ(fabric_.writes(), under_way);
  });
}

TEST_F(ConnectionTest, AServerWithoutRoomForAChunkDoesNotStart) {
  Server small({.window_bytes = 2 * base::kMiB - 1}, {{fabric_, "anywhere:0"}}, store_, sessions_, rates_,
               {reactor_.get(), reactor_.get()}, *log_, audit_);
  EXPECT_EQ(Do(small.Start()).code(), Code::kInvalidArgument);
}

// ---- several ways in ----

TEST_F(ConnectionTest, AServerListensOnEachWayAndCountsWhatWentOverIt) {
  Server both({}, {{memory_fabric_, "here:0"}, {memory_fabric_, "there:0"}}, store_, sessions_, rates_,
              {reactor_.get()}, *log_, audit_);
  ASSERT_EQ(Do(both.Start()).ToString(), "OK");
  ASSERT_EQ(both.addresses().size(), 2u);
  reactor_->BlockOn([this, &both]() -> rt::Task<void> {
    co_await Store("a", Pattern(40'000, 1));
    auto endpoint = co_await memory_fabric_.Connect(*reactor_, both.addresses()[1], {}, base::kNever);
    TestPeer peer(*std::move(endpoint), OpenSession());
    EXPECT_EQ((co_await peer.Hello()).ToString(), "OK");
    Bytes memory(40'000);
    const GetRequest get{false,
                         peer.Offer(memory, Direction::kPeerWrites),
                         {{.bucket = "models", .key = "a", .length = memory.size()}}};
    EXPECT_EQ((co_await peer.Call(Type::kGet, get)).status().ToString(), "OK");
    std::vector<Traffic> traffic = co_await both.AskTraffic(*reactor_);
    EXPECT_EQ(traffic[0].connections, 0u);
    EXPECT_EQ(traffic[0].stats.bytes_written, 0u);
    EXPECT_EQ(traffic[1].connections, 1u);
    EXPECT_EQ(traffic[1].stats.writes, 1u);
    EXPECT_EQ(traffic[1].stats.bytes_written, 40'000u);
    co_await peer.endpoint->Fence(Status::Unavailable("gone"));
    while (both.connections() != 0) co_await reactor_->Yield();
    traffic = co_await both.AskTraffic(*reactor_);
    EXPECT_EQ(traffic[1].connections, 0u);
    EXPECT_EQ(traffic[1].stats.bytes_written, 40'000u);  // counts go on without the connection
  });
  Do(both.Stop(base::Duration::zero()));
}

TEST_F(ConnectionTest, AServerThatCannotListenOnOneWayListensOnNone) {
  Server taken({}, {{memory_fabric_, "free:0"}, {memory_fabric_, server_.addresses().front()}}, store_,
               sessions_, rates_, {reactor_.get()}, *log_, audit_);
  const Status status = Do(taken.Start());
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("memory"), std::string_view::npos) << status.ToString();
  EXPECT_TRUE(taken.addresses().empty());
}

// ---- the server's end ----

TEST_F(ConnectionTest, StopLetsRequestsFinishAndTakesNoNewOnes) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    const Bytes content = Pattern(4096, 1);
    co_await Store("a", content);
    Bytes memory(4096);
    const GetRequest get{false,
                         peer.Offer(memory, Direction::kPeerWrites),
                         {{.bucket = "models", .key = "a", .length = 4096}}};
    fabric_.Hold();
    (void)co_await peer.endpoint->Send(peer.Make(peer.Next(Type::kGet), get));
    const uint64_t running = peer.request;
    co_await fabric_.Began(1);
    rt::Gate stopping(*reactor_);
    reactor_->Spawn(stopping, [this] { return server_.Stop(std::chrono::seconds(2)); });
    for (int i = 0; i < 20; ++i) co_await reactor_->Yield();
    const auto refused = co_await peer.Call(Type::kGet, get);
    EXPECT_EQ(refused.status().code(), Code::kUnavailable);
    fabric_.Release();
    const auto finished = co_await peer.Receive();
    EXPECT_EQ(finished->view.header.request, running);
    EXPECT_EQ(finished->view.header.status, Code::kOk);
    EXPECT_EQ(memory, content);
    co_await ExpectFenced(peer, "stopped");
    co_await stopping.Close();
    EXPECT_EQ(server_.connections(), 0u);
    const auto late =
        co_await memory_fabric_.Connect(*reactor_, server_.addresses().front(), {}, base::kNever);
    EXPECT_FALSE(late.ok());
  });
}

TEST_F(ConnectionTest, AConnectionThatEndsInTheMiddleGivesEverythingBack) {
  Run([this](TestPeer& peer) -> rt::Task<void> {
    co_await Store("a", Pattern(20 * base::kMiB, 1));
    Bytes memory(20 * base::kMiB);
    const GetRequest get{false,
                         peer.Offer(memory, Direction::kPeerWrites),
                         {{.bucket = "models", .key = "a", .length = memory.size()}}};
    fabric_.Hold();
    (void)co_await peer.endpoint->Send(peer.Make(peer.Next(Type::kGet), get));
    co_await fabric_.Began(1);
    co_await peer.endpoint->Fence(Status::Unavailable("gone"));
    fabric_.Release();
    while (server_.connections() != 0) co_await reactor_->Yield();
    EXPECT_TRUE((co_await store_.Delete(context_, "models", "a", {})).ok());
  });
  EXPECT_EQ(arena_->free_bytes(), arena_->size_bytes());
}

}  // namespace
}  // namespace forebay::native
