// SPDX-License-Identifier: Apache-2.0
// A data session against servers that lie, are slow, or never answer.
#include "client/data_session.h"

#include <functional>

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "base/random.h"
#include "client/operations.h"
#include "fabric/memory_fabric.h"

namespace forebay::client {
namespace {

using wire::Type;

/// The server's end: says exactly what a test wants.
class Server {
 public:
  Server(std::unique_ptr<fabric::Endpoint> accepted, const auth::Secret& key)
      : endpoint(std::move(accepted)), mac_(key.view()) {}

  struct Request {
    Bytes bytes;
    wire::MessageView view;
  };
  rt::Task<Request> Receive() {
    Result<Bytes> bytes = co_await endpoint->Receive();
    EXPECT_TRUE(bytes.ok()) << bytes.status().ToString();
    Request request;
    if (!bytes.ok()) co_return request;
    request.bytes = *std::move(bytes);
    request.view = *wire::DecodeMessage(request.bytes);
    co_return request;
  }
  wire::Header ReplyTo(const wire::Header& request) {
    return {.type = request.type,
            .reply = true,
            .session = request.session,
            .counter = ++counter,
            .tenant = request.tenant,
            .request = request.request};
  }
  void Sign(Bytes& message, size_t payload_bytes = 0) const {
    std::ranges::fill(wire::MacOf(message), std::byte{0});
    const auto tag = mac_.Compute(wire::SignedPart(message, payload_bytes));
    std::copy_n(tag.begin(), wire::kMacBytes, wire::MacOf(message).begin());
  }
  template <typename Body>
  Bytes Make(const wire::Header& header, const Body& body, std::string_view payload = {}) const {
    Bytes message = wire::EncodeMessage(header, body, AsBytes(payload));
    Sign(message, payload.size());
    return message;
  }
  template <typename Body>
  rt::Task<Status> Answer(const Request& request, Body body, std::string_view payload = {}) {
    return endpoint->Send(Make(ReplyTo(request.view.header), body, payload));
  }

  const std::unique_ptr<fabric::Endpoint> endpoint;
  uint64_t counter = 0;

 private:
  const auth::MessageMac mac_;
};

fabric::RegionToken TokenOf(const Server::Request& request) {
  const auto get = wire::DecodeBody<wire::GetRequest>(request.view.body);
  EXPECT_TRUE(get.ok());
  return {.key = get->region.key, .length = get->region.length, .direction = fabric::Direction::kPeerWrites};
}

wire::GetReply Got(std::string_view content, uint64_t size) {
  return {true,
          {{.size = size,
            .total_size = size,
            .version = 1,
            .crc32c = base::Crc32c(AsBytes(content)),
            .etag = "e"}}};
}

class DataSessionTest : public testing::Test {
 protected:
  using Play = std::function<rt::Task<void>(Server&)>;

  DataSessionTest()
      : reactor_(*rt::Reactor::Create({.name = "test", .clock = &clock_})),
        arena_(*base::Arena::Create(4 * base::kMiB)),
        fabric_(random_),
        key_{.id = 77, .tenant = TenantId::kRoot, .key = auth::Secret::Generate(random_)} {}

  /// Runs `server` on the other end, after Hello, and `client` with the session; then ends both.
  void Run(Play server, std::function<rt::Task<void>(DataSession&)> client) {
    reactor_->BlockOn([&]() -> rt::Task<void> {
      const auto listener = *fabric_.Listen(*reactor_, "anywhere:0", {});
      rt::Gate gate(*reactor_);
      std::unique_ptr<Server> other;
      reactor_->Spawn(gate, [&]() -> rt::Task<void> {
        other = std::make_unique<Server>(*co_await listener->Accept(*reactor_), key_.key);
        const auto hello = co_await other->Receive();
        EXPECT_EQ(hello.view.header.type, Type::kHello);
        EXPECT_EQ(hello.view.header.counter, 1u);
        (void)co_await other->Answer(hello, wire::HelloReply{4, 4, 8192, 1 << 20, "test"});
        co_await server(*other);
      });
      auto endpoint = co_await fabric_.Connect(*reactor_, listener->address(), {}, base::kNever);
      auto session = co_await DataSession::Open(*std::move(endpoint), key_, base::kNever);
      EXPECT_TRUE(session.ok()) << session.status().ToString();
      if (session.ok()) {
        co_await client(**session);
        co_await (*session)->Close(Status::Unavailable("the test is over"));
      }
      co_await gate.Close();
      co_await other->endpoint->Fence(Status::Unavailable("the test is over"));
      co_await listener->Close();
    });
  }
  rt::Task<std::expected<GetResult, Error>> Get(DataSession& session, MutableByteView into,
                                                base::Duration within = std::chrono::hours(1)) {
    const GetItem item{.bucket = "models", .key = "k", .region_offset = 0, .length = into.size()};
    auto results = co_await GetItems(session, {&item, 1}, into, clock_.Now() + within);
    if (!results.ok()) co_return std::unexpected(ToError(results.status()));
    co_return std::move(results->front());
  }
  std::vector<base::Buffer> BufferOf(std::string_view content) {
    base::Buffer buffer = *arena_->Allocate(content.size());
    std::ranges::copy(AsBytes(content), buffer.writable().begin());
    return {buffer};
  }

  /// The server answers a get of 10,000 bytes by `reply`; the client must see `code`, and the session must
  /// then be as said.
  void ExpectGet(std::string_view why, std::function<rt::Task<void>(Server&, const Server::Request&)> reply,
                 Code code, bool session_lives) {
    SCOPED_TRACE(why);
    Run([&](Server& server) -> rt::Task<void> { co_await reply(server, co_await server.Receive()); },
        [&](DataSession& session) -> rt::Task<void> {
          Bytes memory(10'000);
          const auto got = co_await Get(session, memory);
          EXPECT_EQ(got ? Code::kOk : got.error().code, code) << (got ? "" : got.error().message);
          for (int i = 0; i < 5; ++i) co_await reactor_->Yield();
          EXPECT_EQ(session.state().ok(), session_lives) << session.state().ToString();
        });
  }

  base::FakeClock clock_;
  base::SeededRandom random_{3};
  const std::unique_ptr<rt::Reactor> reactor_;
  const std::unique_ptr<base::Arena> arena_;
  fabric::MemoryFabric fabric_;
  const SessionKey key_;
};

TEST_F(DataSessionTest, AnHonestAnswerIsBelieved) {
  ExpectGet(
      "inline",
      [](Server& server, const Server::Request& request) -> rt::Task<void> {
        (void)co_await server.Answer(request, Got("hello", 5), "hello");
      },
      Code::kOk, true);
}

TEST_F(DataSessionTest, AServersErrorIsTheCalls) {
  ExpectGet(
      "error",
      [](Server& server, const Server::Request& request) -> rt::Task<void> {
        wire::Header header = server.ReplyTo(request.view.header);
        header.status = Code::kResourceExhausted;
        (void)co_await server.endpoint->Send(server.Make(header, wire::ErrorReply{"busy"}));
      },
      Code::kResourceExhausted, true);
}

TEST_F(DataSessionTest, AMessageThatIsNotTheServersEndsTheSession) {
  const auto tampered = [](std::function<void(Server&, Bytes&)> tamper) {
    return [tamper](Server& server, const Server::Request& request) -> rt::Task<void> {
      Bytes message = server.Make(server.ReplyTo(request.view.header), Got("hello", 5), "hello");
      tamper(server, message);
      (void)co_await server.endpoint->Send(std::move(message));
    };
  };
  const auto flip = [](size_t at, bool sign) {
    return [at, sign](Server& server, Bytes& message) {
      message[at] ^= std::byte{1};
      if (sign) server.Sign(message, 5);
    };
  };
  ExpectGet("MAC", tampered(flip(wire::kMacOffset, false)), Code::kUnavailable, false);
  ExpectGet("body", tampered(flip(wire::kHeaderBytes + 5, false)), Code::kUnavailable, false);
  ExpectGet("counter", tampered(flip(33, true)), Code::kUnavailable, false);
  ExpectGet("session", tampered(flip(24, true)), Code::kUnavailable, false);
  ExpectGet("a request instead of a reply", tampered(flip(6, true)), Code::kUnavailable, false);
  ExpectGet("another type", tampered(flip(5, true)), Code::kUnavailable, false);
  ExpectGet("nobody's request", tampered(flip(73, true)), Code::kUnavailable, false);
  ExpectGet("cut short", tampered([](Server&, Bytes& message) { message.pop_back(); }), Code::kUnavailable,
            false);
  ExpectGet("empty", tampered([](Server&, Bytes& message) { message.clear(); }), Code::kUnavailable, false);
}

TEST_F(DataSessionTest, AnAnswerThatMakesNoSenseEndsTheSession) {
  const auto answer = [](wire::GetReply reply, std::string_view payload) {
    return [reply, payload](Server& server, const Server::Request& request) -> rt::Task<void> {
      (void)co_await server.Answer(request, reply, payload);
    };
  };
  ExpectGet("more than was asked for", answer(Got("hello", 10'001), "hello"), Code::kInternal, false);
  ExpectGet("a length that wraps", answer(Got("hello", UINT64_MAX), "hello"), Code::kInternal, false);
  ExpectGet("less payload than said", answer(Got("hello", 6), "hello"), Code::kInternal, false);
  ExpectGet("more payload than said", answer(Got("hell", 4), "hello"), Code::kInternal, false);
  wire::GetReply two = Got("hello", 5);
  two.items.push_back(two.items[0]);
  ExpectGet("two answers to one", answer(two, "hello"), Code::kInternal, false);
  ExpectGet(
      "another body",
      [](Server& server, const Server::Request& request) -> rt::Task<void> {
        (void)co_await server.Answer(request, wire::PutBeginReply{1});
      },
      Code::kInternal, false);
}

TEST_F(DataSessionTest, AWrongChecksumIsDataLoss) {
  ExpectGet(
      "inline",
      [](Server& server, const Server::Request& request) -> rt::Task<void> {
        (void)co_await server.Answer(request, Got("jello", 5), "hello");
      },
      Code::kDataLoss, true);
  ExpectGet(
      "claims to have written",
      [](Server& server, const Server::Request& request) -> rt::Task<void> {
        wire::GetReply reply = Got("hello", 5);
        reply.inlined = false;  // nothing was written: the zeros in the buffer do not have that checksum
        (void)co_await server.Answer(request, reply);
      },
      Code::kDataLoss, true);
}

TEST_F(DataSessionTest, SmallGetsOfferNoMemory) {
  Run(
      [](Server& server) -> rt::Task<void> {
        const auto request = co_await server.Receive();
        EXPECT_EQ(TokenOf(request).key, 0u);
        wire::GetReply reply = Got("hello", 5);
        reply.inlined = false;
        (void)co_await server.Answer(request, reply);  // where should these bytes be?
      },
      [this](DataSession& session) -> rt::Task<void> {
        Bytes memory(100);
        const auto got = co_await Get(session, memory);
        EXPECT_EQ(got.error().code, Code::kInternal);
      });
}

TEST_F(DataSessionTest, OnlyTheExactRangeIsOfferedAndOnlyDuringTheCall) {
  Bytes memory(30'000, std::byte{7});
  Run(
      [this](Server& server) -> rt::Task<void> {
        const auto request = co_await server.Receive();
        const fabric::RegionToken token = TokenOf(request);
        EXPECT_EQ(token.length, 10'000u);
        EXPECT_EQ((co_await server.endpoint->Write(token, 9'999, BufferOf("xx"), base::kNever)).code(),
                  Code::kPermissionDenied);
        EXPECT_EQ((co_await server.endpoint->Write(token, UINT64_MAX, BufferOf("xx"), base::kNever)).code(),
                  Code::kPermissionDenied);
        fabric::RegionToken guessed = token;
        ++guessed.key;
        EXPECT_EQ((co_await server.endpoint->Write(guessed, 0, BufferOf("xx"), base::kNever)).code(),
                  Code::kPermissionDenied);
        Bytes stolen(10);
        fabric::RegionToken reading = token;
        reading.direction = fabric::Direction::kPeerReads;
        EXPECT_EQ((co_await server.endpoint->Read(reading, 0, stolen, base::kNever)).code(),
                  Code::kPermissionDenied);
        EXPECT_TRUE((co_await server.endpoint->Write(token, 0, BufferOf("hello"), base::kNever)).ok());
        wire::GetReply reply = Got("hello", 5);
        reply.inlined = false;
        (void)co_await server.Answer(request, reply);
        for (int i = 0; i < 5; ++i) co_await reactor_->Yield();
        EXPECT_EQ((co_await server.endpoint->Write(token, 0, BufferOf("late!"), base::kNever)).code(),
                  Code::kPermissionDenied);
      },
      [&](DataSession& session) -> rt::Task<void> {
        const auto got = co_await Get(session, MutableByteView(memory).subspan(10'000, 10'000));
        EXPECT_TRUE(got) << (got ? "" : got.error().message);
        for (int i = 0; i < 20; ++i) co_await reactor_->Yield();
        EXPECT_TRUE(session.state().ok());
      });
  EXPECT_EQ(AsText(ByteView(memory).subspan(10'000, 5)), "hello");
  EXPECT_TRUE(
      std::all_of(memory.begin(), memory.begin() + 10'000, [](std::byte b) { return b == std::byte{7}; }));
  EXPECT_TRUE(
      std::all_of(memory.begin() + 10'005, memory.end(), [](std::byte b) { return b == std::byte{7}; }));
}

TEST_F(DataSessionTest, ALateServerIsToldToStopAndTheSessionLives) {
  Bytes memory(10'000);
  Run(
      [&](Server& server) -> rt::Task<void> {
        const auto get = co_await server.Receive();
        clock_.Advance(std::chrono::seconds(2));
        const auto cancel = co_await server.Receive();
        EXPECT_EQ(cancel.view.header.type, Type::kCancel);
        EXPECT_EQ(wire::DecodeBody<wire::CancelRequest>(cancel.view.body)->request, get.view.header.request);
        // The call has withdrawn its memory before it even asked.
        EXPECT_EQ((co_await server.endpoint->Write(TokenOf(get), 0, BufferOf("late!"), base::kNever)).code(),
                  Code::kPermissionDenied);
        (void)co_await server.Answer(cancel, wire::CancelReply{true});
        (void)co_await server.Answer(get, Got("hello", 5), "hello");  // the answer nobody waits for any more
        const auto next = co_await server.Receive();
        (void)co_await server.Answer(next, Got("again", 5), "again");
      },
      [&](DataSession& session) -> rt::Task<void> {
        const auto late = co_await Get(session, memory, std::chrono::seconds(2));
        EXPECT_EQ(late.error().code, Code::kDeadlineExceeded);
        EXPECT_EQ(memory, Bytes(10'000));
        const auto next = co_await Get(session, memory);
        EXPECT_TRUE(next) << (next ? "" : next.error().message);
        EXPECT_EQ(AsText(ByteView(memory).first(5)), "again");
        EXPECT_TRUE(session.state().ok());
      });
}

TEST_F(DataSessionTest, WithoutAConfirmationTheConnectionIsFenced) {
  Bytes memory(10'000);
  base::Duration took{};
  Run(
      [&](Server& server) -> rt::Task<void> {
        const auto get = co_await server.Receive();
        clock_.Advance(std::chrono::seconds(2));
        const auto cancel = co_await server.Receive();
        EXPECT_EQ(cancel.view.header.type, Type::kCancel);
        clock_.Advance(kCancelWithin);
        const auto gone = co_await server.endpoint->Receive();
        EXPECT_EQ(gone.status().code(), Code::kUnavailable);
        EXPECT_FALSE(
            (co_await server.endpoint->Write(TokenOf(get), 0, BufferOf("late!"), base::kNever)).ok());
      },
      [&](DataSession& session) -> rt::Task<void> {
        const base::TimePoint began = clock_.Now();
        const auto late = co_await Get(session, memory, std::chrono::seconds(2));
        took = clock_.Now() - began;
        EXPECT_EQ(late.error().code, Code::kDeadlineExceeded);
        EXPECT_EQ(session.state().code(), Code::kUnavailable);
        const auto next = co_await Get(session, memory);
        EXPECT_EQ(next.error().code, Code::kUnavailable);
      });
  EXPECT_LE(took, std::chrono::seconds(3));
  EXPECT_EQ(memory, Bytes(10'000));
}

TEST_F(DataSessionTest, CallsBeyondTheServersLimitWaitForAPlace) {
  Run(
      [&](Server& server) -> rt::Task<void> {
        std::vector<Server::Request> requests;
        for (int i = 0; i < 4; ++i)
          requests.push_back(co_await server.Receive());  // as many as Hello allowed
        for (int i = 0; i < 10; ++i) co_await reactor_->Yield();
        EXPECT_EQ(server.endpoint->stats().messages_received, 5u);
        for (const auto& request : requests) (void)co_await server.Answer(request, Got("hello", 5), "hello");
        const auto last = co_await server.Receive();
        (void)co_await server.Answer(last, Got("hello", 5), "hello");
      },
      [&](DataSession& session) -> rt::Task<void> {
        rt::WaitGroup all(*reactor_);
        rt::Gate gate(*reactor_);
        Bytes memory(5 * 10'000);
        for (size_t i = 0; i < 5; ++i) {
          all.Add();
          reactor_->Spawn(gate, [&, i]() -> rt::Task<void> {
            const auto got = co_await Get(session, MutableByteView(memory).subspan(i * 10'000, 10'000));
            EXPECT_TRUE(got);
            all.Done();
          });
        }
        co_await all.Wait();
        co_await gate.Close();
      });
}

TEST_F(DataSessionTest, AServerThatDoesNotKnowTheKeyIsNotGreeted) {
  reactor_->BlockOn([&]() -> rt::Task<void> {
    const auto listener = *fabric_.Listen(*reactor_, "anywhere:0", {});
    rt::Gate gate(*reactor_);
    reactor_->Spawn(gate, [&]() -> rt::Task<void> {
      Server imposter(*co_await listener->Accept(*reactor_), auth::Secret());
      const auto hello = co_await imposter.Receive();
      (void)co_await imposter.Answer(hello, wire::HelloReply{4, 4, 8192, 1 << 20, "test"});
      EXPECT_FALSE((co_await imposter.endpoint->Receive()).ok());
      co_await imposter.endpoint->Fence(Status::Unavailable("done"));
    });
    auto endpoint = co_await fabric_.Connect(*reactor_, listener->address(), {}, base::kNever);
    const auto session = co_await DataSession::Open(*std::move(endpoint), key_, base::kNever);
    EXPECT_EQ(session.status().code(), Code::kUnavailable);
    co_await gate.Close();
    co_await listener->Close();
  });
}

TEST_F(DataSessionTest, PutsSendTheirChecksumAndBelieveNoOther) {
  Run(
      [](Server& server) -> rt::Task<void> {
        const auto request = co_await server.Receive();
        const auto put = wire::DecodeBody<wire::PutRequest>(request.view.body);
        EXPECT_EQ(put->items[0].crc32c, 0xe3069283u);  // of "123456789", the checksum's check value
        EXPECT_FALSE(put->items[0].operation.IsNone());
        EXPECT_EQ(AsText(request.view.payload), "123456789");
        (void)co_await server.Answer(
            request, wire::StoredListReply{{{.size = 9, .version = 1, .crc32c = 1, .etag = "e"}}});
      },
      [&](DataSession& session) -> rt::Task<void> {
        const PutItem item{.bucket = "models", .key = "k", .region_offset = 0, .length = 9};
        OperationIds ids(clock_, random_);
        ids.Learn(1'700'000'000'000);
        const auto tickets = *TicketsFor({&item, 1}, AsBytes("123456789"), ids);
        const auto put = co_await PutItems(session, {&item, 1}, tickets, AsBytes("123456789"), base::kNever);
        EXPECT_TRUE(put.ok());
        EXPECT_EQ(put->front().error().code, Code::kDataLoss);
      });
}

}  // namespace
}  // namespace forebay::client
