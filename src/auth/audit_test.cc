// SPDX-License-Identifier: Apache-2.0
#include "auth/audit.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace forebay::auth {
namespace {

using ::testing::HasSubstr;

class KeptLog final : public base::Log {
 public:
  std::vector<std::string> lines;

 private:
  bool Enabled(base::LogLevel) const override { return true; }
  void Write(base::LogLevel, const std::string& line) override { lines.push_back(line); }
};

class AuditTest : public ::testing::Test {
 protected:
  base::FakeClock clock_;
  KeptLog log_;
  Audit audit_{log_, clock_};
};

TEST_F(AuditTest, OneLineSaysWhoWhatOnWhatFromWhereAndWhy) {
  Grant grant{.tenant = TenantId{7}};
  grant.name = "capability 01";
  audit_.Denied({.operation = "data/Put", .grant = &grant, .target = {"models", "x"}, .peer = "127.0.0.1:4711"},
                 Status::PermissionDenied("the right is missing"));
  ASSERT_EQ(log_.lines.size(), 1U);
  EXPECT_EQ(log_.lines[0], ("audit: denied operation=data/Put by=\"capability 01\" tenant=7 "
                                   "target=\"models/x\" peer=\"127.0.0.1:4711\" reason=\"the right is missing\""));
}

TEST_F(AuditTest, NamesFromOutsideCannotForgeALine) {
  audit_.Denied({.operation = "data/Put", .target = {"models", "x\"\naudit: done \x7f\\"}, .peer = "p"}, {});
  ASSERT_EQ(log_.lines.size(), 1U);
  EXPECT_THAT(log_.lines[0], HasSubstr(R"(target="models/x\x22\x0aaudit: done \x7f\x5c")"));
  EXPECT_EQ(log_.lines[0].find('\n'), std::string::npos);
}

TEST_F(AuditTest, AnOperationThatNobodyKnowsCannotForgeFieldsEither) {
  audit_.Denied({.operation = "/x by=\"credential root-1\" tenant=1", .peer = "p"}, {});
  ASSERT_EQ(log_.lines.size(), 1U);
  EXPECT_EQ(log_.lines[0], R"(audit: denied operation="/x by=\x22credential root-1\x22 tenant=1" peer="p")");
}

TEST_F(AuditTest, RefusalsAreBoundedAndWhatIsLeftOutIsCounted) {
  for (int i = 0; i < 1000; ++i) audit_.Denied({.operation = "data/Get", .peer = "p"}, Status::PermissionDenied("no"));
  EXPECT_EQ(log_.lines.size(), kMaxAuditedRefusalsPerSecond);
  clock_.Advance(std::chrono::seconds(1));
  audit_.Denied({.operation = "data/Get", .peer = "p"}, Status::PermissionDenied("no"));
  ASSERT_EQ(log_.lines.size(), kMaxAuditedRefusalsPerSecond + 2);
  EXPECT_THAT(log_.lines[kMaxAuditedRefusalsPerSecond], HasSubstr("audit: 900 more refusals were left out"));
}

TEST_F(AuditTest, ActsAreNeverLeftOut) {
  for (int i = 0; i < 300; ++i) audit_.Done({.operation = "Buckets/Create", .peer = "p"}, {});
  EXPECT_EQ(log_.lines.size(), 300U);
}

}  // namespace
}  // namespace forebay::auth
