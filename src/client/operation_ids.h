// SPDX-License-Identifier: Apache-2.0
// OperationIds: makes operation ids by the server's time, as the last session told it, so that the clock of
// this machine may be wrong. A server that told none keeps no results: then there are no ids. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "base/clock.h"
#include "base/ids.h"
#include "base/random.h"
#include "base/status.h"

namespace forebay::client {

class OperationIds {
 public:
  /// Borrows both; `random` is thread-safe.
  OperationIds(const base::Clock& clock, base::Random& random) : clock_(clock), random_(random) {}

  /// It was `server_ms` on the server a moment ago; 0: the server does not say.
  void Learn(uint64_t server_ms) {
    known_ = server_ms != 0;
    ahead_ms_ = static_cast<int64_t>(server_ms) - NowMs();
  }
  /// Whether a change may be repeated because of its id.
  bool known() const { return known_; }
  /// Milliseconds since 1970 on the server's clock, as far as it is known.
  uint64_t server_ms() const {
    const int64_t now = NowMs() + ahead_ms_;
    return now > 0 ? static_cast<uint64_t>(now) : 0;
  }
  /// None while there are no ids.
  OperationId New() const {
    if (!known_) return {};
    return OperationId::Generate(server_ms(), random_);
  }
  /// `text` is what ToString gives; empty makes a new one.
  Result<OperationId> Parse(std::string_view text) const {
    if (text.empty()) return New();
    OperationId id;
    if (base::FromHex(text, id.bytes) && id.HasTime()) return id;
    return Status::InvalidArgument("operation `{}`: an id of the server has 32 hexadecimal digits", text);
  }

 private:
  int64_t NowMs() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(clock_.Now().time_since_epoch()).count();
  }

  const base::Clock& clock_;
  base::Random& random_;
  std::atomic<bool> known_{false};
  std::atomic<int64_t> ahead_ms_{0};  // of the monotonic clock
};

}  // namespace forebay::client
