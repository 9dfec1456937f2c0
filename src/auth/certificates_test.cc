// SPDX-License-Identifier: Apache-2.0
#include "auth/certificates.h"

#include "auth/tls_fixture.h"

namespace forebay::auth {
namespace {

using std::chrono::days;
using std::chrono::seconds;

const base::WallTime kNow{seconds(1'700'000'000)};  // 2023-11-14T22:13:20Z

TEST(CertificatesTest, AnAuthoritySignsForAServer) {
  const Authority authority(kNow);
  const auto own = DescribeCertificate(authority.key().certificate_pem, "ca");
  ASSERT_TRUE(own.ok()) << own.status().ToString();
  EXPECT_TRUE(own->authority);
  EXPECT_EQ(own->subject, own->issuer);
  EXPECT_EQ(own->not_after, kNow + days(3650));

  const TlsFiles files = authority.Make({.name = "store1",
                                         .hosts = {"store1.example", "10.0.0.5", "::1"},
                                         .use = CertificateUse::kServer,
                                         .days = 30},
                                        kNow);
  const auto leaf = DescribeCertificate(files.certificate_pem, "leaf");
  ASSERT_TRUE(leaf.ok());
  EXPECT_EQ(leaf->subject, "store1");
  EXPECT_EQ(leaf->issuer, "test-authority");
  EXPECT_EQ(leaf->hosts, (std::vector<std::string>{"store1.example", "10.0.0.5", "::1"}));
  EXPECT_EQ(FormatCertificateTime(leaf->not_after), "2023-12-14T22:13:20Z");
  EXPECT_EQ(FormatCertificateTime(leaf->not_before), "2023-11-14T22:08:20Z");  // clocks differ
  EXPECT_EQ(leaf->sha256.size(), 64u);
  EXPECT_FALSE(leaf->authority);
  EXPECT_TRUE(leaf->server);
  EXPECT_TRUE(leaf->client);  // commands on the server's machine
}

TEST(CertificatesTest, AClientsIsGoodForNothingElse) {
  const auto leaf = DescribeCertificate(Authority(kNow).Client().certificate_pem, "leaf");
  ASSERT_TRUE(leaf.ok());
  EXPECT_TRUE(leaf->client);
  EXPECT_FALSE(leaf->server);
  EXPECT_FALSE(leaf->authority);
}

TEST(CertificatesTest, NamesThatAreNoneAreRefused) {
  const Authority authority(kNow);
  for (const std::string& host :
       {std::string("a,IP:10.0.0.1"), std::string("a b"), std::string(), std::string("*"),
        std::string("a\0b", 3), std::string(254, 'a'), std::string("-x")}) {
    const auto made =
        Issue(authority.key(), {.name = "s", .hosts = {host}, .use = CertificateUse::kServer}, kNow);
    EXPECT_EQ(made.status().code(), Code::kInvalidArgument) << host;
  }
  for (const std::string& name :
       {std::string(), std::string("a/b"), std::string("a\nb"), std::string(65, 'a')})
    EXPECT_EQ(Issue(authority.key(), {.name = name}, kNow).status().code(), Code::kInvalidArgument) << name;
  const std::vector<std::string> many(kMaxHosts + 1, "a");
  EXPECT_EQ(Issue(authority.key(), {.name = "s", .hosts = many}, kNow).status().code(),
            Code::kInvalidArgument);
}

TEST(CertificatesTest, NothingOutlivesItsAuthority) {
  const Authority authority(kNow);
  const auto late = Issue(authority.key(), {.name = "a", .days = 3651}, kNow);
  EXPECT_EQ(late.status().code(), Code::kInvalidArgument);
  EXPECT_NE(late.status().message().find("--days"), std::string_view::npos);
  EXPECT_TRUE(Issue(authority.key(), {.name = "a", .days = 3650}, kNow).ok());
  for (const uint32_t wrong : {0u, kMaxCertificateDays + 1})
    EXPECT_EQ(MakeAuthority("a", wrong, kNow).status().code(), Code::kInvalidArgument);
}

TEST(CertificatesTest, AKeyOfAnotherAuthorityIsRefused) {
  const Authority one(kNow), other(kNow);
  const CertifiedKey mixed{one.key().certificate_pem, PrivateText(other.key().key_pem.view())};
  EXPECT_EQ(Issue(mixed, {.name = "a"}, kNow).status().code(), Code::kInvalidArgument);
}

TEST(CertificatesTest, WhatIsNoCertificateIsRefusedByName) {
  const std::string good = Authority(kNow).key().certificate_pem;
  for (const std::string& text : {std::string(), std::string("hello"), good.substr(0, good.size() / 2),
                                  std::string(kMaxCertificateFileBytes + 1, 'a')}) {
    const auto info = DescribeCertificate(text, "dir/tls.crt");
    EXPECT_EQ(info.status().code(), Code::kInvalidArgument);
    EXPECT_NE(info.status().message().find("dir/tls.crt"), std::string_view::npos);
  }
}

// Made with: openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 36500 -subj
// /CN=outside
//            -addext subjectAltName=DNS:store.example,IP:192.0.2.7,IP:2001:db8::7 -addext
//            extendedKeyUsage=serverAuth
constexpr std::string_view kOutside =
    "-----BEGIN CERTIFICATE-----\n"
    "MIIBwzCCAWqgAwIBAgIUYZLaRR5WadZFd/UbD9potaMrYV0wCgYIKoZIzj0EAwIw\n"
    "EjEQMA4GA1UEAwwHb3V0c2lkZTAgFw0yNjExMzAwODA5NTJaGA8yMTI2MTEwNjA4\n"
    "MDk1MlowEjEQMA4GA1UEAwwHb3V0c2lkZTBZMBMGByqGSM49AgEGCCqGSM49AwEH\n"
    "A0IABD1EPTmN9umzJTgNDywq2XUp4dugdZtwZXlOxbY+fLO+Hq0oKrimbBmrAE80\n"
    "uePNKd6azGohaaR7aJ9SMoI/jHSjgZswgZgwHQYDVR0OBBYEFIODxS61p33KtHRh\n"
    "BDCSU7RvZ6YuMB8GA1UdIwQYMBaAFIODxS61p33KtHRhBDCSU7RvZ6YuMA8GA1Ud\n"
    "EwEB/wQFMAMBAf8wMAYDVR0RBCkwJ4INc3RvcmUuZXhhbXBsZYcEwAACB4cQIAEN\n"
    "uAAAAAAAAAAAAAAABzATBgNVHSUEDDAKBggrBgEFBQcDATAKBggqhkjOPQQDAgNH\n"
    "ADBEAiAblVfgGvLC+dIrQRyD/C6kx3PYq0cF6fcG66GsJE4U1wIgFkIo1+xY0hcs\n"
    "VJw3pUQD6y0kx2TQ43WnqzkJ2+Edu/w=\n"
    "-----END CERTIFICATE-----\n";
constexpr std::string_view kOutsideSha256 =
    "b723b8c9d21364e653ecd4c76bfa478f42cb375233c019a039567fa99d9c6fde";
constexpr std::string_view kOutsideEnd = "2126-11-06T08:09:52Z";

TEST(CertificatesTest, WhatOpensslMadeReadsAsOpensslShowsIt) {
  const auto info = DescribeCertificate(kOutside, "outside");
  ASSERT_TRUE(info.ok());
  EXPECT_EQ(info->subject, "outside");
  EXPECT_EQ(info->hosts, (std::vector<std::string>{"store.example", "192.0.2.7", "2001:db8::7"}));
  EXPECT_EQ(info->sha256, kOutsideSha256);
  EXPECT_EQ(FormatCertificateTime(info->not_after), kOutsideEnd);
  EXPECT_TRUE(info->server);
  EXPECT_FALSE(info->client);
}

}  // namespace
}  // namespace forebay::auth
