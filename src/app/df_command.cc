// SPDX-License-Identifier: Apache-2.0
// df: how much room the store of a server has, what takes it, and what to do when it runs out.
#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/control_connection.h"
#include "app/exit_status.h"
#include "app/invocation.h"
#include "app/space_report.h"

namespace forebay::app {
namespace {

int RunDf(const Invocation& invocation) {
  const auto connection = ControlConnection::Open(invocation);
  if (!connection.ok()) return Fail(connection.status().message());
  const Result<control::ServerSpace> space = (*connection)->client().Space();
  if (!space.ok()) return Fail(space.status().message());
  fmt::print("{}", invocation.json ? SpaceJson(*space) : SpaceTable(*space));
  return kDone;
}

}  // namespace

void AddDfCommand(CLI::App& root, Invocation& invocation) {
  CLI::App* command = root.add_subcommand(
      "df", "How much room the data devices and the metadata have, and what to do when it runs out");
  command->callback([&invocation] { invocation.run = [&invocation] { return RunDf(invocation); }; });
}

}  // namespace forebay::app
