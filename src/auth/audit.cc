// SPDX-License-Identifier: Apache-2.0
#include "auth/audit.h"

#include <string>

namespace forebay::auth {

namespace {

/// In quotes, with everything that could end the quotes or the line written as \xNN; cut after 300 bytes.
std::string Quoted(std::string_view text) {
  constexpr size_t kMost = 300;
  std::string quoted = "\"";
  for (const char c : text.substr(0, kMost)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f || c == '"' || c == '\\') {
      quoted += fmt::format("\\x{:02x}", byte);
    } else {
      quoted += c;
    }
  }
  if (text.size() > kMost) quoted += "...";
  return quoted += '"';
}

/// As it is when it can only be a name of ours.
std::string Operation(std::string_view name) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._";
  const bool plain = name.size() <= 100 && name.find_first_not_of(kPlain) == std::string_view::npos;
  return plain ? std::string(name) : Quoted(name);
}

std::string Describe(std::string_view outcome, const Act& act, const Status& status) {
  std::string line = fmt::format("audit: {} operation={}", outcome, Operation(act.operation));
  if (act.grant != nullptr)
    line += fmt::format(" by={} tenant={}", Quoted(act.grant->name), static_cast<uint64_t>(act.grant->tenant));
  if (!act.target.bucket.empty())
    line += fmt::format(" target={}", Quoted(fmt::format("{}/{}", act.target.bucket, act.target.key)));
  line += fmt::format(" peer={}", Quoted(act.peer));
  if (!status.ok()) line += fmt::format(" reason={}", Quoted(status.message()));
  return line;
}

}  // namespace

void Audit::Denied(const Act& act, const Status& reason) {
  unsigned left_out = 0;
  {
    const base::MutexLock lock(mutex_);
    const base::TimePoint now = clock_.Now();
    if (now >= second_ + std::chrono::seconds(1)) {
      if (refusals_ > kMaxAuditedRefusalsPerSecond) left_out = refusals_ - kMaxAuditedRefusalsPerSecond;
      second_ = now;
      refusals_ = 0;
    }
    if (++refusals_ > kMaxAuditedRefusalsPerSecond) return;
  }
  if (left_out > 0) log_.Warning("audit: {} more refusals were left out", left_out);
  log_.Warning("{}", Describe("denied", act, reason));
}

void Audit::Done(const Act& act, const Status& outcome) {
  log_.Info("{}", Describe(outcome.ok() ? "done" : "failed", act, outcome));
}

}  // namespace forebay::auth
