// SPDX-License-Identifier: Apache-2.0
#include "auth/tls_files.h"

#include <sys/stat.h>

#include "auth/tls_fixture.h"

namespace forebay::auth {
namespace {

using std::chrono::days;
const base::WallTime kNow{std::chrono::seconds(1'700'000'000)};

/// A directory with a client's files, each of which a test can spoil.
class TlsFilesTest : public testing::Test {
 protected:
  TlsFilesTest() : authority_(kNow) {
    std::string name = (std::filesystem::temp_directory_path() / "forebay-tls.XXXXXX").string();
    directory_ = mkdtemp(name.data());
    Fill(authority_.Client());
  }
  ~TlsFilesTest() override { std::filesystem::remove_all(directory_); }

  void Write(const std::string& name, std::string_view text) const {
    std::ofstream(directory_ + name) << text;
  }
  void Fill(const TlsFiles& files) const {
    Write("/ca.crt", files.authority_pem);
    Write("/tls.crt", files.certificate_pem);
    std::filesystem::remove(directory_ + "/tls.key");
    EXPECT_TRUE(files.key_pem.SaveNew(directory_ + "/tls.key").ok());
  }
  Status Load(base::WallTime now = kNow, CertificateUse use = CertificateUse::kClient) const {
    return TlsFiles::Load(directory_, use, now).status();
  }
  static bool Says(const Status& status, std::string_view words) {
    return status.message().find(words) != std::string_view::npos;
  }

  const Authority authority_;
  std::string directory_;
};

TEST_F(TlsFilesTest, WhatCertsMakesIsLoaded) {
  EXPECT_EQ(Load().ToString(), "OK");
  struct stat info{};
  ASSERT_EQ(stat((directory_ + "/tls.key").c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600u);
}

TEST_F(TlsFilesTest, AMissingFileIsNamed) {
  for (const char* name : {"/ca.crt", "/tls.crt", "/tls.key"}) {
    Fill(authority_.Client());
    std::filesystem::remove(directory_ + name);
    const Status status = Load();
    EXPECT_EQ(status.code(), Code::kNotFound) << name;
    EXPECT_TRUE(Says(status, directory_ + name)) << status.ToString();
  }
}

TEST_F(TlsFilesTest, AKeyThatOthersCanReadIsRefused) {
  for (const mode_t mode : {0640, 0604, 0620, 0666}) {
    ASSERT_EQ(chmod((directory_ + "/tls.key").c_str(), mode), 0);
    const Status status = Load();
    EXPECT_EQ(status.code(), Code::kPermissionDenied);
    EXPECT_TRUE(Says(status, "chmod 600 " + directory_ + "/tls.key"));
  }
}

TEST_F(TlsFilesTest, AKeyIsNeverOverwritten) {
  const Status again = authority_.Client().key_pem.SaveNew(directory_ + "/tls.key");
  EXPECT_EQ(again.code(), Code::kAlreadyExists);
  EXPECT_EQ(Load().ToString(), "OK");
}

TEST_F(TlsFilesTest, ExpiredAndNotYetGood) {
  EXPECT_TRUE(Load(kNow + days(365)).ok());
  const Status expired = Load(kNow + days(365) + std::chrono::seconds(1));
  EXPECT_EQ(expired.code(), Code::kFailedPrecondition);
  EXPECT_TRUE(Says(expired, "expired 2024-11-13T22:13:20Z")) << expired.ToString();
  EXPECT_TRUE(Says(Load(kNow - days(1)), "is good from 2023-11-14T22:08:20Z on"));
}

TEST_F(TlsFilesTest, EachUseHasItsCertificate) {
  EXPECT_TRUE(Says(Load(kNow, CertificateUse::kServer), "is not for a server"));
  Fill(authority_.Server());
  EXPECT_EQ(Load(kNow, CertificateUse::kServer).ToString(), "OK");
  EXPECT_EQ(Load(kNow, CertificateUse::kClient).ToString(), "OK");
}

TEST_F(TlsFilesTest, FilesThatDoNotBelongTogether) {
  const Authority other(kNow, "another");
  TlsFiles files = authority_.Client();
  files.key_pem = PrivateText(authority_.Client().key_pem.view());
  Fill(files);
  EXPECT_TRUE(Says(Load(), "is not the key of")) << Load().ToString();
  files = authority_.Client();
  files.authority_pem = other.key().certificate_pem;
  Fill(files);
  EXPECT_TRUE(Says(Load(), "is not of the authority in")) << Load().ToString();
  files.authority_pem += authority_.key().certificate_pem;  // both, as while one replaces the other
  Fill(files);
  EXPECT_EQ(Load().ToString(), "OK");
}

TEST_F(TlsFilesTest, GarbageIsNamed) {
  for (const char* name : {"/ca.crt", "/tls.crt", "/tls.key"}) {
    Fill(authority_.Client());
    Write(name, "-----BEGIN CERTIFICATE-----\nnothing\n");
    const Status status = Load();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << name;
    EXPECT_TRUE(Says(status, name)) << status.ToString();
    Write(name, std::string(100'000, 'x'));
    EXPECT_EQ(Load().code(), Code::kInvalidArgument) << name;
  }
}

}  // namespace
}  // namespace forebay::auth
