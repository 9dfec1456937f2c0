// SPDX-License-Identifier: Apache-2.0
// Certificates: a private authority and what it signs for servers and clients (X.509, keys on P-256), for
// `forebay certs`; and what a certificate says, for people. A server's certificate is good for both ends of a
// connection, so that commands on its machine need no other; a client's cannot pose as a server.
// Thread-safe: functions without state.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "auth/private_text.h"
#include "base/clock.h"
#include "base/status.h"

namespace forebay::auth {

constexpr uint32_t kMaxCertificateDays = 36'500;
constexpr size_t kMaxHosts = 64;
/// Of ca.crt or tls.crt: more than any chain has.
constexpr size_t kMaxCertificateFileBytes = 64 * 1024;

struct CertifiedKey {
  std::string certificate_pem;
  PrivateText key_pem;
};

enum class CertificateUse : uint8_t { kServer, kClient };

struct CertificateRequest {
  std::string name;                // the common name
  std::vector<std::string> hosts;  // DNS names and IP addresses that it is good for
  CertificateUse use = CertificateUse::kClient;
  uint32_t days = 365;
};

/// A new authority, which signs itself.
Result<CertifiedKey> MakeAuthority(const std::string& name, uint32_t days, base::WallTime now);
/// A new key, and the authority's word for it. InvalidArgument for a name or host that is none, or when it
/// would outlive the authority.
Result<CertifiedKey> Issue(const CertifiedKey& authority, const CertificateRequest& request,
                           base::WallTime now);

struct CertificateInfo {
  std::string subject;  // "store1"
  std::string issuer;
  std::vector<std::string> hosts;  // DNS names and IP addresses
  base::WallTime not_before;
  base::WallTime not_after;
  std::string sha256;  // of its DER form, in hexadecimal
  bool authority = false;
  bool server = false;  // good for the server's end of a connection
  bool client = false;
};

/// Of the first certificate in the text. `name` is for messages.
Result<CertificateInfo> DescribeCertificate(std::string_view pem, const std::string& name);
/// "2026-11-30T08:00:00Z"
std::string FormatCertificateTime(base::WallTime time);

}  // namespace forebay::auth
