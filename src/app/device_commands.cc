// SPDX-License-Identifier: Apache-2.0
// device: changes the devices of a running server's store.
#include <memory>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/control_connection.h"
#include "app/exit_status.h"
#include "app/invocation.h"
#include "app/json.h"
#include "base/bytes.h"

namespace forebay::app {
namespace {

struct DeviceArguments {
  std::string path;
  std::string other;  // the mirror, or the replacement
  std::string size;
  bool flag = false;
};

/// Asks the server, and says what was done.
template <typename Ask>
int Run(const Invocation& invocation, const JsonFields& fields, const std::string& done, Ask ask) {
  const auto connection = ControlConnection::Open(invocation);
  if (!connection.ok()) return Fail(connection.status().message());
  const Status status = ask((*connection)->client());
  if (!status.ok()) return Fail(status.message());
  fmt::print("{}\n", invocation.json ? ToJson(fields) : done);
  return kDone;
}

int RunReplace(const DeviceArguments& arguments, const Invocation& invocation) {
  return Run(invocation, {{"lost", arguments.path}, {"replacement", arguments.other}},
             fmt::format("{} takes the place of {}; how far it is: forebay df", arguments.other, arguments.path),
             [&](control::ControlClient& client) { return client.ReplaceDevice(arguments.path, arguments.other); });
}

int RunAdd(const DeviceArguments& arguments, const Invocation& invocation) {
  uint64_t size = 0;
  if (!arguments.size.empty() && !base::ParseSize(arguments.size, &size))
    return RefuseUsage("--size takes a number of bytes, or one with K, M, G or T, for example 200GiB");
  return Run(invocation, {{"added", arguments.path}}, fmt::format("the store is on {} too", arguments.path),
             [&](control::ControlClient& client) {
               return client.AddDevice(arguments.path, arguments.other, base::RoundUp(size, base::kMiB));
             });
}

int RunDrain(const DeviceArguments& arguments, const Invocation& invocation) {
  const bool stop = arguments.flag;
  return Run(invocation, {{stop ? "stays" : "drained", arguments.path}},
             stop ? fmt::format("{} stays", arguments.path)
                  : fmt::format("{} is being emptied; how far it is: forebay df", arguments.path),
             [&](control::ControlClient& client) { return client.DrainDevice(arguments.path, stop); });
}

int RunRemove(const DeviceArguments& arguments, const Invocation& invocation) {
  return Run(invocation, {{"removed", arguments.path}},
             fmt::format("{} is not a device of the store any more", arguments.path),
             [&](control::ControlClient& client) { return client.RemoveDevice(arguments.path); });
}

constexpr const char* kNewDevice =
    "A block device or file that is empty, or a file to make, on the server's machine, in the directory of the store or "
    "of one of its devices";

}  // namespace

void AddDeviceCommands(CLI::App& root, Invocation& invocation) {
  CLI::App* device = root.add_subcommand("device", "Change the devices of a running server's store; see also: forebay df");
  device->require_subcommand(1);

  const auto add_command = [&](const char* name, const char* what, auto run) {
    auto arguments = std::make_shared<DeviceArguments>();
    CLI::App* command = device->add_subcommand(name, what);
    command->callback([arguments, run, &invocation] {
      invocation.run = [arguments, run, &invocation] { return run(*arguments, invocation); };
    });
    return std::pair(command, arguments);
  };

  const auto [replace, replaced] = add_command(
      "replace", "Put another device in the place of a side of a mirror that is lost, and bring it up to date", RunReplace);
  replace->add_option("lost", replaced->path, "The side that is lost, as `forebay df` names it")->required();
  replace->add_option("replacement", replaced->other, kNewDevice)->required();

  const auto [add, added] = add_command("add", "Put the store on another device too", RunAdd);
  add->add_option("path", added->path, kNewDevice)->required();
  add->add_option("--mirror", added->other, "The device that keeps a second copy of it");
  add->add_option("--size", added->size, "Size of files that are made (default: as the largest device)");

  const auto [drain, drained] = add_command(
      "drain", "Empty a device: nothing new is put there, and what is there is moved to the others", RunDrain);
  drain->add_option("path", drained->path, "The device, as `forebay df` names it, or a side of it")->required();
  drain->add_flag("--stop", drained->flag, "Let it stay after all");

  const auto [remove, removed] = add_command("remove", "Take a device out that was emptied", RunRemove);
  remove->add_option("path", removed->path, "The device, as `forebay df` names it, or a side of it")->required();
}

}  // namespace forebay::app
