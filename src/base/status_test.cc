// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <cerrno>

#include <gtest/gtest.h>

namespace forebay {
namespace {

TEST(Status, IsOkByDefaultAndDropsTheMessageOfOk) {
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(Status().ToString(), "OK");
  const Status ok(Code::kOk, "lost");
  EXPECT_TRUE(ok.ok());
  EXPECT_EQ(ok.message(), "");
  EXPECT_EQ(ok, Status());
}

TEST(Status, CarriesCodeAndMessage) {
  const Status status = Status::NotFound("object `{}` of {} bytes", "a/b", 7);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_EQ(status.message(), "object `a/b` of 7 bytes");
  EXPECT_EQ(status.ToString(), "NOT_FOUND: object `a/b` of 7 bytes");
}

TEST(Status, PutsContextBeforeTheMessageAndKeepsTheCode) {
  const Status status = Status::DataLoss("block 3 is torn").WithContext("read `m/k`");
  EXPECT_EQ(status.code(), Code::kDataLoss);
  EXPECT_EQ(status.message(), "read `m/k`: block 3 is torn");
  EXPECT_TRUE(Status().WithContext("anything").ok());
}

// The numbers and names of https://grpc.github.io/grpc/core/md_doc_statuscodes.html.
TEST(Status, HasTheNumbersAndNamesOfGrpc) {
  const std::pair<int, std::string_view> kCodes[] = {{0, "OK"},
                                                     {1, "CANCELLED"},
                                                     {2, "UNKNOWN"},
                                                     {3, "INVALID_ARGUMENT"},
                                                     {4, "DEADLINE_EXCEEDED"},
                                                     {5, "NOT_FOUND"},
                                                     {6, "ALREADY_EXISTS"},
                                                     {7, "PERMISSION_DENIED"},
                                                     {8, "RESOURCE_EXHAUSTED"},
                                                     {9, "FAILED_PRECONDITION"},
                                                     {10, "ABORTED"},
                                                     {11, "OUT_OF_RANGE"},
                                                     {12, "UNIMPLEMENTED"},
                                                     {13, "INTERNAL"},
                                                     {14, "UNAVAILABLE"},
                                                     {15, "DATA_LOSS"},
                                                     {16, "UNAUTHENTICATED"}};
  for (const auto& [number, name] : kCodes) {
    EXPECT_EQ(CodeName(CodeFromNumber(static_cast<uint64_t>(number))), name);
    EXPECT_EQ(static_cast<int>(CodeFromNumber(static_cast<uint64_t>(number))), number);
  }
}

TEST(Status, TakesCodesItDoesNotKnowFromAWireAsUnknown) {
  EXPECT_EQ(CodeFromNumber(17), Code::kUnknown);
  EXPECT_EQ(CodeFromNumber(256), Code::kUnknown);  // would be ok if it were cut to a byte
  EXPECT_EQ(CodeFromNumber(UINT64_MAX), Code::kUnknown);
}

TEST(Status, MapsErrno) {
  const std::pair<int, Code> kMapped[] = {{ENOENT, Code::kNotFound},
                                          {EEXIST, Code::kAlreadyExists},
                                          {EACCES, Code::kPermissionDenied},
                                          {EROFS, Code::kPermissionDenied},
                                          {ENOSPC, Code::kResourceExhausted},
                                          {EMFILE, Code::kResourceExhausted},
                                          {ENOMEM, Code::kResourceExhausted},
                                          {EINVAL, Code::kInvalidArgument},
                                          {ENAMETOOLONG, Code::kInvalidArgument},
                                          {EADDRINUSE, Code::kFailedPrecondition},
                                          {ENOTEMPTY, Code::kFailedPrecondition},
                                          {ETIMEDOUT, Code::kDeadlineExceeded},
                                          {ECANCELED, Code::kCancelled},
                                          {ECONNRESET, Code::kUnavailable},
                                          {ECONNREFUSED, Code::kUnavailable},
                                          {EPIPE, Code::kUnavailable},
                                          {EFBIG, Code::kOutOfRange},
                                          {ENOSYS, Code::kUnimplemented},
                                          {EIO, Code::kDataLoss},
                                          {EDOM, Code::kUnknown}};
  for (const auto& [error, code] : kMapped) EXPECT_EQ(Status::FromErrno(error, "x").code(), code) << error;
  EXPECT_TRUE(Status::FromErrno(0, "x").ok());
  EXPECT_EQ(Status::FromErrno(ENOENT, "open /data/dev0").message(),
            "open /data/dev0: No such file or directory");
}

Result<int> Half(int value) {
  if (value % 2 != 0) return Status::InvalidArgument("{} is odd", value);
  return value / 2;
}

Result<std::string> Quarter(int value) {
  FB_ASSIGN(const int half, Half(value));
  int quarter = 0;
  FB_ASSIGN(quarter, Half(half));
  return std::to_string(quarter);
}

Status IsEven(int value) {
  FB_TRY(Half(value));
  return {};
}

TEST(Result, HoldsAValueOrAnError) {
  EXPECT_TRUE(Half(4).ok());
  EXPECT_TRUE(Half(4).status().ok());
  EXPECT_EQ(*Half(4), 2);
  EXPECT_FALSE(Half(3).ok());
  EXPECT_EQ(Half(3).status().message(), "3 is odd");
}

TEST(Result, MacrosGiveTheFirstErrorToTheCaller) {
  EXPECT_EQ(*Quarter(12), "3");
  EXPECT_EQ(Quarter(7).status().message(), "7 is odd");
  EXPECT_EQ(Quarter(6).status().message(), "3 is odd");
  EXPECT_TRUE(IsEven(2).ok());
  EXPECT_EQ(IsEven(1).code(), Code::kInvalidArgument);
}

TEST(Result, MovesWhatCannotBeCopied) {
  const auto make = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(5); };
  const auto use = [&]() -> Result<int> {
    FB_ASSIGN(const std::unique_ptr<int> value, make());
    return *value;
  };
  EXPECT_EQ(*use(), 5);
}

}  // namespace
}  // namespace forebay
