// SPDX-License-Identifier: Apache-2.0
#include "auth/policy.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

#include "wire/message.h"

namespace forebay::auth {
namespace {

TEST(Policy, WhatHasNoRowIsDeniedToEveryone) {
  for (const std::string_view operation :
       {"", "/", "data/get", "/forebay.control.v1.Admin/Shutdown", "/forebay.control.v1.Admin/Health ",
        "forebay.control.v1.Admin/Health",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}) {
    EXPECT_EQ(CheckPolicy(operation, RightSet::All()).code(), Code::kPermissionDenied) << operation;
  }
}

TEST(Policy, OnlyHealthIsPublic) {
  for (const PolicyRow& row : PolicyTable()) {
    EXPECT_EQ(row.right == Right::kPublic, row.operation == "/forebay.control.v1.Admin/Health")
        << row.operation;
    EXPECT_EQ(CheckPolicy(row.operation, RightSet()).ok(), row.right == Right::kPublic) << row.operation;
    EXPECT_TRUE(CheckPolicy(row.operation, RightSet::All()).ok()) << row.operation;
  }
}

// The control plane's rows are held against its service descriptors in control/server_test.cc.
TEST(Policy, HasARowForEachMessageOfTheDataPlaneAndNoOther) {
  std::set<std::string> messages;
  for (int number = 0; number < 256; ++number) {
    const auto type = static_cast<wire::Type>(number);
    if (wire::IsKnown(type)) messages.insert("data/" + std::string(wire::TypeName(type)));
  }
  std::set<std::string> rows;
  for (const PolicyRow& row : PolicyTable()) {
    if (row.operation.starts_with("data/")) rows.emplace(row.operation);
  }
  EXPECT_EQ(rows, messages);
}

TEST(Policy, ARightGivesItsOperationsOnly) {
  const RightSet readers = RightSet().With(Right::kRead);
  EXPECT_TRUE(CheckPolicy("data/Get", readers).ok());
  EXPECT_TRUE(CheckPolicy("/forebay.control.v1.Namespace/Stat", readers).ok());
  EXPECT_EQ(CheckPolicy("data/Put", readers).code(), Code::kPermissionDenied);
  EXPECT_EQ(CheckPolicy("/forebay.control.v1.Namespace/Delete", readers).code(), Code::kPermissionDenied);
}

}  // namespace
}  // namespace forebay::auth
