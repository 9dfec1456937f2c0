// SPDX-License-Identifier: Apache-2.0
#include "rt/tcp.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "rt/gate.h"
#include "rt/reactor_fixture.h"
#include "rt/when_all.h"

namespace forebay::rt {
namespace {

std::span<const std::byte> View(const std::string& text) { return std::as_bytes(std::span(text)); }
std::span<std::byte> Room(std::string& text) { return std::as_writable_bytes(std::span(text)); }

/// Bytes that differ at each position modulo a prime, so that a shifted or repeated piece shows.
std::string Pattern(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(i % 251);
  return bytes;
}

class TcpTest : public ReactorTest {
 protected:
  TcpListener Listen(TcpOptions options = {}) { return TcpListener::Listen(reactor(), "127.0.0.1", 0, options).value(); }

  /// The two ends of one connection.
  Task<std::pair<TcpStream, TcpStream>> Connected(TcpOptions options = {}) {
    TcpListener listener = Listen(options);
    auto client = co_await TcpStream::Connect(reactor(), listener.LocalAddress(), kNever, options);
    auto server = co_await listener.Accept();
    co_return std::pair(std::move(client).value(), std::move(server).value());
  }
};

TEST_F(TcpTest, EchoesOverIpv4AndIpv6) {
  for (const char* host : {"127.0.0.1", "::1"}) {
    auto listener = TcpListener::Listen(reactor(), host, 0);
    if (!listener.ok() && std::string(host) == "::1") GTEST_SKIP() << "no IPv6 here: " << listener.status().ToString();
    ASSERT_TRUE(listener.ok()) << listener.status().ToString();
    EXPECT_NE(listener->LocalAddress().port(), 0);
    reactor().BlockOn([&]() -> Task<void> {
      Gate gate(reactor());
      reactor().Spawn(gate, [&]() -> Task<void> {
        auto stream = (co_await listener->Accept()).value();
        std::string buffer(100, '\0');
        while (true) {
          const size_t got = (co_await stream.ReadSome(Room(buffer))).value();
          if (got == 0) break;
          EXPECT_TRUE((co_await stream.WriteAll(View(buffer).first(got))).ok());
        }
      });
      auto stream = (co_await TcpStream::Connect(reactor(), host, listener->LocalAddress().port())).value();
      EXPECT_EQ(stream.peer(), listener->LocalAddress());
      EXPECT_TRUE((co_await stream.WriteAll(View("through the forebay"))).ok());
      std::string back(19, '\0');
      EXPECT_TRUE((co_await stream.ReadExactly(Room(back))).ok());
      EXPECT_EQ(back, "through the forebay");
      EXPECT_TRUE(stream.ShutdownWrite().ok());
      EXPECT_EQ((co_await stream.ReadSome(Room(back))).value(), 0U);
      co_await gate.Close();
    });
  }
}

// Small socket buffers cut both directions into many short transfers.
TEST_F(TcpTest, MovesALargePayloadThroughSmallSocketBuffers) {
  const TcpOptions small{.send_buffer_bytes = 8192, .receive_buffer_bytes = 8192};
  const std::string payload = Pattern(3 * 1024 * 1024 + 17);
  reactor().BlockOn([&]() -> Task<void> {
    auto [client, server] = co_await Connected(small);
    Gate gate(reactor());
    reactor().Spawn(gate, [&]() -> Task<void> { EXPECT_TRUE((co_await client.WriteAll(View(payload))).ok()); });
    std::string got(payload.size(), '\0');
    EXPECT_TRUE((co_await server.ReadExactly(Room(got))).ok());
    EXPECT_TRUE(got == payload);
    co_await gate.Close();
  });
}

TEST_F(TcpTest, WritesManyPiecesInOrder) {
  const TcpOptions small{.send_buffer_bytes = 8192, .receive_buffer_bytes = 8192};
  const std::string payload = Pattern(1'000'000);
  reactor().BlockOn([&]() -> Task<void> {
    auto [client, server] = co_await Connected(small);
    // 1,500 pieces of 0, 7, 14, ... bytes and the rest: more than one sendmsg takes.
    std::vector<iovec> pieces;
    std::string source = payload;
    size_t at = 0;
    for (size_t i = 0; i < 1500; ++i) {
      const size_t size = std::min((i % 150) * 7, source.size() - at);
      pieces.push_back({source.data() + at, size});
      at += size;
    }
    pieces.push_back({source.data() + at, source.size() - at});
    Gate gate(reactor());
    reactor().Spawn(gate, [&]() -> Task<void> { EXPECT_TRUE((co_await client.WriteAllv(pieces)).ok()); });
    std::string got(payload.size(), '\0');
    EXPECT_TRUE((co_await server.ReadExactly(Room(got))).ok());
    EXPECT_TRUE(got == payload);
    co_await gate.Close();
    EXPECT_TRUE((co_await client.WriteAllv({})).ok());
  });
}

TEST_F(TcpTest, TellsACleanEndFromOneInTheMiddle) {
  reactor().BlockOn([&]() -> Task<void> {
    auto [client, server] = co_await Connected();
    EXPECT_TRUE((co_await client.WriteAll(View("abc"))).ok());
    EXPECT_TRUE(client.ShutdownWrite().ok());
    std::string got(2, '\0');
    EXPECT_TRUE((co_await server.ReadExactly(Room(got))).ok());
    const Status middle = co_await server.ReadExactly(Room(got));
    EXPECT_EQ(middle.code(), Code::kUnavailable);
    EXPECT_NE(middle.message().find("after 1 of 2 bytes"), std::string::npos) << middle.ToString();
    EXPECT_EQ((co_await server.ReadExactly(Room(got))).code(), Code::kOutOfRange);
  });
}

TEST_F(TcpTest, AResetByThePeerIsUnavailable) {
  reactor().BlockOn([&]() -> Task<void> {
    auto [client, server] = co_await Connected();
    {
      TcpStream gone = std::move(client);
      gone.Abort();
      EXPECT_TRUE(gone.aborted());
    }
    std::string got(1, '\0');
    EXPECT_EQ((co_await server.ReadSome(Room(got))).status().code(), Code::kUnavailable);
  });
}

TEST_F(TcpTest, RefusedConnectionsNameTheAddress) {
  SocketAddress address;
  { address = Listen().LocalAddress(); }
  reactor().BlockOn([&]() -> Task<void> {
    const auto refused = co_await TcpStream::Connect(reactor(), address);
    EXPECT_EQ(refused.status().code(), Code::kUnavailable);
    EXPECT_NE(refused.status().message().find(address.ToString()), std::string::npos) << refused.status().ToString();
    const auto name = co_await TcpStream::Connect(reactor(), "localhost", 1);
    EXPECT_EQ(name.status().code(), Code::kInvalidArgument) << "names are for Resolve";
  });
}

TEST_F(TcpTest, ReadsAndWritesEndAtTheirDeadline) {
  const TcpOptions small{.send_buffer_bytes = 8192, .receive_buffer_bytes = 8192};
  const std::string payload = Pattern(1 << 20);
  reactor().BlockOn([&]() -> Task<void> {
    auto [client, server] = co_await Connected(small);
    Gate gate(reactor());
    Status read;
    Status written;
    std::string got(1, '\0');
    reactor().Spawn(gate, [&]() -> Task<void> { read = co_await client.ReadExactly(Room(got), In(5ms)); });
    reactor().Spawn(gate, [&]() -> Task<void> { written = co_await client.WriteAll(View(payload), In(5ms)); });
    co_await Settle();
    clock_.Advance(5ms);
    co_await gate.Close();
    EXPECT_EQ(read.code(), Code::kDeadlineExceeded) << read.ToString();
    EXPECT_EQ(written.code(), Code::kDeadlineExceeded) << written.ToString();
  });
}

TEST_F(TcpTest, AbortEndsTheCallsInProgressAndLeavesBuffersAlone) {
  reactor().BlockOn([&]() -> Task<void> {
    auto [client, server] = co_await Connected();
    Gate gate(reactor());
    std::string got(16, '#');
    Status read;
    reactor().Spawn(gate, [&]() -> Task<void> { read = co_await server.ReadExactly(Room(got)); });
    co_await Settle();
    server.Abort();
    co_await gate.Close();
    EXPECT_EQ(read.code(), Code::kCancelled) << read.ToString();
    (void)co_await client.WriteAll(View("too late for you"));
    co_await Settle();
    EXPECT_EQ(got, std::string(16, '#'));
    EXPECT_EQ((co_await server.ReadSome(Room(got))).status().code(), Code::kCancelled);
  });
}

TEST_F(TcpTest, AStreamMayMoveWhileACallIsInProgress) {
  reactor().BlockOn([&]() -> Task<void> {
    auto [client, server] = co_await Connected();
    Gate gate(reactor());
    std::string got(2, '\0');
    Task<Status> read = server.ReadExactly(Room(got));
    TcpStream moved = std::move(server);
    reactor().Spawn(gate, [&]() -> Task<void> { EXPECT_TRUE((co_await std::move(read)).ok()); });
    co_await Settle();
    EXPECT_TRUE((co_await client.WriteAll(View("ok"))).ok());
    co_await gate.Close();
    EXPECT_EQ(got, "ok");
  });
}

TEST_F(TcpTest, AcceptsManyConnections) {
  constexpr size_t kConnections = 200;
  TcpListener listener = Listen();
  reactor().BlockOn([&]() -> Task<void> {
    Gate gate(reactor());
    reactor().Spawn(gate, [&]() -> Task<void> {
      for (size_t i = 0; i < kConnections; ++i) {
        auto stream = (co_await listener.Accept()).value();
        reactor().Spawn(gate, [stream = std::move(stream)]() mutable -> Task<void> {
          std::string number(4, '\0');
          EXPECT_TRUE((co_await stream.ReadExactly(Room(number))).ok());
          EXPECT_TRUE((co_await stream.WriteAll(View(number))).ok());
        });
      }
    });
    auto ask = [&](size_t i) -> Task<bool> {
      auto stream = (co_await TcpStream::Connect(reactor(), listener.LocalAddress())).value();
      const std::string sent = std::to_string(1000 + i);
      std::string back(4, '\0');
      if (!(co_await stream.WriteAll(View(sent))).ok()) co_return false;
      if (!(co_await stream.ReadExactly(Room(back))).ok()) co_return false;
      co_return back == sent;
    };
    std::vector<Task<bool>> asks;
    for (size_t i = 0; i < kConnections; ++i) asks.push_back(ask(i));
    const std::vector<bool> right = co_await WhenAll(std::move(asks));
    EXPECT_EQ(std::count(right.begin(), right.end(), true), static_cast<ptrdiff_t>(kConnections));
    co_await gate.Close();
  });
}

TEST_F(TcpTest, AcceptEndsWhenTheListenerIsClosedOrAtItsDeadline) {
  TcpListener listener = Listen();
  reactor().BlockOn([&]() -> Task<void> {
    Gate gate(reactor());
    Status late;
    Status closed;
    reactor().Spawn(gate, [&]() -> Task<void> { late = (co_await listener.Accept(In(1ms))).status(); });
    reactor().Spawn(gate, [&]() -> Task<void> { closed = (co_await listener.Accept()).status(); });
    co_await Settle();
    co_await Advance(1ms);
    listener.Close();
    co_await gate.Close();
    EXPECT_EQ(late.code(), Code::kDeadlineExceeded);
    EXPECT_EQ(closed.code(), Code::kCancelled);
    EXPECT_EQ((co_await listener.Accept()).status().code(), Code::kCancelled);
  });
}

TEST_F(TcpTest, APortInUseIsRefusedByName) {
  const TcpListener listener = Listen();
  const auto second = TcpListener::Listen(reactor(), "127.0.0.1", listener.LocalAddress().port());
  EXPECT_EQ(second.status().code(), Code::kFailedPrecondition);
  EXPECT_NE(second.status().message().find(listener.LocalAddress().ToString()), std::string::npos);
}

TEST(SocketAddressTest, ParsesAndPrintsNumericAddresses) {
  EXPECT_EQ(SocketAddress::Parse("127.0.0.1", 7400).value().ToString(), "127.0.0.1:7400");
  EXPECT_EQ(SocketAddress::Parse("::1", 7400).value().ToString(), "[::1]:7400");
  EXPECT_EQ(SocketAddress::Parse("[2001:db8::7]", 1).value().ToString(), "[2001:db8::7]:1");
  EXPECT_EQ(SocketAddress::ParseHostPort("[::1]:443").value(), SocketAddress::Parse("::1", 443).value());
  EXPECT_TRUE(SocketAddress::Parse("127.3.2.1", 1).value().is_loopback());
  EXPECT_TRUE(SocketAddress::Parse("::1", 1).value().is_loopback());
  EXPECT_FALSE(SocketAddress::Parse("192.0.2.1", 1).value().is_loopback());
  for (const char* wrong : {"localhost", "", "1.2.3", "1.2.3.4.5", "::1%nosuchif", ":::", "[127.0.0.1"}) {
    EXPECT_EQ(SocketAddress::Parse(wrong, 1).status().code(), Code::kInvalidArgument) << wrong;
  }
}

TEST(SocketAddressTest, SplitsHostAndPort) {
  EXPECT_EQ(SplitHostPort("storage.example:7400").value().host, "storage.example");
  EXPECT_EQ(SplitHostPort("storage.example:7400").value().port, 7400);
  EXPECT_EQ(SplitHostPort("[::1]:0").value().host, "::1");
  EXPECT_EQ(SplitHostPort("h:65535").value().port, 65535);
  for (const char* wrong : {"", "host", "host:", ":1", "host:65536", "host:-1", "host:1x", "::1:80", "[]:1", "[::1]"}) {
    EXPECT_EQ(SplitHostPort(wrong).status().code(), Code::kInvalidArgument) << wrong;
  }
}

TEST(SocketAddressTest, ResolvesNumbersWithoutAskingAnybody) {
  const auto addresses = Resolve("192.0.2.9", 80);
  ASSERT_EQ(addresses.value().size(), 1U);
  EXPECT_EQ(addresses->front().ToString(), "192.0.2.9:80");
}

}  // namespace
}  // namespace forebay::rt
