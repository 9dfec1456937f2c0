// SPDX-License-Identifier: Apache-2.0
#include "app/backend_choice.h"

#include <gtest/gtest.h>

namespace forebay::app {
namespace {

std::string ServerOf(std::string_view text) {
  const Result<BackendChoice> choice = ParseBackend(text);
  EXPECT_TRUE(choice.ok()) << choice.status().ToString();
  return choice.ok() ? std::get<RemoteBackend>(*choice).server : std::string();
}

TEST(BackendChoice, NothingIsTheEngine) {
  EXPECT_EQ(*ParseBackend(""), BackendChoice(EngineBackend{}));
}

TEST(BackendChoice, ARemoteHasAHostAndMayHaveAPort) {
  EXPECT_EQ(ServerOf("remote:storage-1"), "storage-1:7400");
  EXPECT_EQ(ServerOf("remote:storage-1:9000"), "storage-1:9000");
  EXPECT_EQ(ServerOf("remote:10.0.0.7"), "10.0.0.7:7400");
  EXPECT_EQ(ServerOf("remote:[::1]"), "[::1]:7400");
  EXPECT_EQ(ServerOf("remote:[::1]:9000"), "[::1]:9000");
}

TEST(BackendChoice, ADirectoryHasAPath) {
  EXPECT_EQ(*ParseBackend("directory:/srv/files"), BackendChoice(DirectoryBackend{"/srv/files"}));
  EXPECT_EQ(*ParseBackend("directory:a:b"), BackendChoice(DirectoryBackend{"a:b"}));
}

TEST(BackendChoice, AnythingElseIsRefusedWithWhatIsKnown) {
  for (const char* const text : {"directory", "directory:", "remote", "remote:", "remote::9000", "remote:host:", "remote:host:0", "remote:host:70000",
                                 "remote:host:x", "engine:", "s3:bucket", "storage-1:7400"}) {
    const Result<BackendChoice> choice = ParseBackend(text);
    EXPECT_EQ(choice.status().code(), Code::kInvalidArgument) << text;
    EXPECT_NE(choice.status().message().find("remote:HOST"), std::string_view::npos) << choice.status().ToString();
  }
}

}  // namespace
}  // namespace forebay::app
