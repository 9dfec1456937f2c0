// SPDX-License-Identifier: Apache-2.0
#include "app/profile.h"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <map>

#include <gtest/gtest.h>

namespace forebay::app {
namespace {

class ProfileTest : public testing::Test {
 protected:
  ProfileTest()
      : home_(testing::TempDir() + "profile-" +
              testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::filesystem::remove_all(home_);
    variables_["HOME"] = home_;
  }
  ~ProfileTest() override { std::filesystem::remove_all(home_); }

  Environment environment() {
    return [this](const std::string& name) { return variables_[name]; };
  }
  std::string path() { return ProfilePath(environment()); }

  std::string home_;
  std::map<std::string, std::string> variables_;
};

TEST_F(ProfileTest, FlagsWinOverEnvironmentOverProfile) {
  ASSERT_TRUE(SaveProfile(path(), {"127.0.0.1:3", "/c3"}).ok());
  EXPECT_EQ(ResolveProfile({}, environment()).value(), (Profile{"127.0.0.1:3", "/c3"}));
  variables_["FOREBAY_SERVER"] = "127.0.0.1:2";
  EXPECT_EQ(ResolveProfile({}, environment()).value(), (Profile{"127.0.0.1:2", "/c3"}));
  variables_["FOREBAY_CREDENTIALS"] = "/c2";
  EXPECT_EQ(ResolveProfile({"127.0.0.1:1", {}}, environment()).value(), (Profile{"127.0.0.1:1", "/c2"}));
}

TEST_F(ProfileTest, WithoutCredentialsItSaysWhereTheyComeFrom) {
  const auto resolved = ResolveProfile({}, environment());
  ASSERT_FALSE(resolved.ok());
  EXPECT_NE(resolved.status().message().find("FOREBAY_CREDENTIALS"), std::string_view::npos);
}

TEST_F(ProfileTest, TheDefaultServerIsUsedWithGivenCredentials) {
  EXPECT_EQ(ResolveProfile({{}, "/c"}, environment()).value(), (Profile{"127.0.0.1:7400", "/c"}));
}

TEST_F(ProfileTest, CertificatesBelongToTheServerThatTheyWereSavedWith) {
  ASSERT_TRUE(SaveProfile(path(), {"127.0.0.1:3", "/c3", "/t3"}).ok());
  EXPECT_EQ(ResolveProfile({}, environment())->tls, "/t3");
  EXPECT_EQ(ResolveProfile({"127.0.0.1:3", {}}, environment())->tls, "/t3");
  EXPECT_EQ(ResolveProfile({"127.0.0.1:1", {}}, environment())->tls, "");
  variables_["FOREBAY_TLS"] = "/t2";
  EXPECT_EQ(ResolveProfile({"127.0.0.1:1", {}}, environment())->tls, "/t2");
  EXPECT_EQ(ResolveProfile({{}, {}, "/t1"}, environment())->tls, "/t1");
}

TEST_F(ProfileTest, OnlyItsUserReadsIt) {
  ASSERT_TRUE(SaveProfile(path(), {"127.0.0.1:1", "/c"}).ok());
  struct stat info{};
  ASSERT_EQ(stat(path().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600U);
}

TEST_F(ProfileTest, AStoppingServerRemovesOnlyItsOwn) {
  ASSERT_TRUE(SaveProfile(path(), {"127.0.0.1:2", "/second"}).ok());
  RemoveProfile(path(), {"127.0.0.1:1", "/first"});
  EXPECT_TRUE(LoadProfile(path()).ok());
  RemoveProfile(path(), {"127.0.0.1:2", "/second"});
  EXPECT_EQ(LoadProfile(path()).status().code(), Code::kNotFound);
}

TEST_F(ProfileTest, AMalformedOneIsAnErrorThatNamesFileAndLine) {
  ASSERT_TRUE(SaveProfile(path(), {}).ok());
  std::ofstream(path()) << "server = \"x\"\ncredentials = [\n";
  const auto resolved = ResolveProfile({}, environment());
  ASSERT_FALSE(resolved.ok());
  EXPECT_NE(resolved.status().message().find(path()), std::string_view::npos);
  EXPECT_NE(resolved.status().message().find("line"), std::string_view::npos);
}

TEST_F(ProfileTest, XdgStateHomeComesBeforeHome) {
  variables_["XDG_STATE_HOME"] = "/state";
  EXPECT_EQ(path(), "/state/forebay/profile.toml");
}

}  // namespace
}  // namespace forebay::app
