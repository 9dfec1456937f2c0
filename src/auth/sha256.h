// SPDX-License-Identifier: Apache-2.0
// Sha256: the digest of a stream of bytes (FIPS 180-4), for people who compare files.
// Reactor-local.
#pragma once

#include <array>
#include <memory>
#include <string>

#include "base/bytes.h"

namespace forebay::auth {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void Update(ByteView bytes);
  /// The digest of everything so far as 64 lowercase hex digits; once.
  std::string FinishHex();

 private:
  struct Context;
  std::unique_ptr<Context> context_;
};

}  // namespace forebay::auth
