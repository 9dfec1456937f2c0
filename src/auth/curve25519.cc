// SPDX-License-Identifier: Apache-2.0
#include "auth/curve25519.h"

#include <openssl/evp.h>

#include <memory>

#include "auth/openssl_handles.h"
#include "base/check.h"

namespace forebay::auth {

namespace {

const unsigned char* In(ByteView bytes) { return reinterpret_cast<const unsigned char*>(bytes.data()); }
unsigned char* Out(MutableByteView bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }

using Key = KeyHandle;
using KeyContext = std::unique_ptr<EVP_PKEY_CTX, OpensslFree<EVP_PKEY_CTX_free>>;
using DigestContext = std::unique_ptr<EVP_MD_CTX, OpensslFree<EVP_MD_CTX_free>>;

Key PrivateKey(int type, const Secret& secret) {
  Key key(EVP_PKEY_new_raw_private_key(type, nullptr, In(secret.view()), Secret::kSize));
  FB_CHECK(key != nullptr);
  return key;
}

PublicKey PublicPart(int type, const Secret& secret) {
  const Key key = PrivateKey(type, secret);
  PublicKey made;
  size_t size = made.size();
  FB_CHECK(EVP_PKEY_get_raw_public_key(key.get(), Out(made), &size) == 1 && size == made.size());
  return made;
}

}  // namespace

PublicKey SigningKeyOf(const Secret& seed) { return PublicPart(EVP_PKEY_ED25519, seed); }

Signature Sign(const Secret& seed, ByteView message) {
  const Key key = PrivateKey(EVP_PKEY_ED25519, seed);
  const DigestContext context(EVP_MD_CTX_new());
  Signature signature;
  size_t size = signature.size();
  FB_CHECK(context != nullptr &&
           EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
           EVP_DigestSign(context.get(), Out(signature), &size, In(message), message.size()) == 1 &&
           size == signature.size());
  return signature;
}

bool IsSignedBy(const PublicKey& key, ByteView message, ByteView signature) {
  if (signature.size() != Signature{}.size()) return false;
  const Key parsed(EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, In(key), key.size()));
  const DigestContext context(EVP_MD_CTX_new());
  FB_CHECK(context != nullptr);
  return parsed != nullptr &&
         EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, parsed.get()) == 1 &&
         EVP_DigestVerify(context.get(), In(signature), signature.size(), In(message), message.size()) == 1;
}

PublicKey KeyShareOf(const Secret& secret) { return PublicPart(EVP_PKEY_X25519, secret); }

Result<Secret> Agree(const Secret& mine, const PublicKey& theirs) {
  const Key own = PrivateKey(EVP_PKEY_X25519, mine);
  const Key peer(EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, nullptr, In(theirs), theirs.size()));
  const KeyContext context(EVP_PKEY_CTX_new(own.get(), nullptr));
  FB_CHECK(peer != nullptr && context != nullptr && EVP_PKEY_derive_init(context.get()) == 1);
  Secret shared;
  size_t size = Secret::kSize;
  // OpenSSL itself refuses an all-zero result (RFC 7748, section 6.1).
  if (EVP_PKEY_derive_set_peer(context.get(), peer.get()) != 1 ||
      EVP_PKEY_derive(context.get(), Out(shared.mutable_view()), &size) != 1 || size != Secret::kSize) {
    return Status::InvalidArgument("the key share is not a usable X25519 key");
  }
  return shared;
}

}  // namespace forebay::auth
