// SPDX-License-Identifier: Apache-2.0
// Status and Result: how every fallible function of Forebay answers. The codes are gRPC's canonical set, so that
// each edge (gRPC, S3, errno, NVMe) needs one mapping table. An ok Status is one null pointer and costs nothing.
// The message names the thing, the value and the way out.
// Immutable after construction; a Status may be copied between threads.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <expected>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "forebay/error.h"  // Code, CodeName

namespace forebay {

/// The code with that number, or kUnknown: for codes that came over a wire.
Code CodeFromNumber(uint64_t number);

class [[nodiscard]] Status {
 public:
  Status() = default;
  /// A status of `code`. With kOk the message is dropped.
  Status(Code code, std::string message);

  bool ok() const { return state_ == nullptr; }
  Code code() const { return state_ ? state_->code : Code::kOk; }
  /// Empty when ok.
  std::string_view message() const { return state_ ? std::string_view(state_->message) : std::string_view(); }
  /// "OK" or "CODE_NAME: message".
  std::string ToString() const;
  /// The same code with `context: ` put before the message; an ok status stays ok.
  Status WithContext(std::string_view context) const;

  friend bool operator==(const Status& a, const Status& b) { return a.code() == b.code() && a.message() == b.message(); }

  template <typename... Args>
  static Status Make(Code code, fmt::format_string<Args...> format, Args&&... args) {
    return Status(code, fmt::format(format, std::forward<Args>(args)...));
  }

#define FB_STATUS_FACTORY(Name)                                                \
  template <typename... Args>                                                  \
  static Status Name(fmt::format_string<Args...> format, Args&&... args) {     \
    return Make(Code::k##Name, format, std::forward<Args>(args)...);           \
  }
  FB_STATUS_FACTORY(Cancelled)
  FB_STATUS_FACTORY(Unknown)
  FB_STATUS_FACTORY(InvalidArgument)
  FB_STATUS_FACTORY(DeadlineExceeded)
  FB_STATUS_FACTORY(NotFound)
  FB_STATUS_FACTORY(AlreadyExists)
  FB_STATUS_FACTORY(PermissionDenied)
  FB_STATUS_FACTORY(ResourceExhausted)
  FB_STATUS_FACTORY(FailedPrecondition)
  FB_STATUS_FACTORY(Aborted)
  FB_STATUS_FACTORY(OutOfRange)
  FB_STATUS_FACTORY(Unimplemented)
  FB_STATUS_FACTORY(Internal)
  FB_STATUS_FACTORY(Unavailable)
  FB_STATUS_FACTORY(DataLoss)
  FB_STATUS_FACTORY(Unauthenticated)
#undef FB_STATUS_FACTORY

  /// Maps an errno value; `what` says what was being done to which thing ("open /data/dev0").
  static Status FromErrno(int error, std::string_view what);

 private:
  struct State {
    Code code;
    std::string message;
  };
  std::shared_ptr<const State> state_;  // shared: a Status is copied to everyone who waits for the same group
};

template <typename T>
class [[nodiscard]] Result : public std::expected<T, Status> {
 public:
  using Base = std::expected<T, Status>;
  using Base::Base;
  Result(Status status) : Base(std::unexpect, std::move(status)) {}  // NOLINT(google-explicit-constructor)
  bool ok() const { return this->has_value(); }
  /// The error, or an ok Status when there is a value.
  Status status() const { return this->has_value() ? Status() : this->error(); }
};

namespace base {
inline const Status& StatusOf(const Status& status) { return status; }
inline Status StatusOf(Status&& status) { return std::move(status); }
template <typename T>
Status StatusOf(const Result<T>& result) {
  return result.status();
}
}  // namespace base

#define FB_CONCAT_(a, b) a##b
#define FB_CONCAT(a, b) FB_CONCAT_(a, b)

// FB_TRY(expr): returns the error of a Status or Result from the enclosing function.
// FB_ASSIGN(lhs, expr): assigns the value of a Result to `lhs` (which may declare) or returns its error.
// A coroutine cannot `return`, so each has a form for coroutines.
#define FB_TRY_(keyword, expr)                                               \
  do {                                                                       \
    auto fb_try_status = ::forebay::base::StatusOf(expr);                    \
    if (!fb_try_status.ok()) [[unlikely]]                                    \
      keyword fb_try_status;                                                 \
  } while (false)
#define FB_ASSIGN_(keyword, tmp, lhs, expr)                                  \
  auto tmp = (expr);                                                         \
  if (!tmp.has_value()) [[unlikely]]                                         \
    keyword ::forebay::Status(std::move(tmp).error());                       \
  lhs = *std::move(tmp)
#define FB_TRY(expr) FB_TRY_(return, expr)
#define FB_ASSIGN(lhs, expr) FB_ASSIGN_(return, FB_CONCAT(fb_result_, __LINE__), lhs, expr)
#define FB_CO_TRY(expr) FB_TRY_(co_return, expr)
#define FB_CO_ASSIGN(lhs, expr) FB_ASSIGN_(co_return, FB_CONCAT(fb_result_, __LINE__), lhs, expr)

}  // namespace forebay
