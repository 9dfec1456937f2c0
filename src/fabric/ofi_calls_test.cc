// SPDX-License-Identifier: Apache-2.0
#include "fabric/ofi_calls.h"

#include <string>

#include <gmock/gmock.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

namespace forebay::fabric {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(OfiCallsTest, LibfabricIsLoadedAndAnswers) {
  const auto calls = OfiCalls::Load();
  ASSERT_TRUE(calls.ok()) << calls.status().ToString();
  // As fi_errno(3) describes it.
  EXPECT_STREQ(calls->strerror(FI_ETOOSMALL), "Provided buffer is too small");
  const InfoHandle made = calls->NewInfo();
  ASSERT_NE(made, nullptr);
  made->ep_attr->type = FI_EP_MSG;
  const InfoHandle copy = calls->Copy(*made);
  ASSERT_NE(copy, nullptr);
  EXPECT_NE(copy->ep_attr, made->ep_attr);
  EXPECT_EQ(copy->ep_attr->type, FI_EP_MSG);
}

TEST(OfiCallsTest, AMissingLibraryIsNamedWithTheWayOut) {
  const auto calls = OfiCalls::Load("libnowhere.so.1");
  ASSERT_EQ(calls.status().code(), Code::kUnavailable);
  EXPECT_THAT(std::string(calls.status().message()),
              AllOf(HasSubstr("libnowhere.so.1"), HasSubstr("No such file"), HasSubstr("libfabric1")));
}

TEST(OfiCallsTest, AnotherLibraryIsRefusedByWhatItLacks) {
  const auto calls = OfiCalls::Load("libc.so.6");
  ASSERT_EQ(calls.status().code(), Code::kUnavailable);
  EXPECT_THAT(std::string(calls.status().message()),
              AllOf(HasSubstr("libc.so.6"), HasSubstr("fi_getinfo@FABRIC_1.3")));
}

}  // namespace
}  // namespace forebay::fabric
