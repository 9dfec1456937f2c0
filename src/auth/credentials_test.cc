// SPDX-License-Identifier: Apache-2.0
#include "auth/credentials.h"

#include <stdlib.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "auth/secret_file.h"

namespace forebay::auth {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kSecretHex[] = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

class CredentialsTest : public ::testing::Test {
 protected:
  CredentialsTest() {
    char name[] = "/tmp/forebay-credentials-XXXXXX";
    directory_ = mkdtemp(name);
    path_ = directory_ + "/credentials";
  }
  ~CredentialsTest() override { std::filesystem::remove_all(directory_); }

  void Write(const std::string& text, mode_t mode = 0600) {
    std::ofstream(path_) << text;
    chmod(path_.c_str(), mode);
  }
  static std::string File(const std::string& id = "root-0a1b2c3d") {
    return "version = 1\ntenant = 1\nid = \"" + id + "\"\nsecret = \"" + kSecretHex + "\"\n";
  }
  size_t FilesInDirectory() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(directory_), {}));
  }

  std::string directory_;
  std::string path_;
  base::SeededRandom random_{7};
};

TEST_F(CredentialsTest, ComesBackAsSaved) {
  const Credentials saved = Credentials::Generate(random_);
  ASSERT_TRUE(saved.Save(path_, random_).ok());
  const Result<Credentials> loaded = Credentials::Load(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(loaded->id, saved.id);
  EXPECT_EQ(loaded->tenant, TenantId::kRoot);
  EXPECT_TRUE(loaded->secret == saved.secret);
}

TEST_F(CredentialsTest, IsSavedForTheOwnerOnlyWhateverTheUmask) {
  const mode_t before = umask(0);
  ASSERT_TRUE(Credentials::Generate(random_).Save(path_, random_).ok());
  umask(before);
  struct stat info{};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777, 0600U);
}

TEST_F(CredentialsTest, SaveReplacesAndLeavesNothingElse) {
  ASSERT_TRUE(Credentials::Generate(random_).Save(path_, random_).ok());
  const Credentials second = Credentials::Generate(random_);
  ASSERT_TRUE(second.Save(path_, random_).ok());
  EXPECT_EQ(Credentials::Load(path_)->id, second.id);
  EXPECT_EQ(FilesInDirectory(), 1U);
}

TEST_F(CredentialsTest, SaveThatFailsLeavesTheOldFileAndNoOther) {
  std::filesystem::create_directory(path_);  // a rename onto a directory fails
  const Status status = Credentials::Generate(random_).Save(path_, random_);
  EXPECT_FALSE(status.ok());
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
  EXPECT_EQ(FilesInDirectory(), 1U);
}

TEST_F(CredentialsTest, GeneratedOnesDiffer) {
  const Credentials first = Credentials::Generate(random_);
  const Credentials second = Credentials::Generate(random_);
  EXPECT_NE(first.id, second.id);
  EXPECT_FALSE(first.secret == second.secret);
  EXPECT_THAT(first.id, ::testing::MatchesRegex("root-[0-9a-f]{8}"));
}

TEST_F(CredentialsTest, ReadsTheDocumentedForm) {
  Write("# comment\r\n\n  version=1\n tenant = 1 \nid = \"root-0a1b2c3d\"\nsecret = \"" +
        std::string(kSecretHex) + "\"");
  const Result<Credentials> loaded = Credentials::Load(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.status().ToString();
  EXPECT_EQ(loaded->id, "root-0a1b2c3d");
  EXPECT_EQ(base::ToHex(loaded->secret.view()), kSecretHex);
}

TEST_F(CredentialsTest, MissingFileIsNotFound) {
  const Status status = Credentials::Load(path_).status();
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
}

TEST_F(CredentialsTest, OpenToOthersIsRefusedWithTheWayOut) {
  for (const mode_t mode : {0640, 0604, 0620, 0602, 0610, 0601, 0777}) {
    Write(File(), mode);
    const Status status = Credentials::Load(path_).status();
    EXPECT_EQ(status.code(), Code::kPermissionDenied) << mode;
    EXPECT_THAT(std::string(status.message()), HasSubstr("chmod 600 " + path_));
  }
}

TEST_F(CredentialsTest, SymbolicLinksAndDirectoriesAreRefused) {
  Write(File());
  const std::string link = directory_ + "/link";
  std::filesystem::create_symlink(path_, link);
  EXPECT_EQ(Credentials::Load(link).status().code(), Code::kPermissionDenied);
  EXPECT_EQ(Credentials::Load(directory_).status().code(), Code::kInvalidArgument);
}

TEST_F(CredentialsTest, EachBrokenFileIsRefusedWithoutShowingTheSecret) {
  const std::string good = File();
  const struct {
    std::string text;
    std::string says;
  } cases[] = {
      {"", "`version` is missing"},
      {"version = 2\n" + good.substr(12), "version is 2"},
      {"version = one\n", "line 1: `version` is not a number"},
      {"version = 99999999999999999999\n", "not a number"},
      {"version = -1\n", "not a number"},
      {good + "version = 1\n", "line 5: `version` is there twice"},
      {good + "secret = \"" + kSecretHex + "\"\n", "`secret` is there twice"},
      {good + "colour = \"red\"\n", "unknown field"},
      {good + "hello\n", "expected `name = value`"},
      {good + "[table]\n", "expected `name = value`"},
      {"version = 1\ntenant = 0\nid = \"a\"\nsecret = \"" + std::string(kSecretHex) + "\"\n",
       "`tenant` is missing or 0"},
      {"version = 1\ntenant = 1\nsecret = \"" + std::string(kSecretHex) + "\"\n", "`id` is missing"},
      {"version = 1\ntenant = 1\nid = \"a\"\n", "`secret` is missing"},
      {File("Root"), "`id` is not"},
      {File(""), "`id` is not"},
      {File(std::string(65, 'a')), "`id` is not"},
      {File("a\\u0041"), "`id` is not"},
      {"secret = \"" + std::string(kSecretHex) + "0\"\n", "`secret` is not 64"},
      {"secret = \"" + std::string(kSecretHex).substr(2) + "\"\n", "`secret` is not 64"},
      {"secret = " + std::string(kSecretHex) + "\n", "`secret` is not 64"},
      {"secret = \"" + std::string(kSecretHex).substr(1) + "g\"\n", "`secret` is not 64"},
      {std::string("version = 1\0", 12), "not a number"},
      {good + std::string(kMaxSecretFileBytes, '#'), "16384 bytes or more"},
  };
  for (const auto& broken : cases) {
    Write(broken.text);
    const Status status = Credentials::Load(path_).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << broken.text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(broken.says));
    EXPECT_THAT(std::string(status.message()), HasSubstr(path_));
    EXPECT_THAT(std::string(status.message()), Not(HasSubstr("0405060708")));
  }
}

}  // namespace
}  // namespace forebay::auth
