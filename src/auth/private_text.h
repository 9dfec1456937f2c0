// SPDX-License-Identifier: Apache-2.0
// PrivateText: text of any length that is a secret, a private key in PEM: wiped when it is let go of, without
// a formatter, and kept in files that only their owner may read. Reactor-local: like any value.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "auth/secret.h"
#include "base/status.h"

namespace forebay::auth {

class PrivateText {
 public:
  PrivateText() = default;
  explicit PrivateText(std::string_view text) : text_(text) {}
  PrivateText(PrivateText&& other) noexcept { text_.swap(other.text_); }
  PrivateText& operator=(PrivateText&& other) noexcept {
    text_.swap(other.text_);
    return *this;
  }
  ~PrivateText() { Wipe(std::as_writable_bytes(std::span(text_))); }

  std::string_view view() const { return text_; }

  /// PermissionDenied when others than its owner may read or write the file; NotFound; InvalidArgument when
  /// it is longer than any key.
  static Result<PrivateText> Load(const std::string& path);
  /// Makes the file, mode 0600. AlreadyExists when there is one: a key is never overwritten.
  Status SaveNew(const std::string& path) const;

 private:
  std::string text_;
};

}  // namespace forebay::auth
