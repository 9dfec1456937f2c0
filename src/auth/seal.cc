// SPDX-License-Identifier: Apache-2.0
#include "auth/seal.h"

#include <memory>

#include <openssl/evp.h>

#include "auth/hkdf.h"
#include "base/check.h"

namespace forebay::auth {
namespace {

struct FreeCipher {
  void operator()(EVP_CIPHER_CTX* cipher) const { EVP_CIPHER_CTX_free(cipher); }
};
using Cipher = std::unique_ptr<EVP_CIPHER_CTX, FreeCipher>;

const unsigned char* In(ByteView bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }
unsigned char* Out(MutableByteView bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }

/// Ready to encrypt or decrypt what follows the context.
Cipher Begin(bool encrypt, const Secret& key, ByteView nonce, std::string_view context) {
  static_assert(Sealer::kNonceBytes == 12, "GCM's own size of a nonce");
  Cipher cipher(EVP_CIPHER_CTX_new());
  int length = 0;
  const int mode = encrypt ? 1 : 0;
  FB_CHECK(cipher != nullptr &&
           EVP_CipherInit_ex(cipher.get(), EVP_aes_256_gcm(), nullptr, In(key.view()), In(nonce), mode) ==
               1 &&
           EVP_CipherUpdate(cipher.get(), nullptr, &length, In(AsBytes(context)),
                            static_cast<int>(context.size())) == 1);
  return cipher;
}

}  // namespace

Sealer::Sealer(const Secret& root, base::Random& random) : random_(random) {
  HkdfSha256(root.view(), {}, AsBytes("forebay sealed records v1"), key_.mutable_view());
}

Bytes Sealer::Seal(const Secret& secret, std::string_view context) const {
  Bytes sealed(kSealedBytes);
  const MutableByteView nonce = MutableByteView(sealed).first(kNonceBytes);
  const MutableByteView content = MutableByteView(sealed).subspan(kNonceBytes, Secret::kSize);
  const MutableByteView tag = MutableByteView(sealed).last(kTagBytes);
  random_.Fill(nonce);
  const Cipher cipher = Begin(true, key_, nonce, context);
  int length = 0;
  FB_CHECK(EVP_CipherUpdate(cipher.get(), Out(content), &length, In(secret.view()), Secret::kSize) == 1 &&
           length == static_cast<int>(Secret::kSize) &&
           EVP_CipherFinal_ex(cipher.get(), Out(tag), &length) == 1 &&
           EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_GET_TAG, kTagBytes, tag.data()) == 1);
  return sealed;
}

Result<Secret> Sealer::Open(ByteView sealed, std::string_view context) const {
  const Status refused = Status::DataLoss(
      "the sealed secret of `{}` does not open: it was changed, or the root credential was replaced since; "
      "make a "
      "new one",
      context);
  if (sealed.size() != kSealedBytes) return refused;
  Bytes tag(sealed.end() - kTagBytes, sealed.end());
  const Cipher cipher = Begin(false, key_, sealed.first(kNonceBytes), context);
  Secret secret;
  std::array<std::byte, kTagBytes> rest{};
  int length = 0;
  const bool good = EVP_CipherUpdate(cipher.get(), Out(secret.mutable_view()), &length,
                                     In(sealed.subspan(kNonceBytes, Secret::kSize)), Secret::kSize) == 1 &&
                    EVP_CIPHER_CTX_ctrl(cipher.get(), EVP_CTRL_GCM_SET_TAG, kTagBytes, tag.data()) == 1 &&
                    EVP_CipherFinal_ex(cipher.get(), Out(rest), &length) == 1;
  if (!good) return refused;
  return secret;
}

}  // namespace forebay::auth
