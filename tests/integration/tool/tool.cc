// SPDX-License-Identifier: Apache-2.0
// integration_tool: what process tests need of a client and would be too slow, or impossible, with a command per operation.
#include "tool.h"

#include <unistd.h>

#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>

namespace forebay::integration {
namespace {

[[noreturn]] void RefuseUsage(std::string_view message) {
  fmt::print(stderr, "integration_tool: {}\n", message);
  std::exit(2);
}

using Command = int (*)(const Options&);
const std::map<std::string_view, Command> kCommands = {
    {"write", RunWrite}, {"audit", RunAudit},           {"hold", RunHold},          {"load", RunLoad},
    {"check", RunCheck}, {"stalled-get", RunStalledGet}, {"stalled-put", RunStalledPut},
};

}  // namespace

Options::Options(int argc, char** argv, int first) {
  for (int i = first; i < argc; i += 2) {
    const std::string name = argv[i];
    if (!name.starts_with("--") || i + 1 == argc) RefuseUsage("expected --name value, not `" + name + "`");
    values_[name.substr(2)] = argv[i + 1];
  }
}

std::string Options::Text(const std::string& name) const {
  const auto found = values_.find(name);
  if (found == values_.end()) RefuseUsage("--" + name + " is missing");
  return found->second;
}

std::string Options::Text(const std::string& name, const std::string& otherwise) const {
  return values_.contains(name) ? Text(name) : otherwise;
}

uint64_t Options::Number(const std::string& name) const {
  const std::string text = Text(name);
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) RefuseUsage("--" + name + " is not a number: " + text);
  return value;
}

uint64_t Options::Number(const std::string& name, uint64_t otherwise) const {
  return values_.contains(name) ? Number(name) : otherwise;
}

std::unique_ptr<Client> Connect(const Options& options, unsigned connections, std::chrono::nanoseconds timeout) {
  auto client = Client::Connect({.server = options.Text("server"),
                                 .credentials_path = options.Text("credentials", ""),
                                 .capability_path = options.Text("cap", ""),
                                 .connections = connections,
                                 .timeout = timeout,
                                 .fabric = options.Text("fabric", ""),
                                 .retry = {.max_attempts = 1}});  // the tests want to see what happens
  if (!client) Die("connect: " + Describe(client.error()));
  return *std::move(client);
}

void SayLine(std::string line) {
  line += '\n';
  // One write of less than a pipe's atomic size: lines of several threads do not mix.
  if (write(STDOUT_FILENO, line.data(), line.size()) != static_cast<ssize_t>(line.size())) std::_Exit(3);
}

std::string Describe(const Error& error) {
  std::string text = fmt::format("{} {}", CodeName(error.code), error.message);
  for (char& c : text)
    if (c == '\n') c = ' ';
  return text;
}

void Die(std::string_view message) {
  fmt::print(stderr, "integration_tool: {}\n", message);
  std::exit(1);
}

}  // namespace forebay::integration

int main(int argc, char** argv) {
  using namespace forebay::integration;
  std::signal(SIGPIPE, SIG_IGN);
  const auto command = argc < 2 ? kCommands.end() : kCommands.find(argv[1]);
  if (command == kCommands.end()) RefuseUsage("name a command: write, audit, hold, load, check, stalled-get, stalled-put");
  return command->second(Options(argc, argv, 2));
}
