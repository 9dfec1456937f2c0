// SPDX-License-Identifier: Apache-2.0
#include "auth/certificates.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <ctime>

#include <openssl/pem.h>
#include <openssl/rand.h>

#include "auth/openssl_handles.h"

namespace forebay::auth {

namespace {

constexpr size_t kMaxNameBytes = 64;  // of a common name, by X.520
constexpr size_t kMaxHostBytes = 253;
constexpr size_t kSerialBytes = 16;
constexpr base::Duration kClockSkew = std::chrono::minutes(5);  // between the authority's machine and others

Status Failed(std::string_view what) { return Status::Internal("{}: {}", what, OpensslReason()); }

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
         c == '_';
}

Status CheckName(std::string_view what, std::string_view name, size_t most) {
  if (!name.empty() && name.size() <= most && name.front() != '-' && name.front() != '.' &&
      std::ranges::all_of(name, IsNameCharacter))
    return {};
  return Status::InvalidArgument("the {} `{}` is not 1 to {} letters, digits, `-`, `.` and `_`", what, name,
                                 most);
}

bool IsAddress(const std::string& host) {
  std::array<unsigned char, sizeof(in6_addr)> bytes;
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

bool AddExtension(X509* certificate, X509* issuer, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value);
  const bool added = extension != nullptr && X509_add_ext(certificate, extension, -1) == 1;
  X509_EXTENSION_free(extension);
  return added;
}

/// Built by hand and not of a configuration text, in which a host could be more than a host.
bool AddHosts(X509* certificate, const std::vector<std::string>& hosts) {
  if (hosts.empty()) return true;
  const std::unique_ptr<GENERAL_NAMES, OpensslFree<GENERAL_NAMES_free>> names(GENERAL_NAMES_new());
  for (const std::string& host : hosts) {
    GENERAL_NAME* const name = GENERAL_NAME_new();
    if (names == nullptr || name == nullptr || sk_GENERAL_NAME_push(names.get(), name) == 0) return false;
    if (IsAddress(host)) {
      GENERAL_NAME_set0_value(name, GEN_IPADD, a2i_IPADDRESS(host.c_str()));
    } else {
      ASN1_IA5STRING* const text = ASN1_IA5STRING_new();
      if (text == nullptr || ASN1_STRING_set(text, host.data(), static_cast<int>(host.size())) == 0)
        return false;
      GENERAL_NAME_set0_value(name, GEN_DNS, text);
    }
  }
  return X509_add1_ext_i2d(certificate, NID_subject_alt_name, names.get(), 0, X509V3_ADD_DEFAULT) == 1;
}

bool SetTimes(X509* certificate, base::WallTime now, uint32_t days) {
  const auto seconds = [](base::WallTime time) {
    return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
  };
  return ASN1_TIME_set(X509_getm_notBefore(certificate), seconds(now - kClockSkew)) != nullptr &&
         ASN1_TIME_set(X509_getm_notAfter(certificate), seconds(now + std::chrono::days(days))) != nullptr;
}

/// A certificate for `key` with everything but extensions and signature.
CertificateHandle Draft(EVP_PKEY* key, const std::string& name, base::WallTime now, uint32_t days) {
  CertificateHandle certificate(X509_new());
  std::array<unsigned char, kSerialBytes> serial;
  if (certificate == nullptr || RAND_bytes(serial.data(), serial.size()) != 1) return nullptr;
  serial[0] = static_cast<unsigned char>((serial[0] & 0x7f) | 0x40);  // positive, and as long as it looks
  const std::unique_ptr<BIGNUM, OpensslFree<BN_free>> number(BN_bin2bn(serial.data(), kSerialBytes, nullptr));
  X509_NAME* const subject = X509_get_subject_name(certificate.get());
  const bool made =
      number != nullptr &&
      BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate.get())) != nullptr &&
      X509_set_version(certificate.get(), X509_VERSION_3) == 1 && SetTimes(certificate.get(), now, days) &&
      X509_NAME_add_entry_by_NID(subject, NID_commonName, MBSTRING_UTF8,
                                 reinterpret_cast<const unsigned char*>(name.data()),  // only read
                                 static_cast<int>(name.size()), -1, 0) == 1 &&
      X509_set_pubkey(certificate.get(), key) == 1;
  return made ? std::move(certificate) : nullptr;
}

Result<CertifiedKey> ToPem(X509* certificate, EVP_PKEY* key) {
  const BioHandle text(BIO_new(BIO_s_mem()));
  const BioHandle secret(BIO_new(BIO_s_secmem()));
  if (text == nullptr || secret == nullptr || PEM_write_bio_X509(text.get(), certificate) != 1 ||
      PEM_write_bio_PrivateKey(secret.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1)
    return Failed("writing a certificate");
  char* data = nullptr;
  const auto view = [&data](BIO* bio) {
    const long size = BIO_get_mem_data(bio, &data);
    return std::string_view(data, static_cast<size_t>(size));
  };
  std::string pem(view(text.get()));
  PrivateText key_pem(view(secret.get()));
  OPENSSL_cleanse(data, key_pem.view().size());
  return CertifiedKey{.certificate_pem = std::move(pem), .key_pem = std::move(key_pem)};
}

Result<CertificateHandle> ReadCertificate(std::string_view pem, const std::string& name) {
  if (pem.size() > kMaxCertificateFileBytes)
    return Status::InvalidArgument("{} has {} bytes: more than {} is no certificate", name, pem.size(),
                                   kMaxCertificateFileBytes);
  const BioHandle bio = ReadOnly(pem);
  CertificateHandle certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  if (certificate == nullptr)
    return Status::InvalidArgument("{} is no certificate in PEM: {}", name, OpensslReason());
  return certificate;
}

base::WallTime TimeOf(const ASN1_TIME* time) {
  std::tm fields{};
  if (ASN1_TIME_to_tm(time, &fields) != 1) return {};
  // Years that a WallTime in nanoseconds cannot hold are as good as its ends.
  const int64_t seconds = std::clamp<int64_t>(timegm(&fields), -8'000'000'000, 8'000'000'000);
  return base::WallTime(std::chrono::seconds(seconds));
}

std::string CommonNameOf(const X509_NAME* name) {
  const int at = X509_NAME_get_index_by_NID(name, NID_commonName, -1);
  if (at < 0) return {};
  unsigned char* text = nullptr;
  const int size = ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(name, at)));
  if (size < 0) return {};
  std::string common(reinterpret_cast<const char*>(text), static_cast<size_t>(size));
  OPENSSL_free(text);
  // It is shown to people, and it is a stranger's.
  std::ranges::replace_if(
      common, [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }, '?');
  return common;
}

std::vector<std::string> HostsOf(const X509* certificate) {
  std::vector<std::string> hosts;
  const std::unique_ptr<GENERAL_NAMES, OpensslFree<GENERAL_NAMES_free>> names(
      static_cast<GENERAL_NAMES*>(X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  for (int i = 0; names != nullptr && i < sk_GENERAL_NAME_num(names.get()); ++i) {
    int kind = 0;
    const auto* const value = static_cast<const ASN1_STRING*>(
        GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names.get(), i), &kind));
    const unsigned char* const data = ASN1_STRING_get0_data(value);
    const int size = ASN1_STRING_length(value);
    if (kind == GEN_DNS) {
      std::string host(reinterpret_cast<const char*>(data), static_cast<size_t>(size));
      std::ranges::replace_if(host, [](char c) { return c <= ' ' || c == 0x7f; }, '?');
      hosts.push_back(std::move(host));
    } else if (kind == GEN_IPADD && (size == 4 || size == 16)) {
      std::array<char, INET6_ADDRSTRLEN> text{};
      if (inet_ntop(size == 4 ? AF_INET : AF_INET6, data, text.data(), text.size()) != nullptr)
        hosts.emplace_back(text.data());
    }
  }
  return hosts;
}

Status CheckDays(uint32_t days) {
  if (days >= 1 && days <= kMaxCertificateDays) return {};
  return Status::InvalidArgument("{} days: a certificate is good for 1 to {}", days, kMaxCertificateDays);
}

Status CheckRequest(const CertificateRequest& request) {
  FB_TRY(CheckName("name", request.name, kMaxNameBytes));
  FB_TRY(CheckDays(request.days));
  if (request.hosts.size() > kMaxHosts)
    return Status::InvalidArgument("{} hosts: a certificate is good for {} at most", request.hosts.size(),
                                   kMaxHosts);
  for (const std::string& host : request.hosts)
    if (!IsAddress(host)) FB_TRY(CheckName("host", host, kMaxHostBytes));
  return {};
}

}  // namespace

Result<CertifiedKey> MakeAuthority(const std::string& name, uint32_t days, base::WallTime now) {
  FB_TRY(CheckName("name", name, kMaxNameBytes));
  FB_TRY(CheckDays(days));
  const KeyHandle key(EVP_EC_gen("P-256"));
  const CertificateHandle certificate = key == nullptr ? nullptr : Draft(key.get(), name, now, days);
  X509* const self = certificate.get();
  if (self == nullptr || X509_set_issuer_name(self, X509_get_subject_name(self)) != 1 ||
      !AddExtension(self, self, NID_basic_constraints, "critical,CA:TRUE,pathlen:0") ||
      !AddExtension(self, self, NID_key_usage, "critical,keyCertSign,cRLSign") ||
      !AddExtension(self, self, NID_subject_key_identifier, "hash") ||
      X509_sign(self, key.get(), EVP_sha256()) == 0)
    return Failed("making an authority");
  return ToPem(self, key.get());
}

Result<CertifiedKey> Issue(const CertifiedKey& authority, const CertificateRequest& request,
                           base::WallTime now) {
  FB_TRY(CheckRequest(request));
  FB_ASSIGN(const CertificateHandle issuer,
            ReadCertificate(authority.certificate_pem, "the authority's certificate"));
  const BioHandle secret = ReadOnly(authority.key_pem.view());
  const KeyHandle issuer_key(PEM_read_bio_PrivateKey(secret.get(), nullptr, nullptr, nullptr));
  if (issuer_key == nullptr || X509_check_private_key(issuer.get(), issuer_key.get()) != 1)
    return Status::InvalidArgument("the authority's key does not belong to its certificate: {}",
                                   OpensslReason());
  const base::WallTime ends = TimeOf(X509_get0_notAfter(issuer.get()));
  if (now + std::chrono::days(request.days) > ends)
    return Status::InvalidArgument(
        "{} days would outlive the authority, which ends {}; choose fewer with --days", request.days,
        FormatCertificateTime(ends));
  const bool server = request.use == CertificateUse::kServer;
  const KeyHandle key(EVP_EC_gen("P-256"));
  const CertificateHandle certificate =
      key == nullptr ? nullptr : Draft(key.get(), request.name, now, request.days);
  X509* const leaf = certificate.get();
  if (leaf == nullptr || X509_set_issuer_name(leaf, X509_get_subject_name(issuer.get())) != 1 ||
      !AddExtension(leaf, issuer.get(), NID_basic_constraints, "critical,CA:FALSE") ||
      !AddExtension(leaf, issuer.get(), NID_key_usage, "critical,digitalSignature") ||
      !AddExtension(leaf, issuer.get(), NID_ext_key_usage, server ? "serverAuth,clientAuth" : "clientAuth") ||
      !AddExtension(leaf, issuer.get(), NID_subject_key_identifier, "hash") ||
      !AddExtension(leaf, issuer.get(), NID_authority_key_identifier, "keyid:always") ||
      !AddHosts(leaf, request.hosts) || X509_sign(leaf, issuer_key.get(), EVP_sha256()) == 0)
    return Failed("making a certificate");
  return ToPem(leaf, key.get());
}

Result<CertificateInfo> DescribeCertificate(std::string_view pem, const std::string& name) {
  FB_ASSIGN(const CertificateHandle certificate, ReadCertificate(pem, name));
  std::array<std::byte, EVP_MAX_MD_SIZE> digest;
  unsigned size = 0;
  if (X509_digest(certificate.get(), EVP_sha256(), reinterpret_cast<unsigned char*>(digest.data()), &size) !=
      1)
    return Failed("the fingerprint of " + name);
  return CertificateInfo{.subject = CommonNameOf(X509_get_subject_name(certificate.get())),
                         .issuer = CommonNameOf(X509_get_issuer_name(certificate.get())),
                         .hosts = HostsOf(certificate.get()),
                         .not_before = TimeOf(X509_get0_notBefore(certificate.get())),
                         .not_after = TimeOf(X509_get0_notAfter(certificate.get())),
                         .sha256 = base::ToHex(ByteView(digest).first(size)),
                         .authority = X509_check_ca(certificate.get()) == 1,
                         .server = X509_check_purpose(certificate.get(), X509_PURPOSE_SSL_SERVER, 0) == 1,
                         .client = X509_check_purpose(certificate.get(), X509_PURPOSE_SSL_CLIENT, 0) == 1};
}

std::string FormatCertificateTime(base::WallTime time) {
  const std::time_t seconds =
      std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
  std::tm fields{};
  gmtime_r(&seconds, &fields);
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &fields);
  return text.data();
}

}  // namespace forebay::auth
