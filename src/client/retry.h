// SPDX-License-Identifier: Apache-2.0
// Attempts: whether and when one call is made again. A call is repeated when the server or the connection was
// not there (Unavailable), after pauses that double up to a cap and are scattered, so that clients of a
// server that comes back do not come all at once. Reactor-local: one for each call.
#pragma once

#include <optional>

#include "base/clock.h"
#include "base/random.h"
#include "base/status.h"
#include "forebay/client.h"

namespace forebay::client {

/// InvalidArgument for numbers that make no sense.
Status CheckRetry(const RetryOptions& options);

class Attempts {
 public:
  /// Borrows both. Without `again` there is one attempt.
  Attempts(const RetryOptions& options, base::Random& random, bool again = true)
      : options_(options), random_(random), limit_(again ? options.max_attempts : 1) {}

  /// After an attempt that failed with `status`: the pause before the next one. Nothing when it is the call's
  /// answer: it is not Unavailable, no attempt is left, or the pause would not end before the deadline.
  std::optional<base::Duration> Next(const Status& status, base::TimePoint now, base::TimePoint deadline);
  /// The answer; says how often it was tried when that was more than once.
  Status Explain(const Status& status) const;

 private:
  const RetryOptions& options_;
  base::Random& random_;
  const unsigned limit_;
  unsigned made_ = 0;
};

}  // namespace forebay::client
