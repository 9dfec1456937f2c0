// SPDX-License-Identifier: Apache-2.0
#include "control/tls.h"

#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <vector>

#include <grpcpp/security/tls_certificate_provider.h>
#include <grpcpp/security/tls_credentials_options.h>

#include "rt/address.h"

namespace forebay::control {

namespace {

constexpr unsigned kLookAgainSeconds = 10;
constexpr base::Duration kTroubleTimeout = std::chrono::seconds(3);
constexpr int kMaxSteps = 16;  // of a handshake; good ones take two
constexpr std::string_view kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr std::byte kTlsAlert{21};

/// A blocking connection that is given up after a while.
class Connection {
 public:
  Connection(int fd, base::Duration limit) : fd_(fd), until_(std::chrono::steady_clock::now() + limit) {}
  ~Connection() {
    if (fd_ >= 0) close(fd_);
  }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool Open(const rt::SocketAddress& address) {
    return fd_ >= 0 && SetTimeout(SO_SNDTIMEO) && connect(fd_, address.get(), address.size()) == 0;
  }
  bool Send(ByteView bytes) const {
    return SetTimeout(SO_SNDTIMEO) &&
           send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(bytes.size());
  }
  /// 0 at the end, -1 when nothing came in time or the connection broke: timed_out() tells which.
  ssize_t Receive(MutableByteView into) const {
    return SetTimeout(SO_RCVTIMEO) ? recv(fd_, into.data(), into.size(), 0) : -1;
  }
  static bool timed_out() { return errno == EAGAIN || errno == EWOULDBLOCK; }

 private:
  /// What is left of the time, and a little when nothing is: zero would mean for ever.
  bool SetTimeout(int option) const {
    const auto left =
        std::chrono::duration_cast<std::chrono::microseconds>(until_ - std::chrono::steady_clock::now());
    const int64_t us = std::max<int64_t>(left.count(), 1000);
    const timeval time{.tv_sec = us / 1'000'000, .tv_usec = us % 1'000'000};
    return setsockopt(fd_, SOL_SOCKET, option, &time, sizeof(time)) == 0;
  }

  const int fd_;
  const std::chrono::steady_clock::time_point until_;
};

Status Silent(const std::string& server) {
  return Status::Unavailable(
      "{} takes the connection but does not answer: is it a Forebay server, and alive?", server);
}

/// Says what a client without TLS says, and looks at the answer.
Status PlaintextTrouble(const Connection& connection, const std::string& server) {
  std::byte first{};
  if (!connection.Send(AsBytes(kHttp2Preface))) return Silent(server);
  const ssize_t got = connection.Receive({&first, 1});
  if (got < 0 && Connection::timed_out()) return Silent(server);
  if (got == 1 && first != kTlsAlert) return {};
  return Status::Unavailable(
      "{} ends a connection without TLS: if it was started with --tls, name this client's "
      "certificate with --tls DIR (`forebay certs client` makes one)",
      server);
}

/// Carries what one side says to the other; false at the connection's end.
Result<bool> Exchange(const Connection& connection, base::SecureChannel& channel, const std::string& server) {
  const ByteView out = channel.outgoing();
  if (!out.empty()) {
    if (!connection.Send(out)) return false;
    channel.Sent(out.size());
  }
  const ssize_t got = connection.Receive(channel.incoming());
  if (got < 0 && Connection::timed_out()) return Silent(server);
  if (got <= 0) return false;
  channel.Received(static_cast<size_t>(got));
  return true;
}

Status TlsTrouble(const Connection& connection, base::SecureChannels& channels, const std::string& server) {
  FB_ASSIGN(const auto channel, channels.Make());
  bool done = false;
  for (int step = 0; step < kMaxSteps; ++step) {
    if (!done) {
      const Result<bool> shaken = channel->Handshake();
      if (!shaken.ok()) {
        (void)connection.Send(channel->outgoing());  // tells the server why; it may be gone
        return shaken.status().WithContext(server);
      }
      done = *shaken;
    }
    std::byte byte;
    const iovec place{&byte, 1};
    if (done) {
      const Result<size_t> opened = channel->Open({&place, 1});
      if (!opened.ok()) return opened.status().WithContext(server);
      if (*opened != 0) return {};  // it talks to us
    }
    FB_ASSIGN(const bool more, Exchange(connection, *channel, server));
    if (!more && done)
      return Status::Unauthenticated(
          "{} ended the connection once it saw this client's certificate: it is of another authority, "
          "expired by the "
          "server's clock, or not for clients; the server's log says which",
          server);
    if (!more)
      return Status::Unavailable("{} ended the connection during the TLS handshake: does it have TLS?",
                                 server);
  }
  return Silent(server);
}

}  // namespace

std::shared_ptr<grpc::ServerCredentials> ServerTls(const std::string& directory) {
  namespace tls = grpc::experimental;
  tls::TlsServerCredentialsOptions options(std::make_shared<tls::FileWatcherCertificateProvider>(
      directory + "/tls.key", directory + "/tls.crt", directory + "/ca.crt", kLookAgainSeconds));
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return tls::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> ChannelTls(const auth::TlsFiles& files) {
  return grpc::SslCredentials({.pem_root_certs = files.authority_pem,
                               .pem_private_key = std::string(files.key_pem.view()),
                               .pem_cert_chain = files.certificate_pem});
}

Status FindTrouble(const std::string& server, base::SecureChannels* channels, base::Duration limit) {
  FB_ASSIGN(const rt::HostPort place, rt::SplitHostPort(server));
  FB_ASSIGN(const std::vector<rt::SocketAddress> addresses, rt::Resolve(place.host, place.port));
  Connection connection(socket(addresses.front().family(), SOCK_STREAM | SOCK_CLOEXEC, 0),
                        std::min(limit, kTroubleTimeout));
  if (!connection.Open(addresses.front()))
    return Status::Unavailable("no Forebay server answers at {}; start one with: forebay serve", server);
  return channels == nullptr ? PlaintextTrouble(connection, server)
                             : TlsTrouble(connection, *channels, server);
}

}  // namespace forebay::control
