// SPDX-License-Identifier: Apache-2.0
// The fabric's behaviour, over tcp under TLS; and what TLS adds to it: who is refused, and what a cut is.
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "fabric/fabric_suite.h"
#include "tls_fabric_fixture.h"

namespace forebay::fabric {
namespace {

INSTANTIATE_TEST_SUITE_P(Tls, FabricSuite, testing::Values(TlsFactory()),
                         [](const auto& info) { return info.param.name; });

/// One side's fabric listens, another one's connects.
class TlsRefusalTest : public FabricTest {
 protected:
  static bool Says(const Status& status, std::string_view words) {
    return status.message().find(words) != std::string_view::npos;
  }
  Status ConnectWith(std::unique_ptr<auth::TlsContext> context) {
    const std::unique_ptr<base::SecureChannels> channels = std::move(context);
    TcpFabric stranger(random_, channels.get());
    auto connected = initiator_->Run(
        [&] { return stranger.Connect(initiator_->reactor(), listener_->address(), {}, kNever); });
    if (!connected.ok()) return connected.status();
    Fence(*initiator_, *connected);
    return {};
  }
  void ServeGoodPeer() {
    auto connected = ConnectFrom(*initiator_);
    ASSERT_TRUE(connected.ok()) << connected.status().ToString();
    a_ = *std::move(connected);
    b_ = *AcceptOn(*owner_);
    RoundTrip();
  }

  const auth::Authority stranger_{std::chrono::system_clock::now(), "stranger"};
};

TEST_P(TlsRefusalTest, AClientOfAnotherAuthorityIsToldSo) {
  Listen();
  auth::TlsFiles files = stranger_.Client();
  files.authority_pem = TestAuthority().key().certificate_pem;
  const Status status = ConnectWith(*auth::TlsContext::ForClient(files, auth::kDataProtocol, "127.0.0.1"));
  EXPECT_EQ(status.code(), Code::kUnauthenticated) << status.ToString();
  EXPECT_TRUE(Says(status, "another authority")) << status.ToString();
  ServeGoodPeer();
}

TEST_P(TlsRefusalTest, AServerOfAnotherAuthorityOrHostIsRefused) {
  Listen();
  const Status other =
      ConnectWith(*auth::TlsContext::ForClient(stranger_.Client(), auth::kDataProtocol, "127.0.0.1"));
  EXPECT_EQ(other.code(), Code::kUnauthenticated) << other.ToString();
  EXPECT_TRUE(Says(other, "not accepted")) << other.ToString();
  const Status host =
      ConnectWith(*auth::TlsContext::ForClient(TestAuthority().Client(), auth::kDataProtocol, "store2"));
  EXPECT_TRUE(Says(host, "not for store2")) << host.ToString();
  ServeGoodPeer();
}

TEST_P(TlsRefusalTest, WithoutTlsNothingIsServed) {
  Listen();
  TcpFabric plain(random_);
  const auto connected =
      initiator_->Run([&] { return plain.Connect(initiator_->reactor(), listener_->address(), {}, kNever); });
  EXPECT_FALSE(connected.ok());
  ServeGoodPeer();
}

TEST_P(TlsRefusalTest, AServerWithoutTlsIsCalledThat) {
  TcpFabric plain(random_);
  owner_->Run([&]() -> rt::Task<void> {
    listener_ = *plain.Listen(owner_->reactor(), "127.0.0.1:0", {});
    co_return;
  });
  const auto connected = ConnectFrom(*initiator_);
  EXPECT_FALSE(connected.ok());
}

int Dial(const std::string& address) {
  const auto parsed = *rt::SocketAddress::ParseHostPort(address);
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(connect(fd, parsed.get(), parsed.size()), 0);
  return fd;
}

TEST_P(TlsRefusalTest, StrangersAndSilentOnesBeforeTheHandshakeGo) {
  Listen();
  std::vector<int> silent;
  for (const std::string_view bytes : {"", "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "\x16\x03\x01\x40\x00\x01"}) {
    silent.push_back(Dial(listener_->address()));
    EXPECT_EQ(send(silent.back(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }
  ServeGoodPeer();
  Advance(EndpointOptions().dead_after);
  for (const int fd : silent) {
    std::byte answer[256];
    while (recv(fd, answer, sizeof(answer), 0) > 0) {  // an alert, perhaps, and then the end
    }
    close(fd);
  }
  ServeGoodPeer();
}

INSTANTIATE_TEST_SUITE_P(Tls, TlsRefusalTest, testing::Values(TlsFactory()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace forebay::fabric
