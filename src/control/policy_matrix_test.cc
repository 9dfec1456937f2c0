// SPDX-License-Identifier: Apache-2.0
// Every method of the policy table times every way not to be allowed, with capabilities: each cell is denied, and the store
// is not asked. What to send comes from the service descriptors, so that a new method is in the matrix by itself. The data
// plane's half: native/policy_matrix_test.cc.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/dynamic_message.h>
#include <gtest/gtest.h>

#include "control/control_suite.h"
#include "wire/control.pb.h"

namespace forebay::control {
namespace {

using auth::Right;
using auth::Scope;

class PolicyMatrixTest : public ControlTest {
 protected:
  void SetUp() override {
    ControlTest::SetUp();
    ASSERT_TRUE(client_->CreateBucket("models", store::BucketClass::kDurable, Operation()).ok());
    Put("models", "p/x");
    calls_before_ = store_->calls();
  }

  /// The bytes of a request that names models/<key> wherever its message can.
  static std::string RequestFor(const std::string& method, const std::string& key) {
    const size_t slash = method.rfind('/');
    const auto* const service = v1::OpenSessionRequest::descriptor()->file()->FindServiceByName(
        method.substr(method.rfind('.') + 1, slash - method.rfind('.') - 1));
    const auto* const type = service->FindMethodByName(method.substr(slash + 1))->input_type();
    google::protobuf::DynamicMessageFactory factory;
    const std::unique_ptr<google::protobuf::Message> message(factory.GetPrototype(type)->New());
    const auto set = [&](const char* field, const std::string& value) {
      if (const auto* const found = type->FindFieldByName(field))
        message->GetReflection()->SetString(message.get(), found, value);
    };
    set("bucket", "models");
    set("name", "models");
    set("key", key);
    set("prefix", key);
    set("from", key);
    set("to", key + "2");
    google::protobuf::Message* source = nullptr;
    if (const auto* const sources = type->FindFieldByName("sources"))
      source = message->GetReflection()->AddMessage(message.get(), sources);
    if (const auto* const one = type->FindFieldByName("source"))
      source = message->GetReflection()->MutableMessage(message.get(), one);
    for (const auto& [field, value] : {std::pair("bucket", std::string("models")), {"key", key}})
      if (source != nullptr)
        source->GetReflection()->SetString(source, source->GetDescriptor()->FindFieldByName(field), value);
    const auto set_number = [](google::protobuf::Message& in) {
      if (const auto* const found = in.GetDescriptor()->FindFieldByName("number"))
        in.GetReflection()->SetUInt32(&in, found, 1);
    };
    set_number(*message);
    if (const auto* const parts = type->FindFieldByName("parts"))
      set_number(*message->GetReflection()->AddMessage(message.get(), parts));
    if (method.ends_with("RevokeTenant"))  // one that the matrix does not use
      message->GetReflection()->SetUInt64(message.get(), type->FindFieldByName("tenant"), 999);
    return message->SerializeAsString();
  }

  struct Terms {
    TenantId tenant = TenantId::kRoot;
    auth::RightSet rights = auth::RightSet::All();
    std::string bucket{};
    std::string prefix{};
    base::Duration age{};
  };
  auth::HeldCapability Held(const Terms& terms) {
    auth::Secret seed = auth::Secret::Generate(random_);
    auth::CapabilityBlock block;
    random_.Fill(block.id);
    block.issuer = signing_keys_->current();
    block.holder = auth::SigningKeyOf(seed);
    block.tenant = terms.tenant;
    block.rights = terms.rights;
    block.issued = clock_.WallNow() - terms.age;
    block.expires = block.issued + 60s;
    block.bucket = terms.bucket;
    block.prefix = terms.prefix;
    return {*auth::Capability::Issue(block, [this](ByteView text) { return *signing_keys_->SignWith(signing_keys_->current(), text); }),
            std::move(seed)};
  }
  Status CallWith(const auth::HeldCapability& held, const std::string& method, const std::string& key) {
    return Call(method, {auth::SignRpc(held, method, clock_.WallNow(), random_)}, RequestFor(method, key));
  }
  void ExpectDenied(const Status& status, Code code, const std::string& cell) {
    EXPECT_EQ(status.code(), code) << cell << ": " << status.ToString();
    EXPECT_EQ(store_->calls(), calls_before_) << cell << " asked the store";
    calls_before_ = store_->calls();
  }
  /// Calls `cell` for each row but public ones.
  template <typename Cell>
  static void ForEachRow(Cell cell) {
    for (const auth::PolicyRow& row : auth::PolicyTable()) {
      if (row.operation.starts_with('/') && row.right != Right::kPublic) cell(row, std::string(row.operation));
    }
  }

  int calls_before_ = 0;
};

TEST_F(PolicyMatrixTest, AllRightsOnTheTenantAreLetIn) {
  ForEachRow([&](const auth::PolicyRow&, const std::string& method) {
    const Status status = CallWith(Held({}), method, "p/x");
    EXPECT_NE(status.code(), Code::kUnauthenticated)
        << method << ": " << status.ToString();  // Open wants a signed share, which the matrix does not make
    EXPECT_NE(status.code(), Code::kPermissionDenied) << method << ": " << status.ToString();
  });
}

TEST_F(PolicyMatrixTest, ForeignTenant) {
  // Of another tenant nothing is seen, and nothing of the server can be touched.
  const TenantId other = client_->CreateTenant("other", {})->record.id;
  ForEachRow([&](const auth::PolicyRow& row, const std::string& method) {
    const Status status = CallWith(Held({.tenant = other}), method, "p/x");
    if (row.scope == Scope::kServer) EXPECT_EQ(status.code(), Code::kPermissionDenied) << method;
    if (method.ends_with("Buckets/Create")) EXPECT_EQ(status.code(), Code::kAlreadyExists) << method;
    if (row.scope == Scope::kKey || method.ends_with("Buckets/Get") || method.ends_with("Buckets/Delete") ||
        method.ends_with("Buckets/Update") || method.ends_with("Namespace/List") ||
        method.ends_with("Namespace/ListVersions") || method.ends_with("Uploads/List"))
      EXPECT_EQ(status.code(), Code::kNotFound) << method << ": " << status.ToString();
  });
  EXPECT_TRUE(client_->Stat("models", "p/x").ok()) << "it is still there";
  EXPECT_TRUE(Connect(Held({.tenant = other}))->ListBuckets()->buckets.empty());
}

TEST_F(PolicyMatrixTest, WrongPrefix) {
  ForEachRow([&](const auth::PolicyRow& row, const std::string& method) {
    if (row.scope == Scope::kNothing) return;
    for (const auto& [bucket, prefix] : {std::pair("models", "q/"), std::pair("models", "p/x/"), std::pair("other", "")})
      ExpectDenied(CallWith(Held({.bucket = bucket, .prefix = prefix}), method, "p/x"), Code::kPermissionDenied,
                   method + " with " + bucket + "/" + prefix);
  });
}

TEST_F(PolicyMatrixTest, MissingRight) {
  ForEachRow([&](const auth::PolicyRow& row, const std::string& method) {
    if (row.right == Right::kSession) return;  // every capability has it
    auth::RightSet others = auth::RightSet::Proven();
    for (const Right right : {Right::kGet, Right::kPut, Right::kList, Right::kDelete, Right::kAdmin})
      if (right != row.right) others = others.With(right);
    ExpectDenied(CallWith(Held({.rights = others}), method, "p/x"), Code::kPermissionDenied, method);
  });
}

/// What a method needs besides its row: the request, and a capability that allows all but that.
TEST_F(PolicyMatrixTest, WhatAMethodAlsoNeeds) {
  const std::string kPackage = "/forebay.control.v1.";
  v1::ComposeObjectRequest compose;
  compose.set_bucket("models");
  compose.set_key("p/y");
  compose.add_sources()->set_bucket("models");
  compose.mutable_sources(0)->set_key("p/x");
  v1::RenameObjectRequest rename;
  rename.set_bucket("models");
  rename.set_from("p/x");
  rename.set_to("p/y");
  v1::RenamePrefixRequest prefix;
  prefix.set_bucket("models");
  prefix.set_from("p/");
  prefix.set_to("p/q/");
  v1::CopyPartRequest copy;
  copy.set_bucket("models");
  copy.set_key("p/y");
  copy.set_upload(1);  // there is none
  copy.set_number(1);
  copy.mutable_source()->set_bucket("models");
  copy.mutable_source()->set_key("p/x");
  const auto rights = [](std::initializer_list<Right> some) {
    auth::RightSet set = auth::RightSet::Proven();
    for (const Right right : some) set = set.With(right);
    return set;
  };
  const auto call = [&](const std::string& method, const google::protobuf::Message& request, const Terms& terms) {
    return Call(kPackage + method, {auth::SignRpc(Held(terms), kPackage + method, clock_.WallNow(), random_)},
                request.SerializeAsString());
  };
  struct Case {
    std::string method;
    const google::protobuf::Message& request;
    std::initializer_list<Right> missing_one;
  };
  for (const Case& one : {Case{"Namespace/Compose", compose, {Right::kPut}}, Case{"Namespace/Rename", rename, {Right::kDelete, Right::kPut}},
                          Case{"Namespace/Rename", rename, {Right::kDelete, Right::kGet}},
                          Case{"Namespace/RenamePrefix", prefix, {Right::kDelete, Right::kPut}},
                          Case{"Namespace/RenamePrefix", prefix, {Right::kDelete, Right::kGet}},
                          Case{"Uploads/CopyPart", copy, {Right::kPut}}, Case{"Uploads/CopyPart", copy, {Right::kGet}}})
    ExpectDenied(call(one.method, one.request, {.rights = rights(one.missing_one)}), Code::kPermissionDenied, one.method);
  EXPECT_EQ(call("Uploads/CopyPart", copy, {.rights = rights({Right::kPut, Right::kGet}), .bucket = "models"}).code(),
            Code::kNotFound);
  calls_before_ = store_->calls();
  // All rights, but not there where the other end is.
  copy.mutable_source()->set_key("q/x");
  compose.mutable_sources(0)->set_key("q/x");
  rename.set_to("q/y");
  prefix.set_to("q/");
  for (const auto& [method, request] :
       {std::pair<std::string, const google::protobuf::Message&>("Namespace/Compose", compose), {"Namespace/Rename", rename}, {"Namespace/RenamePrefix", prefix},
        {"Uploads/CopyPart", copy}})
    ExpectDenied(call(method, request, {.bucket = "models", .prefix = "p/"}), Code::kPermissionDenied, method);
  compose.mutable_sources(0)->set_key("p/x");
  compose.mutable_sources(0)->set_bucket("other");
  ExpectDenied(call("Namespace/Compose", compose, {.bucket = "models"}), Code::kPermissionDenied, "source in another bucket");
  compose.mutable_sources(0)->set_bucket("models");
  const std::initializer_list<Right> all = {Right::kDelete, Right::kGet, Right::kPut};
  EXPECT_TRUE(call("Namespace/Compose", compose, {.rights = rights({Right::kPut, Right::kGet}), .bucket = "models", .prefix = "p/"}).ok());
  rename.set_to("p/z");
  EXPECT_TRUE(call("Namespace/Rename", rename, {.rights = rights(all), .bucket = "models", .prefix = "p/"}).ok());
  prefix.set_from("p/z");
  prefix.set_to("p/zz");
  EXPECT_TRUE(call("Namespace/RenamePrefix", prefix, {.rights = rights(all), .bucket = "models", .prefix = "p/"}).ok());
}

TEST_F(PolicyMatrixTest, Expired) {
  ForEachRow([&](const auth::PolicyRow&, const std::string& method) {
    ExpectDenied(CallWith(Held({.age = 60s}), method, "p/x"), Code::kUnauthenticated, method);
  });
}

TEST_F(PolicyMatrixTest, Revoked) {
  const auth::HeldCapability held = Held({});
  ASSERT_TRUE(client_->RevokeCapability(held.capability().blocks().back().id).ok());
  ForEachRow([&](const auth::PolicyRow&, const std::string& method) {
    ExpectDenied(CallWith(held, method, "p/x"), Code::kUnauthenticated, method);
  });
}

TEST_F(PolicyMatrixTest, ReplayedOrOfAnotherMethodOrKey) {
  const auth::HeldCapability held = Held({.bucket = "other"});  // so that the first use asks no store either
  ForEachRow([&](const auth::PolicyRow&, const std::string& method) {
    const std::string request = RequestFor(method, "p/x");
    const std::string proof = auth::SignRpc(held, method, clock_.WallNow(), random_);
    (void)Call(method, {proof}, request);
    calls_before_ = store_->calls();
    ExpectDenied(Call(method, {proof}, request), Code::kUnauthenticated, method + " replayed");
    ExpectDenied(Call(method, {auth::SignRpc(held, method + "x", clock_.WallNow(), random_)}, request),
                 Code::kUnauthenticated, method + " of another method");
    const auth::HeldCapability stolen(held.capability(), auth::Secret::Generate(random_));
    ExpectDenied(CallWith(stolen, method, "p/x"), Code::kUnauthenticated, method + " by a thief of the chain");
    ExpectDenied(Call(method, {}, request), Code::kUnauthenticated, method + " without proof");
  });
}

TEST_F(PolicyMatrixTest, AReflectionCrawlGetsNothingButHealth) {
  for (const char* const method :
       {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", "/grpc.channelz.v1.Channelz/GetServers",
        "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"}) {
    ExpectDenied(Call(method, {}), Code::kPermissionDenied, method);
    ExpectDenied(Call(method, {}, "\x3a\x00"), Code::kPermissionDenied, method);  // list_services of reflection
  }
  const auto* const file = v1::OpenSessionRequest::descriptor()->file();
  for (int s = 0; s < file->service_count(); ++s) {
    for (int m = 0; m < file->service(s)->method_count(); ++m) {
      const std::string method = "/" + file->service(s)->full_name() + "/" + file->service(s)->method(m)->name();
      const Status status = Call(method, {}, RequestFor(method, "p/x"));
      EXPECT_EQ(status.ok(), method == "/forebay.control.v1.Admin/Health") << method << ": " << status.ToString();
    }
  }
}

}  // namespace
}  // namespace forebay::control
