// SPDX-License-Identifier: Apache-2.0
#include "auth/tls_files.h"

#include <cerrno>
#include <chrono>
#include <fstream>

#include "auth/tls_context.h"

namespace forebay::auth {

namespace {

std::string_view NameOf(CertificateUse use) { return use == CertificateUse::kServer ? "server" : "client"; }

Status CheckTime(const CertificateInfo& info, const std::string& path, base::WallTime now) {
  if (now > info.not_after)
    return Status::FailedPrecondition(
        "the certificate {} expired {}; make a new one with `forebay certs`, or set this machine's clock",
        path, FormatCertificateTime(info.not_after));
  if (now < info.not_before)
    return Status::FailedPrecondition("the certificate {} is good from {} on; set this machine's clock", path,
                                      FormatCertificateTime(info.not_before));
  return {};
}

}  // namespace

Result<std::string> LoadCertificateFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Status::FromErrno(errno, "open the certificate " + path);
  std::string text(kMaxCertificateFileBytes + 1, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  if (text.size() > kMaxCertificateFileBytes)
    return Status::InvalidArgument("{} has more than {} bytes: it is no certificate", path,
                                   kMaxCertificateFileBytes);
  return text;
}

Result<TlsFiles> TlsFiles::Load(const std::string& directory, CertificateUse use, base::WallTime now) {
  TlsFiles files;
  files.directory = directory;
  const auto text = [&](const char* name) -> Result<std::string> {
    Result<std::string> loaded = LoadCertificateFile(directory + name);
    if (loaded.ok() || loaded.status().code() != Code::kNotFound) return loaded;
    return Status::NotFound(
        "{}{} is missing: the directory holds ca.crt, tls.crt and tls.key, as `forebay certs {}` "
        "makes them",
        directory, name, NameOf(use));
  };
  FB_ASSIGN(files.authority_pem, text("/ca.crt"));
  FB_ASSIGN(files.certificate_pem, text("/tls.crt"));
  FB_ASSIGN(files.key_pem, PrivateText::Load(directory + "/tls.key"));
  const std::string path = directory + "/tls.crt";
  FB_ASSIGN(const CertificateInfo info, DescribeCertificate(files.certificate_pem, path));
  FB_TRY(CheckTime(info, path, now));
  // The authorities' own times are judged with the chain: while one replaces another, one of them may be over.
  if (use == CertificateUse::kServer ? !info.server : !info.client)
    return Status::FailedPrecondition("the certificate {} is not for a {}; make one with `forebay certs {}`",
                                      path, NameOf(use), NameOf(use));
  FB_TRY(TlsContext::Check(files));
  return files;
}

}  // namespace forebay::auth
