// SPDX-License-Identifier: Apache-2.0
// The two ends of TLS, with the test in the middle: it carries, keeps, changes and invents the bytes.
#include <algorithm>
#include <functional>

#include "auth/tls_fixture.h"
#include "base/random.h"

namespace forebay::auth {
namespace {

using std::chrono::days;

class TlsChannelTest : public testing::Test {
 protected:
  /// What the two say of the handshake.
  void Shake(const TlsFiles& client, const TlsFiles& server, const std::string& host = "127.0.0.1") {
    pair_ = ChannelPair::Make(client, server, host);
    client_ = server_ = Status();
    pair_.Shake(&client_, &server_);
  }
  void ShakeWell() {
    Shake(authority_.Client(), authority_.Server());
    ASSERT_EQ(client_.ToString(), "OK");
    ASSERT_EQ(server_.ToString(), "OK");
  }
  /// What the client learns of a server that refused it: TLS 1.3 tells it after its own handshake.
  Status ClientLearns() const {
    Bytes place(16);
    const iovec piece = Piece(place);
    return client_.ok() ? pair_.client->Open({&piece, 1}).status() : client_;
  }
  static bool Says(const Status& status, std::string_view words) {
    return status.message().find(words) != std::string_view::npos;
  }

  const base::WallTime now_ = std::chrono::system_clock::now();
  const Authority authority_{now_};
  const Authority stranger_{now_, "stranger"};
  ChannelPair pair_;
  Status client_, server_;
};

TEST_F(TlsChannelTest, BytesArriveBothWays) {
  ShakeWell();
  base::SeededRandom random(1);
  for (const size_t size : {size_t{1}, size_t{40}, size_t{16'384}, size_t{16'385}, size_t{1} << 20}) {
    for (const bool up : {true, false}) {
      base::SecureChannel& from = up ? *pair_.client : *pair_.server;
      base::SecureChannel& to = up ? *pair_.server : *pair_.client;
      Bytes sent(size), received(size);
      random.Fill(sent);
      size_t taken = 0, given = 0;
      while (given < size) {
        // In three pieces, one of them empty, into two places.
        const ByteView rest = ByteView(sent).subspan(taken);
        const iovec pieces[] = {Piece(rest.first(rest.size() / 3)), Piece({}),
                                Piece(rest.subspan(rest.size() / 3))};
        taken += *from.Seal(pieces);
        ChannelPair::Carry(from, to);
        const ByteView place = ByteView(received).subspan(given);
        const iovec places[] = {Piece(place.first(place.size() / 2)), Piece(place.subspan(place.size() / 2))};
        given += *to.Open(places);
      }
      EXPECT_EQ(sent, received) << size;
    }
  }
}

TEST_F(TlsChannelTest, NothingReadableIsOnTheWire) {
  ShakeWell();
  const std::string text(4000, 'a');
  const iovec piece = Piece(AsBytes(text));
  ASSERT_EQ(*pair_.client->Seal({&piece, 1}), text.size());
  const std::string_view wire = AsText(pair_.client->outgoing());
  EXPECT_EQ(wire.find("aaaa"), std::string_view::npos);
}

TEST_F(TlsChannelTest, SealTakesNoMoreThanThereIsRoomFor) {
  ShakeWell();
  const Bytes much(size_t{1} << 20);
  const iovec piece = Piece(much);
  const size_t taken = *pair_.client->Seal({&piece, 1});
  EXPECT_GT(taken, size_t{64} << 10);
  EXPECT_LE(pair_.client->outgoing().size(), size_t{128} << 10);
  EXPECT_EQ(*pair_.client->Seal({&piece, 1}), 0u);
  ChannelPair::Carry(*pair_.client, *pair_.server);
  EXPECT_EQ(*pair_.client->Seal({&piece, 1}), taken);
}

TEST_F(TlsChannelTest, AnEndIsTold) {
  ShakeWell();
  pair_.client->End();
  ChannelPair::Carry(*pair_.client, *pair_.server);
  EXPECT_FALSE(pair_.server->peer_ended());
  Bytes place(1);
  const iovec piece = Piece(place);
  EXPECT_EQ(*pair_.server->Open({&piece, 1}), 0u);
  EXPECT_TRUE(pair_.server->peer_ended());
}

TEST_F(TlsChannelTest, AnotherAuthoritysServerIsRefused) {
  Shake(authority_.Client(), stranger_.Server());
  EXPECT_EQ(client_.code(), Code::kUnauthenticated);
  EXPECT_TRUE(Says(client_, "store1")) << client_.ToString();
  EXPECT_TRUE(Says(client_, "not accepted")) << client_.ToString();
  EXPECT_TRUE(Says(server_, "of another authority")) << server_.ToString();
}

TEST_F(TlsChannelTest, AnotherAuthoritysClientIsRefused) {
  TlsFiles client = stranger_.Client();
  client.authority_pem = authority_.key().certificate_pem;  // it believes the server
  Shake(client, authority_.Server());
  EXPECT_EQ(server_.code(), Code::kUnauthenticated);
  EXPECT_TRUE(Says(server_, "alice")) << server_.ToString();
  EXPECT_TRUE(Says(ClientLearns(), "of another authority")) << ClientLearns().ToString();
}

TEST_F(TlsChannelTest, ExpiredOnesAreRefused) {
  const base::WallTime old = now_ - days(10);
  const Authority authority(old);
  Shake(authority.Make({.name = "alice", .days = 5}, old),
        authority.Make({.name = "s", .hosts = {"127.0.0.1"}, .use = CertificateUse::kServer}, old));
  EXPECT_TRUE(Says(server_, "expired")) << server_.ToString();
  EXPECT_TRUE(Says(ClientLearns(), "it has expired, by the peer's clock")) << ClientLearns().ToString();
  Shake(
      authority.Client(),
      authority.Make({.name = "s", .hosts = {"127.0.0.1"}, .use = CertificateUse::kServer, .days = 5}, old));
  EXPECT_TRUE(Says(client_, "expired")) << client_.ToString();
  EXPECT_TRUE(Says(server_, "expired")) << server_.ToString();
}

TEST_F(TlsChannelTest, TheHostIsLookedAt) {
  Shake(authority_.Client(), authority_.Server(), "store1");
  EXPECT_TRUE(client_.ok() && server_.ok()) << client_.ToString();
  for (const std::string& host : {"store2", "127.0.0.2", "::1", "tore1", "store1.example"}) {
    Shake(authority_.Client(), authority_.Server(), host);
    EXPECT_EQ(client_.code(), Code::kUnauthenticated) << host;
    EXPECT_TRUE(Says(client_, "is for `store1`, 127.0.0.1, store1, not for " + host)) << client_.ToString();
  }
}

TEST_F(TlsChannelTest, AClientsCertificateIsNoServers) {
  Shake(authority_.Client(), authority_.Make({.name = "mallory", .hosts = {"127.0.0.1"}}, now_));
  EXPECT_EQ(client_.code(), Code::kUnauthenticated);
  EXPECT_TRUE(Says(client_, "unsuitable certificate purpose") ||
              Says(client_, "unsupported certificate purpose"))
      << client_.ToString();
}

TEST_F(TlsChannelTest, AnotherProtocolIsRefused) {
  auto client = TlsContext::ForClient(authority_.Client(), kControlProtocol, "127.0.0.1");
  auto server = TlsContext::ForServer(authority_.Server(), kDataProtocol);
  pair_ = {*(*client)->Make(), *(*server)->Make()};
  pair_.Shake(&client_, &server_);
  EXPECT_TRUE(Says(server_, "but not `forebay-data/1`")) << server_.ToString();
  EXPECT_TRUE(Says(client_, "but not `h2`")) << client_.ToString();
}

TEST_F(TlsChannelTest, APeerWithoutTlsIsCalledThat) {
  for (const bool to_server : {true, false}) {
    pair_ = ChannelPair::Make(authority_.Client(), authority_.Server());
    base::SecureChannel& victim = to_server ? *pair_.server : *pair_.client;
    const std::string_view preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    (void)victim.Handshake();
    std::ranges::copy(AsBytes(preface), victim.incoming().begin());
    victim.Received(preface.size());
    EXPECT_TRUE(Says(victim.Handshake().status(), "does not speak TLS"))
        << victim.Handshake().status().ToString();
  }
}

/// Every single byte of each flight, changed: one side or the other ends, with an error that stays.
TEST_F(TlsChannelTest, AChangedByteOfTheHandshakeIsNoticed) {
  const auto client_context = *TlsContext::ForClient(authority_.Client(), kDataProtocol, "127.0.0.1");
  const auto server_context = *TlsContext::ForServer(authority_.Server(), kDataProtocol);
  base::SeededRandom random(7);
  size_t wire_bytes = SIZE_MAX;  // of both directions, known once nothing was changed
  for (size_t at = SIZE_MAX; at == SIZE_MAX || at < wire_bytes; at += 1 + random.Next64() % 7) {
    pair_ = {*client_context->Make(), *server_context->Make()};
    client_ = server_ = Status();
    size_t passed = 0;
    bool client_done = false, server_done = false;
    const auto carry = [&](base::SecureChannel& from, base::SecureChannel& to) {
      const MutableByteView room = to.incoming();
      const size_t size = ChannelPair::Carry(from, to);
      if (at >= passed && at - passed < size) room[at - passed] ^= std::byte{0x20};
      passed += size;
    };
    for (int round = 0; round < 6; ++round) {
      const auto step = [](base::SecureChannel& channel, Status& status, bool& done) {
        if (!status.ok()) return;
        const auto result = channel.Handshake();
        status = result.status();
        done = result.ok() && *result;
      };
      step(*pair_.client, client_, client_done);
      carry(*pair_.client, *pair_.server);
      step(*pair_.server, server_, server_done);
      carry(*pair_.server, *pair_.client);
    }
    if (at == SIZE_MAX) {
      ASSERT_TRUE(client_done && server_done);
      wire_bytes = passed;
      ASSERT_GT(wire_bytes, 1000u);
      continue;
    }
    if (at == 2) continue;  // of the first record's version, which nobody looks at (RFC 8446, 5.1)
    EXPECT_FALSE(client_done && server_done) << "byte " << at << " of " << passed;
  }
}

TEST_F(TlsChannelTest, AChangedByteOfARecordIsFinal) {
  for (const size_t at : {size_t{0}, size_t{3}, size_t{5}, size_t{100}, size_t{520}}) {
    ShakeWell();
    const Bytes data(500);
    const iovec piece = Piece(data);
    ASSERT_EQ(*pair_.client->Seal({&piece, 1}), data.size());
    const MutableByteView room = pair_.server->incoming();
    const size_t size = ChannelPair::Carry(*pair_.client, *pair_.server);
    ASSERT_GT(size, at);
    room[at] ^= std::byte{1};
    if (at == 3) pair_.server->Received(0);
    Bytes place(600, std::byte{9});
    const iovec into = Piece(place);
    auto opened = pair_.server->Open({&into, 1});
    // A longer length waits for bytes that never come; anything else is an error at once.
    if (at == 3 && opened.ok()) {
      EXPECT_EQ(*opened, 0u);
      continue;
    }
    EXPECT_FALSE(opened.ok()) << at;
    EXPECT_FALSE(pair_.server->Open({&into, 1}).ok()) << at;
    EXPECT_EQ(place, Bytes(600, std::byte{9})) << "nothing of a wrong record is given";
  }
}

TEST_F(TlsChannelTest, GarbageOfAnySizeIsAnError) {
  const auto client_context = *TlsContext::ForClient(authority_.Client(), kDataProtocol, "127.0.0.1");
  const auto server_context = *TlsContext::ForServer(authority_.Server(), kDataProtocol);
  base::SeededRandom random(3);
  for (int round = 0; round < 300; ++round) {
    pair_ = {*client_context->Make(), *server_context->Make()};
    base::SecureChannel& victim = round % 2 == 0 ? *pair_.server : *pair_.client;
    (void)victim.Handshake();
    Status status;
    for (int piece = 0; piece < 40 && status.ok(); ++piece) {
      const MutableByteView room = victim.incoming();
      if (room.empty()) break;
      const size_t size = std::min<size_t>(room.size(), 1 + random.Next64() % 5000);
      random.Fill(room.first(size));
      if (round % 3 == 0 && piece == 0) room[0] = std::byte{22};  // looks like a handshake
      victim.Received(size);
      status = victim.Handshake().status();
    }
    EXPECT_FALSE(status.ok());
    EXPECT_LE(victim.outgoing().size(), size_t{128} << 10);
  }
}

}  // namespace
}  // namespace forebay::auth
