// SPDX-License-Identifier: Apache-2.0
// TlsContext: one side of TLS 1.3 with certificates on both ends, by OpenSSL. It makes the channels of the
// data plane's tcp, and of the control plane's search for what went wrong. The peer's certificate must come
// from the directory's authority, be good now and for its side, and, for a client, be of the host that it
// means; the protocol on top is agreed on (ALPN), so that no connection of one plane can be used for the
// other. No resumption, no early data, no renegotiation. Immutable after Create; thread-safe.
#pragma once

#include <memory>
#include <string>

#include "auth/tls_files.h"
#include "base/secure_channel.h"
#include "base/status.h"

namespace forebay::auth {

/// What is spoken inside.
inline constexpr std::string_view kDataProtocol = "forebay-data/1";
inline constexpr std::string_view kControlProtocol = "h2";

class TlsContext final : public base::SecureChannels {
 public:
  /// A server's side: every client needs a certificate.
  static Result<std::unique_ptr<TlsContext>> ForServer(const TlsFiles& files, std::string_view protocol);
  /// A client's: `host` is the name or address by which it knows the server, which must be in the
  /// certificate.
  static Result<std::unique_ptr<TlsContext>> ForClient(const TlsFiles& files, std::string_view protocol,
                                                       const std::string& host);
  ~TlsContext() override;

  /// FailedPrecondition when the files do not fit together: key and certificate, certificate and authority.
  static Status Check(const TlsFiles& files);

  Result<std::unique_ptr<base::SecureChannel>> Make() override;

  struct Parts;  // of the implementation

 private:
  explicit TlsContext(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

}  // namespace forebay::auth
