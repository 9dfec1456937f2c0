// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_color_sinks.h>

namespace forebay::base {
namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarning: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
    case LogLevel::kOff: return spdlog::level::off;
  }
  return spdlog::level::off;
}

class StderrLog final : public Log {
 public:
  explicit StderrLog(LogLevel level) : logger_("forebay", std::make_shared<spdlog::sinks::stderr_color_sink_mt>()) {
    logger_.set_level(ToSpdlog(level));
    logger_.set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %^%l%$ %v");
    logger_.flush_on(spdlog::level::info);
  }

 private:
  bool Enabled(LogLevel level) const override { return logger_.should_log(ToSpdlog(level)); }
  void Write(LogLevel level, const std::string& line) override { logger_.log(ToSpdlog(level), line); }

  spdlog::logger logger_;
};

class DiscardLog final : public Log {
  bool Enabled(LogLevel /*level*/) const override { return false; }
  void Write(LogLevel /*level*/, const std::string& /*line*/) override {}
};

}  // namespace

std::unique_ptr<Log> Log::ToStderr(LogLevel level) { return std::make_unique<StderrLog>(level); }
std::unique_ptr<Log> Log::Discard() { return std::make_unique<DiscardLog>(); }

}  // namespace forebay::base
