// SPDX-License-Identifier: Apache-2.0
// Every method times every way not to prove who one is, made from the service descriptors.
#include <set>

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include "auth/policy.h"
#include "control/control_suite.h"
#include "wire/control.pb.h"

namespace forebay::control {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> AllMethods() {
  const auto* file = v1::OpenSessionRequest::descriptor()->file();
  std::vector<std::string> methods;
  for (int s = 0; s < file->service_count(); ++s) {
    const auto* service = file->service(s);
    for (int m = 0; m < service->method_count(); ++m) {
      methods.push_back("/" + service->full_name() + "/" + service->method(m)->name());
    }
  }
  return methods;
}

bool IsPublic(const std::string& method) { return method == "/forebay.control.v1.Admin/Health"; }

class ControlAuthTest : public ControlTest {
 protected:
  void ExpectDenied(const std::string& method, const std::vector<std::string>& proofs,
                    const std::string& says) {
    const Status status = Call(method, proofs);
    EXPECT_EQ(status.code(), Code::kUnauthenticated) << method << ": " << status.ToString();
    EXPECT_THAT(std::string(status.message()), HasSubstr(says)) << method;
  }
};

TEST_F(ControlAuthTest, ThePolicyHasARowForEachMethodAndNoOther) {
  const std::vector<std::string> methods = AllMethods();
  std::set<std::string> rows;
  for (const auth::PolicyRow& row : auth::PolicyTable()) {
    if (row.operation.starts_with('/')) rows.emplace(row.operation);
  }
  EXPECT_EQ(rows, std::set<std::string>(methods.begin(), methods.end()));
}

TEST_F(ControlAuthTest, EachMethodIsReachedWithAProof) {
  for (const std::string& method : AllMethods()) {
    const Code code = Call(method, {Proof(method)}).code();
    EXPECT_NE(code, Code::kUnauthenticated) << method;
    EXPECT_NE(code, Code::kPermissionDenied) << method;
    EXPECT_NE(code, Code::kUnimplemented) << method;
  }
}

TEST_F(ControlAuthTest, EachMethodIsDeniedWithoutAGoodProof) {
  auth::Credentials stranger = auth::Credentials::Generate(random_);
  auth::Credentials forger = auth::Credentials::Generate(random_);
  forger.id = root_.id;
  clock_.Advance(1000s);
  const base::WallTime now = clock_.WallNow();
  for (const std::string& method : AllMethods()) {
    if (IsPublic(method)) continue;
    const std::string good = Proof(method);
    ExpectDenied(method, {}, "carries 0 `forebay-auth`");
    ExpectDenied(method, {good, good}, "carries 2 `forebay-auth`");
    ExpectDenied(method, {""}, "neither `v1");
    ExpectDenied(method, {"v1"}, "neither `v1");
    ExpectDenied(method, {good.substr(0, good.size() - 1)}, "neither `v1");
    ExpectDenied(method, {auth::SignRpc(stranger, method, now, random_)}, "does not know credential");
    ExpectDenied(method, {auth::SignRpc(forger, method, now, random_)}, "not made with its secret");
    ExpectDenied(method, {Proof(method + "x")}, "not made with its secret");
    ExpectDenied(method, {auth::SignRpc(root_, method, now - 301s, random_)}, "behind");
    ExpectDenied(method, {auth::SignRpc(root_, method, now + 301s, random_)}, "ahead of");
  }
  EXPECT_EQ(store_->calls(), 0);
  EXPECT_EQ(sessions_.size(), 0U);
}

TEST_F(ControlAuthTest, EachMethodIsDeniedToAReplay) {
  for (const std::string& method : AllMethods()) {
    if (IsPublic(method)) continue;
    const std::string proof = Proof(method);
    EXPECT_NE(Call(method, {proof}).code(), Code::kUnauthenticated);
    const int calls = store_->calls();
    ExpectDenied(method, {proof}, "used before");
    EXPECT_EQ(store_->calls(), calls) << method;
  }
}

TEST_F(ControlAuthTest, WhatIsNotInTheTableIsDeniedWhateverTheProof) {
  for (const std::string method :
       {"/forebay.control.v1.Admin/Shutdown", "/forebay.control.v1.Buckets/create",
        "/forebay.control.v2.Buckets/List", "/grpc.health.v1.Health/Check",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "/", "/data/Get"}) {
    EXPECT_EQ(Call(method, {}).code(), Code::kPermissionDenied) << method;
    EXPECT_EQ(Call(method, {Proof(method)}).code(), Code::kPermissionDenied) << method;
  }
}

TEST_F(ControlAuthTest, HealthIsPublicAndReadsNothingFromItsCaller) {
  EXPECT_TRUE(Call("/forebay.control.v1.Admin/Health", {}).ok());
  EXPECT_TRUE(Call("/forebay.control.v1.Admin/Health", {"nonsense"}).ok());
  EXPECT_TRUE(Call("/forebay.control.v1.Admin/Health", {}, "\xff not a message").ok());
}

}  // namespace
}  // namespace forebay::control
