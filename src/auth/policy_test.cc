// SPDX-License-Identifier: Apache-2.0
#include "auth/policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "auth/grant.h"

namespace forebay::auth {
namespace {


Status Check(const Grant& grant, std::string_view operation, const Target& target = {}) {
  const Result<PolicyRow> row = PolicyOf(operation);
  return row.ok() ? CheckGrant(grant, *row, target) : row.status();
}

Grant Holder(RightSet rights, std::string bucket = {}, std::string prefix = {}) {
  Grant grant{.tenant = TenantId{7}, .rights = rights, .bucket = std::move(bucket), .prefix = std::move(prefix)};
  grant.name = "capability 01";
  return grant;
}

TEST(Policy, WhatHasNoRowIsDeniedToEveryone) {
  for (const std::string_view operation :
       {"", "/", "data/get", "/forebay.control.v1.Admin/Shutdown", "/forebay.control.v1.Admin/Health ",
        "forebay.control.v1.Admin/Health",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"}) {
    EXPECT_EQ(PolicyOf(operation).status().code(), Code::kPermissionDenied) << operation;
  }
}

TEST(Policy, OnlyHealthIsPublic) {
  for (const PolicyRow& row : PolicyTable()) {
    EXPECT_EQ(row.right == Right::kPublic, row.operation == "/forebay.control.v1.Admin/Health")
        << row.operation;
    EXPECT_EQ(CheckGrant(Grant(), row, {}).ok(), row.right == Right::kPublic) << row.operation;
    EXPECT_TRUE(CheckGrant(Grant::Root("root-1"), row, {}).ok()) << row.operation;
  }
}

TEST(Policy, ARightGivesItsOperationsOnly) {
  const Grant reader = Holder(RightSet::Proven().With(Right::kGet));
  EXPECT_TRUE(Check(reader, "data/Get", {"b", "k"}).ok());
  EXPECT_TRUE(Check(reader, "/forebay.control.v1.Namespace/Stat", {"b", "k"}).ok());
  EXPECT_EQ(Check(reader, "data/Put", {"b", "k"}).code(), Code::kPermissionDenied);
  EXPECT_EQ(Check(reader, "/forebay.control.v1.Namespace/Delete", {"b", "k"}).code(), Code::kPermissionDenied);
}

TEST(Policy, APrefixCoversItsKeysOnly) {
  const Grant grant = Holder(RightSet::All(), "models", "llama/");
  EXPECT_TRUE(Check(grant, "data/Get", {"models", "llama/x"}).ok());
  EXPECT_TRUE(Check(grant, "data/Get", {"models", "llama/"}).ok());
  for (const Target& outside : {Target{"models", "llama"}, Target{"models", "llamas/x"}, Target{"models", ""},
                                Target{"model", "llama/x"}, Target{"", "llama/x"}, Target{"models2", "llama/x"}})
    EXPECT_EQ(Check(grant, "data/Get", outside).code(), Code::kPermissionDenied) << outside.bucket << outside.key;
  EXPECT_TRUE(Check(grant, "/forebay.control.v1.Namespace/List", {"models", "llama/7b"}).ok());
  EXPECT_FALSE(Check(grant, "/forebay.control.v1.Namespace/List", {"models", "ll"}).ok());
  EXPECT_FALSE(Check(grant, "/forebay.control.v1.Buckets/Delete", {"models", ""}).ok()) << "it holds other keys too";
  EXPECT_FALSE(Check(grant, "/forebay.control.v1.Buckets/List").ok());
}

TEST(Policy, ABucketCoversItselfAndATenantAllOfItsOwn) {
  const Grant bucket = Holder(RightSet::All(), "models");
  EXPECT_TRUE(Check(bucket, "/forebay.control.v1.Buckets/Delete", {"models", ""}).ok());
  EXPECT_FALSE(Check(bucket, "/forebay.control.v1.Buckets/Delete", {"other", ""}).ok());
  const Grant tenant = Holder(RightSet::All());
  EXPECT_TRUE(Check(tenant, "/forebay.control.v1.Buckets/Delete", {"other", ""}).ok());
  EXPECT_TRUE(Check(tenant, "/forebay.control.v1.Buckets/List").ok());
  for (const char* method : {"/forebay.control.v1.Admin/Stats", "/forebay.control.v1.Admin/Space"})
    EXPECT_FALSE(Check(tenant, method).ok()) << method << ": the server is the root tenant's";
}

TEST(Policy, ARefusalSaysWhichRightIsMissing) {
  const Grant grant = Holder(RightSet::Proven().With(Right::kGet), "models", "llama/");
  const Status status = Check(grant, "data/Put", {"models", "llama/x"});
  EXPECT_EQ(status.message(),
            "the right `put` on `models/llama/x` is missing: capability 01 allows get on `models/llama/*`");
}

}  // namespace
}  // namespace forebay::auth
