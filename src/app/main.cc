// SPDX-License-Identifier: Apache-2.0
// The one program `forebay`: parses the command line and runs the chosen subcommand.
#include <csignal>

#include <CLI/CLI.hpp>

#include "app/exit_status.h"
#include "app/invocation.h"

int main(int argc, char** argv) {
  namespace app = forebay::app;
  std::signal(SIGPIPE,
              SIG_IGN);  // a reader that went away is an error of that write, not the end of the process

  app::Invocation invocation;
  CLI::App root{
      "Forebay: an RDMA-first object store and storage front for GPU clusters.\n"
      "Objects are written BUCKET/KEY. `forebay serve DIR` starts a server; the other commands find it by\n"
      "--server/--credentials/--tls, FOREBAY_SERVER/FOREBAY_CREDENTIALS/FOREBAY_TLS, or the profile that the server\n"
      "wrote. Who has no credentials uses a capability: --cap FILE, or FOREBAY_CAP."};
  root.name("forebay");
  root.require_subcommand(1);
  root.fallthrough();
  root.option_defaults()->always_capture_default(false);
  root.add_option("--server", invocation.flags.server, "Control address of the server, HOST:PORT");
  root.add_option("--credentials", invocation.flags.credentials,
                  "Credentials file (a store's own is DIR/credentials)");
  root.add_option("--cap", invocation.flags.capability,
                  "Capability file (of `forebay cap issue`) instead of credentials; or FOREBAY_CAP");
  root.add_option("--tls", invocation.flags.tls,
                  "Directory with ca.crt, tls.crt and tls.key (`forebay certs` makes it): mutual TLS with the server");
  root.add_option(
      "--fabric", invocation.fabric,
      "How payload moves: a name that `forebay doctor` shows (default: FOREBAY_FABRIC, else the best "
      "that both sides have)");
  root.add_flag("--json", invocation.json, "Print JSON, one object a line");
  app::AddServeCommand(root, invocation);
  app::AddTransferCommands(root, invocation);
  app::AddNamespaceCommands(root, invocation);
  app::AddCopyCommands(root, invocation);
  app::AddObjectCommands(root, invocation);
  app::AddUploadCommands(root, invocation);
  app::AddBucketCommands(root, invocation);
  app::AddTenantCommands(root, invocation);
  app::AddKeyCommands(root, invocation);
  app::AddCapabilityCommands(root, invocation);
  app::AddDfCommand(root, invocation);
  app::AddDeviceCommands(root, invocation);
  app::AddBackupCommands(root, invocation);
  app::AddScrubCommands(root, invocation);
  app::AddStoreCommands(root, invocation);
  app::AddBenchCommands(root, invocation);
  app::AddCertsCommands(root, invocation);
  app::AddDoctorCommand(root, invocation);

  try {
    root.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return root.exit(error) == 0 ? app::kDone : app::kWrongUsage;
  }
  return invocation.run();
}
