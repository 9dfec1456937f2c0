// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <array>
#include <cerrno>
#include <system_error>

namespace forebay {
namespace {

constexpr std::array<std::string_view, 17> kNames = {
    "OK",           "CANCELLED",         "UNKNOWN",             "INVALID_ARGUMENT",    "DEADLINE_EXCEEDED", "NOT_FOUND",
    "ALREADY_EXISTS", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED",  "FAILED_PRECONDITION", "ABORTED",           "OUT_OF_RANGE",
    "UNIMPLEMENTED", "INTERNAL",          "UNAVAILABLE",         "DATA_LOSS",           "UNAUTHENTICATED"};

Code CodeFromErrno(int error) {
  switch (error) {
    case 0: return Code::kOk;
    case ECANCELED: return Code::kCancelled;
    case EINVAL:
    case ENAMETOOLONG:
    case ENOTDIR:
    case EISDIR: return Code::kInvalidArgument;
    case ETIMEDOUT: return Code::kDeadlineExceeded;
    case ENOENT:
    case ENODEV:
    case ENXIO: return Code::kNotFound;
    case EEXIST: return Code::kAlreadyExists;
    case EPERM:
    case EACCES:
    case EROFS: return Code::kPermissionDenied;
    case ENOSPC:
    case EDQUOT:
    case ENOMEM:
    case EMFILE:
    case ENFILE: return Code::kResourceExhausted;
    case EBUSY:
    case ENOTEMPTY:
    case EADDRINUSE:
    case EADDRNOTAVAIL: return Code::kFailedPrecondition;
    case EFBIG:
    case EOVERFLOW: return Code::kOutOfRange;
    case ENOSYS:
    case EOPNOTSUPP: return Code::kUnimplemented;
    case EAGAIN:
    case EPIPE:
    case ECONNREFUSED:
    case ECONNRESET:
    case ECONNABORTED:
    case ENOTCONN:
    case EHOSTUNREACH:
    case ENETUNREACH: return Code::kUnavailable;
    case EIO:
    case EBADMSG: return Code::kDataLoss;
    default: return Code::kUnknown;
  }
}

}  // namespace

std::string_view CodeName(Code code) {
  const auto index = static_cast<size_t>(code);
  return index < kNames.size() ? kNames[index] : kNames[static_cast<size_t>(Code::kUnknown)];
}

Code CodeFromNumber(uint64_t number) {
  return number < kNames.size() ? static_cast<Code>(number) : Code::kUnknown;
}

Status::Status(Code code, std::string message) {
  if (code != Code::kOk) state_ = std::make_shared<const State>(code, std::move(message));
}

std::string Status::ToString() const {
  if (ok()) return "OK";
  return fmt::format("{}: {}", CodeName(code()), message());
}

Status Status::WithContext(std::string_view context) const {
  if (ok()) return *this;
  return Status(code(), fmt::format("{}: {}", context, message()));
}

Status Status::FromErrno(int error, std::string_view what) {
  return Status(CodeFromErrno(error), fmt::format("{}: {}", what, std::generic_category().message(error)));
}

}  // namespace forebay
