// SPDX-License-Identifier: Apache-2.0
// TlsFiles: what one side of TLS needs, out of one directory: ca.crt (whom it believes), tls.crt and tls.key
// (who it is), as `forebay certs` makes them. Loading looks at everything that can be found wrong here, so
// that the mistake is told where it was made and not at the other end. Reactor-local: like any value. Blocks
// on files.
#pragma once

#include <string>

#include "auth/certificates.h"
#include "auth/private_text.h"
#include "base/clock.h"
#include "base/status.h"

namespace forebay::auth {

struct TlsFiles {
  std::string directory;
  std::string authority_pem;    // one certificate or several: while one replaces another both are believed
  std::string certificate_pem;  // and the intermediate ones, if any
  PrivateText key_pem;

  /// NotFound when a file is missing, PermissionDenied when the key is open to others, FailedPrecondition
  /// when the certificate has expired, is not of that authority or is not for `use`; InvalidArgument for
  /// anything malformed.
  static Result<TlsFiles> Load(const std::string& directory, CertificateUse use, base::WallTime now);
};

/// A certificate file; at most kMaxCertificateFileBytes.
Result<std::string> LoadCertificateFile(const std::string& path);

}  // namespace forebay::auth
