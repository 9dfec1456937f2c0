// SPDX-License-Identifier: Apache-2.0
// Files with a secret in them: read and replaced so that no other user sees them, no copy stays in memory, and a
// crash leaves the old file or the new one. Used by Credentials, KeyRing and HeldCapability. Everything blocks on the
// file system. Reactor-local: like any value.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "auth/secret.h"
#include "base/random.h"
#include "base/status.h"

namespace forebay::auth {

constexpr size_t kMaxSecretFileBytes = size_t{16} * 1024;

/// Text with a secret in it, wiped when it goes. Of fixed capacity: a string that grows leaves copies behind.
class SecretText {
 public:
  SecretText() = default;
  SecretText(const SecretText&) = delete;
  SecretText& operator=(const SecretText&) = delete;
  ~SecretText() { Wipe(std::as_writable_bytes(std::span(chars_))); }

  std::string_view view() const { return {chars_.data(), size_}; }
  /// What does not fit is cut off; what our own formats need fits.
  void Append(std::string_view text) { size_ += text.copy(chars_.data() + size_, chars_.size() - size_); }
  /// Lowercase hex digits; base::ToHex would leave a string behind.
  void AppendHex(ByteView bytes);

 private:
  friend Status ReadSecretFile(std::string_view what, const std::string& path, bool owner_only, SecretText* text);
  std::array<char, kMaxSecretFileBytes> chars_{};
  size_t size_ = 0;
};

/// Reads the file at `path`, which error texts call `what` ("credentials file"). NotFound when there is none;
/// InvalidArgument when it is no regular file, or too large. With `owner_only`, PermissionDenied when others can read or write it, and
/// for a symbolic link.
Status ReadSecretFile(std::string_view what, const std::string& path, bool owner_only, SecretText* text);

/// Replaces the file, mode 0600; after ok it survives power loss. On an error the file is as before.
Status WriteSecretFile(const std::string& path, const SecretText& text, base::Random& random);

}  // namespace forebay::auth
