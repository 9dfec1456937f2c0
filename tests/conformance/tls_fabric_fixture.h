// SPDX-License-Identifier: Apache-2.0
// tcp under TLS for the suites of the fabric, which knows no certificates: a fabric whose listeners have a
// server's and whose connections a client's. For tests only.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "auth/tls_fixture.h"
#include "fabric/fabric_fixture.h"
#include "fabric/tcp_fabric.h"

namespace forebay {

/// One authority for all tests of a program: making keys takes its time.
inline const auth::Authority& TestAuthority() {
  static const auth::Authority authority;
  return authority;
}
inline std::unique_ptr<auth::TlsContext> ClientTls() {
  return *auth::TlsContext::ForClient(TestAuthority().Client(), auth::kDataProtocol, "127.0.0.1");
}
inline std::unique_ptr<auth::TlsContext> ServerTls() {
  return *auth::TlsContext::ForServer(TestAuthority().Server(), auth::kDataProtocol);
}

class TlsFabric final : public fabric::Fabric {
 public:
  explicit TlsFabric(base::Random& random) : TlsFabric(random, ClientTls(), ServerTls()) {}
  TlsFabric(base::Random& random, std::unique_ptr<auth::TlsContext> client,
            std::unique_ptr<auth::TlsContext> server)
      : client_(std::move(client)),
        server_(std::move(server)),
        connects_(random, client_.get()),
        listens_(random, server_.get()) {}

  std::string_view name() const override { return connects_.name(); }
  Result<std::unique_ptr<fabric::Listener>> Listen(rt::Reactor& reactor, const std::string& address,
                                                   fabric::EndpointOptions options) override {
    return listens_.Listen(reactor, address, options);
  }
  rt::Task<Result<std::unique_ptr<fabric::Endpoint>>> Connect(rt::Reactor& reactor, std::string address,
                                                              fabric::EndpointOptions options,
                                                              base::TimePoint deadline) override {
    return connects_.Connect(reactor, std::move(address), options, deadline);
  }

 private:
  const std::unique_ptr<auth::TlsContext> client_;
  const std::unique_ptr<auth::TlsContext> server_;
  fabric::TcpFabric connects_;
  fabric::TcpFabric listens_;
};

inline fabric::FabricFactory TlsFactory() {
  return {"tcp_tls", "127.0.0.1:0", [](base::Random& random) { return std::make_unique<TlsFabric>(random); }};
}

}  // namespace forebay
