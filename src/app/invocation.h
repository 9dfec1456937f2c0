// SPDX-License-Identifier: Apache-2.0
// Invocation: what every subcommand shares: the global flags, how to reach the server, and the action that
// the chosen subcommand sets while the command line is parsed and main runs afterwards. Reactor-local: one
// thread, one process, one command.
#pragma once

#include <chrono>
#include <expected>
#include <functional>
#include <memory>
#include <string>

#include "app/profile.h"
#include "forebay/client.h"

namespace CLI {
class App;
}

namespace forebay::app {

struct Invocation {
  Profile flags;       // --server, --credentials, --cap, --tls
  std::string fabric;  // --fabric: how payload moves; empty: the best that both sides have
  bool json = false;   // --json
  std::function<int()> run;

  /// A client of the server that flags, environment, profile or default name.
  /// `timeout` is for connecting and for each call that names no other.
  std::expected<std::unique_ptr<Client>, Error> Connect(
      unsigned connections = 1, std::chrono::nanoseconds timeout = std::chrono::seconds(60)) const;
};

/// Prints "forebay: message" and gives the exit status for it.
int Fail(const Error& error);

// Each adds its subcommands to `root`; the action they set borrows `invocation`.
void AddServeCommand(CLI::App& root, Invocation& invocation);
void AddTransferCommands(CLI::App& root, Invocation& invocation);   // put, get, cat
void AddNamespaceCommands(CLI::App& root, Invocation& invocation);  // ls, stat, rm
void AddCopyCommands(CLI::App& root, Invocation& invocation);       // cp, concat, mv
void AddObjectCommands(CLI::App& root, Invocation& invocation);     // truncate, attr show, set, rm
void AddUploadCommands(CLI::App& root, Invocation& invocation);     // upload ls, abort
void AddBucketCommands(CLI::App& root, Invocation& invocation);     // bucket create, set, rm, ls
void AddTenantCommands(CLI::App& root, Invocation& invocation);     // tenant create, ls, show, set, rm
void AddKeyCommands(CLI::App& root, Invocation& invocation);        // key create, ls, rm
void AddCapabilityCommands(CLI::App& root, Invocation& invocation);  // cap issue, narrow, show, ls, revoke, rotate
void AddBenchCommands(CLI::App& root, Invocation& invocation);      // bench get, put
void AddBackupCommands(CLI::App& root, Invocation& invocation);     // backup, restore
void AddScrubCommands(CLI::App& root, Invocation& invocation);      // scrub start, status, stop
void AddStoreCommands(CLI::App& root, Invocation& invocation);      // fsck, version
void AddDeviceCommands(CLI::App& root, Invocation& invocation);     // device
void AddDfCommand(CLI::App& root, Invocation& invocation);
void AddCertsCommands(CLI::App& root, Invocation& invocation);      // certs init, server, client, show
void AddDoctorCommand(CLI::App& root, Invocation& invocation);

}  // namespace forebay::app
