// SPDX-License-Identifier: Apache-2.0
// What the commands of integration_tool share: their options, their connection, and lines on stdout that a test reads.
// integration_tool is a client program like any other: it includes the installed header and nothing else of ours.
// Thread-safe: values and pure functions; Say may be called from any thread.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "forebay/client.h"

namespace forebay::integration {

/// `--name value` pairs. A missing or malformed one ends the program with status 2: this is a test's tool.
class Options {
 public:
  Options(int argc, char** argv, int first);
  std::string Text(const std::string& name) const;
  std::string Text(const std::string& name, const std::string& otherwise) const;
  uint64_t Number(const std::string& name) const;
  uint64_t Number(const std::string& name, uint64_t otherwise) const;

 private:
  std::map<std::string, std::string> values_;
};

/// A client of --server, with --credentials or --cap, over --fabric if that is given; ends the program with status 1 when there is none.
std::unique_ptr<Client> Connect(const Options& options, unsigned connections,
                                std::chrono::nanoseconds timeout = std::chrono::seconds(60));

/// One line on stdout, written at once, so that a reader has it even when we are killed right after.
void SayLine(std::string line);
template <typename... Args>
void Say(fmt::format_string<Args...> format, Args&&... args) {
  SayLine(fmt::format(format, std::forward<Args>(args)...));
}

/// "NOT_FOUND message", in one line.
std::string Describe(const Error& error);

/// Prints the message on stderr and ends the program with status 1.
[[noreturn]] void Die(std::string_view message);

// The commands; each returns the exit status.
int RunWrite(const Options& options);
int RunAudit(const Options& options);
int RunHold(const Options& options);
int RunLoad(const Options& options);
int RunCheck(const Options& options);
int RunStalledGet(const Options& options);
int RunStalledPut(const Options& options);

}  // namespace forebay::integration
