// SPDX-License-Identifier: Apache-2.0
// Every data operation of the policy table times every way not to be allowed: each cell is denied and changes nothing. The
// control plane's half: control/policy_matrix_test.cc.
#include <functional>

#include <gtest/gtest.h>

#include "auth/policy.h"
#include "base/checksum.h"
#include "native/native_suite.h"

namespace forebay::native {
namespace {

using auth::Right;
using auth::Scope;
using wire::Type;

class PolicyMatrixTest : public NativeTest {
 protected:
  PolicyMatrixTest() { Do(Store("p/x", AsBytes("content"))); }

  /// A request of `type` for models/p/x, signed by `peer` with its next counter.
  static Bytes Ask(TestPeer& peer, Type type) {
    const wire::Header header = peer.Next(type);
    const ByteView content = AsBytes("hello");
    switch (type) {
      case Type::kHello:
        return peer.Make(header, wire::HelloRequest{"matrix"});
      case Type::kGet:
        return peer.Make(header, wire::GetRequest{.inline_allowed = true,
                                                  .items = {{.bucket = "models", .key = "p/x", .length = 100}}});
      case Type::kGetVersion: {
        wire::GetVersionRequest get;
        get.inline_allowed = true;
        get.items = {{.bucket = "models", .key = "p/x", .length = 100}};
        return peer.Make(header, get);
      }
      case Type::kStat:
        return peer.Make(header, wire::StatRequest{.bucket = "models", .key = "p/x"});
      case Type::kOpen: {
        wire::OpenRequest open;
        open.bucket = "models";
        open.key = "p/x";
        return peer.Make(header, open);
      }
      case Type::kRead:
        return peer.Make(header, wire::ReadRequest{.handle = 1, .length = 10, .inline_allowed = true});
      case Type::kClose:
        return peer.Make(header, wire::CloseRequest{.handle = 1});
      case Type::kOverwriteBegin:
        return peer.Make(header, wire::OverwriteBeginRequest{.bucket = "models", .key = "p/x"});
      case Type::kPartBegin:
        return peer.Make(header,
                         wire::PartBeginRequest{.bucket = "models", .key = "p/x", .upload = 1, .number = 1});
      case Type::kPut:
        return peer.Make(header,
                         wire::PutRequest{.items = {{.bucket = "models",
                                                     .key = "p/x",
                                                     .size = content.size(),
                                                     .crc32c = base::Crc32c(content)}}},
                         content);
      case Type::kExists:
        return peer.Make(header, wire::ExistsRequest{{{"models", "p/x"}}});
      case Type::kCancel:
        return peer.Make(header, wire::CancelRequest{1});
      case Type::kPutBegin:
        return peer.Make(header, wire::PutBeginRequest{.bucket = "models", .key = "p/x"});
      case Type::kPutData:
        return peer.Make(header,
                         wire::PutDataRequest{.handle = 1,
                                              .size = static_cast<uint32_t>(content.size()),
                                              .crc32c = base::Crc32c(content)},
                         content);
      case Type::kPutCommit:
        return peer.Make(header, wire::PutCommitRequest{.handle = 1});
      case Type::kPutAbort:
        return peer.Make(header, wire::PutAbortRequest{.handle = 1});
    }
    return {};
  }

  /// The code of the answer, or of the one item in it.
  static Code CodeOf(const TestPeer::Answer& answer) {
    if (answer.view.header.status != Code::kOk) return answer.view.header.status;
    switch (answer.view.header.type) {
      case Type::kGet:
      case Type::kGetVersion:
        return wire::DecodeBody<wire::GetReply>(answer.view.body)->items.at(0).code;
      case Type::kPut:
      case Type::kExists:
        return wire::DecodeBody<wire::StoredListReply>(answer.view.body)->items.at(0).code;
      default:
        return Code::kOk;
    }
  }

  enum class End { kAnswered, kFenced };
  struct Outcome {
    End end;
    Code code;
  };
  /// Says Hello with a session of `grant`, lets `before` happen, sends what `message` makes and gives what came of it.
  Outcome Try(Type type, const auth::Grant& grant, const std::function<void(TestPeer&)>& before = {},
              const std::function<void(TestPeer&, Bytes&)>& tamper = {}, bool twice = false) {
    Outcome outcome{};
    reactor_->BlockOn([&]() -> rt::Task<void> {
      const auto peer = co_await Connect(OpenSession(grant));
      peer->tenant = grant.tenant;
      EXPECT_EQ((co_await peer->Hello()).ToString(), "OK");
      if (before) before(*peer);
      Bytes message = Ask(*peer, type);
      if (tamper) tamper(*peer, message);
      if (twice) {
        (void)co_await peer->endpoint->Send(message);
        (void)co_await peer->Receive();
      }
      (void)co_await peer->endpoint->Send(std::move(message));
      const auto answer = co_await peer->Receive();
      outcome = answer.ok() ? Outcome{End::kAnswered, CodeOf(*answer)} : Outcome{End::kFenced, answer.status().code()};
      co_await peer->endpoint->Fence(Status::Unavailable("done"));
    });
    return outcome;
  }
  void ExpectUnchanged(const std::string& cell) { EXPECT_EQ(Do(Load("p/x")), "content") << cell; }

  template <typename Cell>
  static void ForEachRow(Cell cell) {
    int rows = 0;
    for (unsigned number = 1; wire::IsKnown(static_cast<Type>(number)); ++number) {
      const auto type = static_cast<Type>(number);
      const auth::PolicyRow* const row = auth::FindPolicy(fmt::format("data/{}", wire::TypeName(type)));
      ASSERT_NE(row, nullptr);
      ++rows;
      if (type != Type::kHello) cell(type, *row, std::string(row->operation));
    }
    EXPECT_EQ(rows, std::ranges::count_if(auth::PolicyTable(), [](const auth::PolicyRow& row) {
                return row.operation.starts_with("data/");
              }));
  }
  static auth::Grant All() { return auth::Grant::Root("root-1"); }
};

TEST_F(PolicyMatrixTest, NoSession) {
  ForEachRow([&](Type type, const auth::PolicyRow&, const std::string& name) {
    reactor_->BlockOn([&]() -> rt::Task<void> {
      const auto silent = co_await Connect();  // a session, but no Hello
      (void)co_await silent->endpoint->Send(Ask(*silent, type));
      EXPECT_FALSE((co_await silent->Receive()).ok()) << name;
      auth::OpenedSession made_up = OpenSession();
      made_up.id ^= 1;
      const auto stranger = co_await Connect(made_up);
      EXPECT_FALSE((co_await stranger->Hello()).ok()) << name;
      (void)co_await stranger->endpoint->Send(Ask(*stranger, type));
      EXPECT_FALSE((co_await stranger->Receive()).ok()) << name;
    });
    ExpectUnchanged(name);
  });
}

TEST_F(PolicyMatrixTest, ForeignTenant) {
  auth::Grant foreign = All();
  foreign.tenant = TenantId{7};
  ForEachRow([&](Type type, const auth::PolicyRow& row, const std::string& name) {
    const Outcome outcome = Try(type, foreign);
    EXPECT_EQ(outcome.end, End::kAnswered) << name;
    if (row.scope == Scope::kKey) EXPECT_EQ(outcome.code, Code::kNotFound) << name << ": as if it were not there";
    // One who names another tenant than the session's.
    EXPECT_EQ(Try(type, foreign, [](TestPeer& peer) { peer.tenant = TenantId::kRoot; }).code, Code::kPermissionDenied)
        << name;
    ExpectUnchanged(name);
  });
}

TEST_F(PolicyMatrixTest, WrongPrefix) {
  ForEachRow([&](Type type, const auth::PolicyRow& row, const std::string& name) {
    if (row.scope == Scope::kNothing) return;
    for (const auto& [bucket, prefix] : {std::pair("models", "q/"), std::pair("models", "p/x/"), std::pair("other", "")}) {
      auth::Grant grant = All();
      grant.bucket = bucket;
      grant.prefix = prefix;
      const Outcome outcome = Try(type, grant);
      EXPECT_EQ(outcome.end, End::kAnswered) << name;
      EXPECT_EQ(outcome.code, Code::kPermissionDenied) << name << " " << bucket << "/" << prefix;
    }
    ExpectUnchanged(name);
  });
}

TEST_F(PolicyMatrixTest, MissingRight) {
  ForEachRow([&](Type type, const auth::PolicyRow& row, const std::string& name) {
    if (row.right == Right::kSession) return;  // every session has it
    auth::Grant grant = All();
    grant.rights = auth::RightSet::Proven();
    for (const Right right : {Right::kGet, Right::kPut, Right::kList, Right::kDelete, Right::kAdmin})
      if (right != row.right) grant.rights = grant.rights.With(right);
    EXPECT_EQ(Try(type, grant).code, Code::kPermissionDenied) << name;
    ExpectUnchanged(name);
  });
}

TEST_F(PolicyMatrixTest, Expired) {
  ForEachRow([&](Type type, const auth::PolicyRow&, const std::string& name) {
    auth::Grant grant = All();
    grant.expires = clock_.WallNow() + std::chrono::seconds(60);
    const Outcome outcome = Try(type, grant, [&](TestPeer&) { clock_.JumpWall(std::chrono::seconds(60)); });
    EXPECT_EQ(outcome.end, End::kFenced) << name;
    ExpectUnchanged(name);
  });
}

TEST_F(PolicyMatrixTest, Revoked) {
  ForEachRow([&](Type type, const auth::PolicyRow&, const std::string& name) {
    const Outcome outcome = Try(type, All(), [&](TestPeer&) {
      EXPECT_EQ(sessions_.Revoke([](const auth::Grant&) { return true; }), 1u);
    });
    EXPECT_EQ(outcome.end, End::kFenced) << name;
    ExpectUnchanged(name);
  });
}

TEST_F(PolicyMatrixTest, ReplayedRequest) {
  ForEachRow([&](Type type, const auth::PolicyRow& row, const std::string& name) {
    auth::Grant grant = All();
    if (row.right == Right::kPut) grant.bucket = "other";  // so that the first one changes nothing either
    EXPECT_EQ(Try(type, grant, {}, {}, /*twice=*/true).end, End::kFenced) << name;
    ExpectUnchanged(name);
  });
}

TEST_F(PolicyMatrixTest, AlteredMac) {
  ForEachRow([&](Type type, const auth::PolicyRow&, const std::string& name) {
    for (const size_t byte : {size_t{0}, wire::kMacBytes - 1}) {
      const auto alter = [byte](TestPeer&, Bytes& message) { wire::MacOf(message)[byte] ^= std::byte{1}; };
      EXPECT_EQ(Try(type, All(), {}, alter).end, End::kFenced) << name;
    }
    ExpectUnchanged(name);
  });
}

TEST_F(PolicyMatrixTest, SkippedCounter) {
  ForEachRow([&](Type type, const auth::PolicyRow&, const std::string& name) {
    EXPECT_EQ(Try(type, All(), [](TestPeer& peer) { ++peer.counter; }).end, End::kFenced) << name;
    EXPECT_EQ(Try(type, All(), [](TestPeer& peer) { --peer.counter; }).end, End::kFenced) << name;
    ExpectUnchanged(name);
  });
}

}  // namespace
}  // namespace forebay::native
