// SPDX-License-Identifier: Apache-2.0
// Code and Error: how every call of the installed API fails. The codes are gRPC's canonical set, with gRPC's
// numbers; the message names the thing, the value and the way out, and is written for people. Immutable:
// values.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace forebay {

/// gRPC's canonical codes, with gRPC's numbers.
enum class Code : uint8_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

/// The code's name as gRPC writes it, for example "NOT_FOUND".
std::string_view CodeName(Code code);

/// Why a call failed; `code` is never kOk.
struct Error {
  Code code = Code::kUnknown;
  std::string message;
};

}  // namespace forebay
