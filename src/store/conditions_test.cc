// SPDX-License-Identifier: Apache-2.0
#include "store/conditions.h"

#include <gtest/gtest.h>

namespace forebay::store {
namespace {

Code CodeOf(const Condition& condition, std::optional<std::string_view> etag) {
  return CheckCondition(condition, etag, "models", "weights").code();
}

TEST(CheckCondition, DecidesEachConditionForEachStateOfTheObject) {
  EXPECT_EQ(CodeOf(Condition::None(), std::nullopt), Code::kOk);
  EXPECT_EQ(CodeOf(Condition::None(), "e1"), Code::kOk);
  EXPECT_EQ(CodeOf(Condition::IfAbsent(), std::nullopt), Code::kOk);
  EXPECT_EQ(CodeOf(Condition::IfAbsent(), "e1"), Code::kAlreadyExists);
  EXPECT_EQ(CodeOf(Condition::IfMatch("e1"), std::nullopt), Code::kNotFound);
  EXPECT_EQ(CodeOf(Condition::IfMatch("e1"), "e1"), Code::kOk);
  EXPECT_EQ(CodeOf(Condition::IfMatch("e1"), "e2"), Code::kFailedPrecondition);
  EXPECT_EQ(CodeOf(Condition::IfMatch(""), "e2"), Code::kFailedPrecondition);  // an empty ETag is not "any"
}

TEST(CheckCondition, RefusesAKindThatIsUnknown) {
  EXPECT_EQ(CodeOf({static_cast<Condition::Kind>(9), ""}, "e1"), Code::kInvalidArgument);
}

TEST(CheckCondition, NamesObjectAndETags) {
  const Status status = CheckCondition(Condition::IfMatch("old"), "new", "models", "weights");
  for (const char* part : {"models/weights", "old", "new"})
    EXPECT_NE(status.message().find(part), std::string_view::npos);
}

}  // namespace
}  // namespace forebay::store
