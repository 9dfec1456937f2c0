// SPDX-License-Identifier: Apache-2.0
#include "control/server.h"

#include <unistd.h>

#include <cerrno>
#include <utility>

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include "base/check.h"
#include "control/capability_services.h"
#include "control/door.h"
#include "control/grpc_status.h"
#include "control/handshake_log.h"
#include "control/services.h"
#include "control/tls.h"
#include "rt/address.h"

namespace forebay::control {

namespace {

/// Streams that one connection may have open at once; HTTP/2 peers wait with more.
constexpr int kMaxStreamsOfConnection = 128;

Result<rt::SocketAddress> ListenAddress(const ControlServerOptions& options) {
  const std::string& listen = options.listen;
  FB_ASSIGN(const rt::HostPort parts, rt::SplitHostPort(listen));
  FB_ASSIGN(const std::vector<rt::SocketAddress> addresses, rt::Resolve(parts.host, parts.port));
  const rt::SocketAddress& address = addresses.front();
  if (!address.is_loopback() && options.tls_directory.empty() && !options.plaintext_beyond_loopback) {
    return Status::InvalidArgument(
        "refusing to listen on {}: without TLS the control plane is for this machine only; use 127.0.0.1:{}",
        listen, parts.port);
  }
  return address;
}

/// gRPC keeps the reason of a failed bind to its log, so it is found out by trying again.
Status WhyNot(const rt::SocketAddress& address) {
  const int fd = socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return Status::FromErrno(errno, "socket");
  const int error = bind(fd, address.get(), address.size()) == 0 ? 0 : errno;
  close(fd);
  if (error == EADDRINUSE) {
    return Status::Unavailable(
        "cannot listen on {}: another program does (another forebay serve?); choose a port with --listen",
        address.ToString());
  }
  if (error == 0)
    return Status::Unavailable("cannot listen on {}; set GRPC_VERBOSITY=debug to see why",
                               address.ToString());
  return Status::FromErrno(error, "listen on " + address.ToString());
}

}  // namespace

class ControlServer::Impl {
 public:
  Impl(Options options, Parts parts)
      : options_(std::move(options)),
        services_(
            options_, parts.store, parts.sessions, parts.capabilities, parts.tenants, parts.keys, parts.clock, parts.random,
            [this] { return door_.calls_in_progress(); }, std::move(parts.traffic), parts.backups, parts.devices,
            parts.scrubs),
        capability_services_(parts.capabilities, parts.tenants, parts.store),
        door_(AllMethods(), parts.authenticator, parts.rates, parts.reactors, parts.clock, parts.audit,
              [&capabilities = parts.capabilities](const auth::Grant& grant) { return capabilities.CheckGrant(grant); },
              options_.max_calls),
        handshake_log_(parts.log) {}
  ~Impl() { Shutdown({}); }

  Status Listen() {
    FB_ASSIGN(const rt::SocketAddress address, ListenAddress(options_));
    grpc::ServerBuilder builder;
    int bound_port = 0;
    builder.AddListeningPort(address.ToString(),
                             options_.tls_directory.empty() ? grpc::InsecureServerCredentials()
                                                            : ServerTls(options_.tls_directory),
                             &bound_port);
    builder.RegisterCallbackGenericService(&door_);
    builder.SetMaxReceiveMessageSize(static_cast<int>(kMaxRequestBytes));
    builder.AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, kMaxStreamsOfConnection);
    builder.AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, static_cast<int>(auth::kMaxRpcProofBytes + 8 * base::kKiB));
    // Otherwise a second server on the same port would start, and share its calls.
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    // A compressed request could grow far beyond the limit on its size.
    for (const auto algorithm : {GRPC_COMPRESS_DEFLATE, GRPC_COMPRESS_GZIP}) {
      builder.SetCompressionAlgorithmSupportStatus(algorithm, false);
    }
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || bound_port == 0) return WhyNot(address);
    port_ = static_cast<uint16_t>(bound_port);
    const std::string with_port = address.ToString();
    address_ = with_port.substr(0, with_port.rfind(':') + 1) + std::to_string(port_);
    return {};
  }

  void Shutdown(base::Duration grace) {
    if (server_ == nullptr) return;
    server_->Shutdown(std::chrono::system_clock::now() +
                      std::chrono::duration_cast<std::chrono::system_clock::duration>(grace));
    door_.Close();
    server_.reset();
  }

  const std::string& address() const { return address_; }
  uint16_t port() const { return port_; }
  size_t calls_in_progress() const { return door_.calls_in_progress(); }

 private:
  MethodTable AllMethods() {
    MethodTable table = services_.Methods();
    capability_services_.AddTo(&table);
    return table;
  }

  const Options options_;
  Services services_;
  CapabilityServices capability_services_;
  Door door_;
  const HandshakeLog handshake_log_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  uint16_t port_ = 0;
};

Result<std::unique_ptr<ControlServer>> ControlServer::Start(Options options, Parts parts) {
  QuietLibraryLogs();
  FB_CHECK(!parts.reactors.empty());
  auto impl = std::make_unique<Impl>(std::move(options), std::move(parts));
  FB_TRY(impl->Listen());
  return std::unique_ptr<ControlServer>(new ControlServer(std::move(impl)));
}

ControlServer::ControlServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ControlServer::~ControlServer() = default;

const std::string& ControlServer::address() const { return impl_->address(); }
uint16_t ControlServer::port() const { return impl_->port(); }
size_t ControlServer::calls_in_progress() const { return impl_->calls_in_progress(); }
void ControlServer::Shutdown(base::Duration grace) { impl_->Shutdown(grace); }

}  // namespace forebay::control
