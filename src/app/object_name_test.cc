// SPDX-License-Identifier: Apache-2.0
#include "app/object_name.h"

#include <gtest/gtest.h>

namespace forebay::app {
namespace {

TEST(ObjectNameTest, TheFirstSlashPartsBucketAndKey) {
  const auto name = ObjectName::Parse("models/llama/../x//y.bin");
  ASSERT_TRUE(name.ok());
  EXPECT_EQ(name->bucket, "models");
  EXPECT_EQ(name->key, "llama/../x//y.bin");
}

TEST(ObjectNameTest, AnObjectNeedsAKey) {
  for (const char* text : {"models", "models/", ""}) EXPECT_FALSE(ObjectName::Parse(text).ok()) << text;
}

TEST(ObjectNameTest, APrefixMayBeEmpty) {
  EXPECT_EQ(ObjectName::ParsePrefix("models")->key, "");
  EXPECT_EQ(ObjectName::ParsePrefix("models/")->key, "");
  EXPECT_EQ(ObjectName::ParsePrefix("models/a/")->key, "a/");
}

TEST(ObjectNameTest, ABadBucketNameIsNamed) {
  const auto name = ObjectName::Parse("Models/key");
  ASSERT_FALSE(name.ok());
  EXPECT_NE(name.status().message().find("`Models`"), std::string_view::npos);
}

}  // namespace
}  // namespace forebay::app
