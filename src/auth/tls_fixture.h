// SPDX-License-Identifier: Apache-2.0
// Certificates for tests, made at a time of the test's choice: in memory, or as the directory that --tls
// takes. For tests only.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include <gtest/gtest.h>

#include "auth/certificates.h"
#include "auth/tls_context.h"
#include "auth/tls_files.h"

namespace forebay::auth {

/// An authority with a life of ten years.
class Authority {
 public:
  explicit Authority(base::WallTime now = std::chrono::system_clock::now(),
                     const std::string& name = "test-authority")
      : now_(now), key_(MakeAuthority(name, 3650, now).value()) {}

  const CertifiedKey& key() const { return key_; }

  /// `now`: when it is made; a day old and good for one day, it has expired.
  TlsFiles Make(CertificateRequest request, base::WallTime now) const {
    auto made = Issue(key_, request, now);
    EXPECT_TRUE(made.ok()) << made.status().ToString();
    TlsFiles files;
    files.directory = "memory";
    files.authority_pem = key_.certificate_pem;
    files.certificate_pem = made->certificate_pem;
    files.key_pem = std::move(made->key_pem);
    return files;
  }
  TlsFiles Server(std::vector<std::string> hosts = {"127.0.0.1", "store1"}) const {
    return Make({.name = "store1", .hosts = std::move(hosts), .use = CertificateUse::kServer}, now_);
  }
  TlsFiles Client() const { return Make({.name = "alice"}, now_); }

 private:
  const base::WallTime now_;
  const CertifiedKey key_;
};

/// The two sides' channels, whose bytes the test carries.
struct ChannelPair {
  std::unique_ptr<base::SecureChannel> client;
  std::unique_ptr<base::SecureChannel> server;

  static ChannelPair Make(const TlsFiles& client_files, const TlsFiles& server_files,
                          const std::string& host = "127.0.0.1") {
    const auto client = TlsContext::ForClient(client_files, kDataProtocol, host);
    const auto server = TlsContext::ForServer(server_files, kDataProtocol);
    EXPECT_TRUE(client.ok() && server.ok()) << client.status().ToString() << server.status().ToString();
    return {*(*client)->Make(), *(*server)->Make()};
  }

  /// Carries what there is; the number of bytes.
  static size_t Carry(base::SecureChannel& from, base::SecureChannel& to) {
    const ByteView bytes = from.outgoing();
    const MutableByteView room = to.incoming();
    const size_t size = std::min(bytes.size(), room.size());
    std::copy_n(bytes.begin(), size, room.begin());
    to.Received(size);
    from.Sent(size);
    return size;
  }

  /// Until neither has anything more to say: both are through, or one is not ok.
  void Shake(Status* client_status, Status* server_status) {
    for (int round = 0; round < 8; ++round) {
      if (client_status->ok()) *client_status = client->Handshake().status();
      Carry(*client, *server);
      if (server_status->ok()) *server_status = server->Handshake().status();
      Carry(*server, *client);
    }
  }
};

inline iovec Piece(ByteView bytes) { return {const_cast<std::byte*>(bytes.data()), bytes.size()}; }

}  // namespace forebay::auth
