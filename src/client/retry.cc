// SPDX-License-Identifier: Apache-2.0
#include "client/retry.h"

#include <algorithm>

namespace forebay::client {
namespace {

constexpr unsigned kMaxAttempts = 1000;
constexpr unsigned kMaxDoublings = 20;

}  // namespace

Status CheckRetry(const RetryOptions& options) {
  if (options.max_attempts == 0 || options.max_attempts > kMaxAttempts)
    return Status::InvalidArgument("retry.max_attempts is {}: 1 (never again) to {} are allowed",
                                   options.max_attempts, kMaxAttempts);
  if (options.first_pause.count() <= 0 || options.max_pause < options.first_pause ||
      options.max_pause > base::kMaxWait)
    return Status::InvalidArgument(
        "retry pauses of {} to {} ns: the first is above 0, the longest no shorter and at most a year",
        options.first_pause.count(), options.max_pause.count());
  return {};
}

std::optional<base::Duration> Attempts::Next(const Status& status, base::TimePoint now,
                                             base::TimePoint deadline) {
  ++made_;
  if (status.code() != Code::kUnavailable || made_ >= limit_) return std::nullopt;
  base::Duration pause = options_.first_pause;
  for (unsigned i = 1; i < std::min(made_, kMaxDoublings) && pause < options_.max_pause; ++i) pause *= 2;
  const int64_t half = std::min<base::Duration>(pause, options_.max_pause).count() / 2;
  pause = base::Duration(half + static_cast<int64_t>(random_.Below(static_cast<uint64_t>(half) + 1)));
  if (deadline != base::kNever && deadline - now <= pause) return std::nullopt;
  return pause;
}

Status Attempts::Explain(const Status& status) const {
  if (made_ < 2) return status;
  return Status::Make(status.code(), "{} (tried {} times)", status.message(), made_);
}

}  // namespace forebay::client
