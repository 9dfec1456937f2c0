// SPDX-License-Identifier: Apache-2.0
// Rates on the command line: --rate, --operations and --transfers, which tenants and capabilities have in
// common, and how they are shown. Reactor-local: one thread, one command.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "app/json.h"
#include "auth/grant.h"
#include "base/status.h"

namespace CLI {
class App;
}

namespace forebay::app {

struct RateOptions {
  std::string rate;  // as given; empty: not
  std::optional<uint64_t> operations;
  std::optional<uint32_t> transfers;

  /// `zero` says what 0 means. This outlives `command`.
  void AddTo(CLI::App* command, const std::string& zero);
  /// Of --rate, where it was given. InvalidArgument when it is no size.
  Result<std::optional<uint64_t>> BytesPerSecond() const;
  /// What was not given is 0.
  Result<auth::RateGrant> ToGrant() const;
};

/// "; at most 8.0 MiB/s, 5 operations/s, 2 transfers at once", as far as there are limits: for the end of a
/// line.
std::string DescribeRates(const auth::RateGrant& rates);
/// All three, 0 for no limit.
void AppendRates(JsonFields* fields, const auth::RateGrant& rates);

}  // namespace forebay::app
