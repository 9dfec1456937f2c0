// SPDX-License-Identifier: Apache-2.0
// Log: the one way to tell the operator something. Built by main and passed down; a null sink for tests. Secrets
// never come here: types that hold one have no formatter. Log once, where the error is decided.
// Thread-safe.
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>

namespace forebay::base {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError, kOff };

class Log {
 public:
  /// To stderr, with time and level; `level` and above.
  static std::unique_ptr<Log> ToStderr(LogLevel level);
  /// Drops everything.
  static std::unique_ptr<Log> Discard();
  virtual ~Log() = default;

  template <typename... Args>
  void Debug(fmt::format_string<Args...> format, Args&&... args) {
    if (Enabled(LogLevel::kDebug)) Write(LogLevel::kDebug, fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void Info(fmt::format_string<Args...> format, Args&&... args) {
    if (Enabled(LogLevel::kInfo)) Write(LogLevel::kInfo, fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void Warning(fmt::format_string<Args...> format, Args&&... args) {
    if (Enabled(LogLevel::kWarning)) Write(LogLevel::kWarning, fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void Error(fmt::format_string<Args...> format, Args&&... args) {
    if (Enabled(LogLevel::kError)) Write(LogLevel::kError, fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  virtual bool Enabled(LogLevel level) const = 0;
  virtual void Write(LogLevel level, const std::string& line) = 0;
};

}  // namespace forebay::base
