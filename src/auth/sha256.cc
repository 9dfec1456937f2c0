// SPDX-License-Identifier: Apache-2.0
#include "auth/sha256.h"

#include <openssl/evp.h>

#include "base/check.h"

namespace forebay::auth {

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  Context() = default;
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;
  ~Context() { EVP_MD_CTX_free(evp); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  FB_CHECK(context_->evp != nullptr && EVP_DigestInit_ex(context_->evp, EVP_sha256(), nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::Update(ByteView bytes) {
  FB_CHECK(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1);
}

std::string Sha256::FinishHex() {
  std::array<unsigned char, 32> digest{};
  unsigned size = 0;
  FB_CHECK(EVP_DigestFinal_ex(context_->evp, digest.data(), &size) == 1 && size == digest.size());
  return base::ToHex(std::as_bytes(std::span(digest)));
}

}  // namespace forebay::auth
