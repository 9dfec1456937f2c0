// SPDX-License-Identifier: Apache-2.0
#include "auth/tls_reload.h"

#include "auth/tls_fixture.h"

namespace forebay::auth {
namespace {

class TlsReloadTest : public testing::Test {
 protected:
  TlsReloadTest() {
    std::string name = (std::filesystem::temp_directory_path() / "forebay-tls.XXXXXX").string();
    directory_ = mkdtemp(name.data());
    clock_.JumpWall(std::chrono::system_clock::now() - clock_.WallNow());
    Replace(authority_.Server({"one.example"}));
    tls_ = *ReloadedTls::Open(directory_, kDataProtocol, clock_);
  }
  ~TlsReloadTest() override { std::filesystem::remove_all(directory_); }

  void Put(const std::string& name, std::string_view text) {
    const std::string path = directory_ + name;
    std::filesystem::remove(path);
    ASSERT_TRUE(PrivateText(text).SaveNew(path).ok());
    // File systems keep times in steps that two writes may share.
    std::filesystem::last_write_time(
        path, std::filesystem::file_time_type::clock::now() + std::chrono::hours(++changes_));
  }
  void Replace(const TlsFiles& files) {
    Put("/ca.crt", files.authority_pem);
    Put("/tls.crt", files.certificate_pem);
    Put("/tls.key", files.key_pem.view());
  }
  /// Whether a client that means `host` accepts the next connection's certificate.
  bool Serves(const std::string& host) {
    const auto client = *TlsContext::ForClient(authority_.Client(), kDataProtocol, host);
    ChannelPair pair{*client->Make(), *tls_->Make()};
    Status client_status, server_status;
    pair.Shake(&client_status, &server_status);
    return client_status.ok() && server_status.ok();
  }

  const Authority authority_;
  base::FakeClock clock_;
  std::string directory_;
  int changes_ = 0;
  std::unique_ptr<ReloadedTls> tls_;
};

TEST_F(TlsReloadTest, NewFilesAreUsedOnceItIsTimeToLook) {
  EXPECT_TRUE(Serves("one.example"));
  Replace(authority_.Server({"two.example"}));
  EXPECT_TRUE(Serves("one.example"));
  clock_.Advance(ReloadedTls::kLookAgain);
  EXPECT_TRUE(Serves("two.example"));
  EXPECT_FALSE(Serves("one.example"));
}

TEST_F(TlsReloadTest, FilesThatAreNotGoodAreLookedAtAgain) {
  const TlsFiles two = authority_.Server({"two.example"});
  Put("/tls.key", two.key_pem.view());  // half of the change
  clock_.Advance(ReloadedTls::kLookAgain);
  EXPECT_TRUE(Serves("one.example"));
  Put("/tls.crt", two.certificate_pem);
  clock_.Advance(ReloadedTls::kLookAgain);
  EXPECT_TRUE(Serves("two.example"));
}

TEST_F(TlsReloadTest, WhatIsNotGoodAtTheStartIsAnError) {
  Put("/tls.crt", "nothing");
  EXPECT_EQ(ReloadedTls::Open(directory_, kDataProtocol, clock_).status().code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace forebay::auth
