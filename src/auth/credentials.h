// SPDX-License-Identifier: Apache-2.0
// Credentials: who a program is, and the secret that proves it. The server makes the root one at its first
// start and keeps it in DIR/credentials; a client of the same user reads that file. The file is a small
// subset of TOML:
//   version = 1
//   tenant = 1
//   id = "root-1f3a5c7e"
//   secret = "<64 hexadecimal digits>"
// Reactor-local: like any value. Load and Save block on the file system.
#pragma once

#include <string>
#include <string_view>

#include "auth/secret.h"
#include "base/ids.h"
#include "base/random.h"
#include "base/status.h"

namespace forebay::auth {

constexpr size_t kMaxCredentialIdBytes = 64;

/// 1 to kMaxCredentialIdBytes of [a-z0-9-].
bool IsCredentialId(std::string_view id);

struct Credentials {
  std::string id;
  TenantId tenant = TenantId::kNone;
  Secret secret;

  /// A root credential with a fresh id and secret.
  static Credentials Generate(base::Random& random);

  /// NotFound when there is no file; PermissionDenied when others than its owner can read or write it, or
  /// when this process cannot; InvalidArgument naming the line when the content is not as above. Never
  /// follows a symbolic link.
  static Result<Credentials> Load(const std::string& path);
  /// Replaces the file, mode 0600; after ok it survives power loss. On an error the file is as before.
  Status Save(const std::string& path, base::Random& random) const;
};

}  // namespace forebay::auth
