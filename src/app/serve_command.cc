// SPDX-License-Identifier: Apache-2.0
// serve: runs a server until SIGTERM or SIGINT.
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/duration.h"
#include "app/exit_status.h"
#include "app/invocation.h"
#include "app/json.h"
#include "app/listen_rules.h"
#include "app/server.h"
#include "base/bytes.h"

namespace forebay::app {
namespace {

constexpr base::Duration kDrainTime = std::chrono::seconds(10);

struct ServeArguments {
  ServeOptions options;
  std::string backend;
  std::string backend_tls;
  std::string size;
  std::string memory = "256MiB";
  std::string lend;
  std::string scrub_every;
  std::string scrub_rate;
  std::string log_level = "info";
  bool no_profile = false;
};

const std::map<std::string, base::LogLevel>& LogLevels() {
  static const std::map<std::string, base::LogLevel> levels = {{"debug", base::LogLevel::kDebug},
                                                               {"info", base::LogLevel::kInfo},
                                                               {"warning", base::LogLevel::kWarning},
                                                               {"error", base::LogLevel::kError}};
  return levels;
}

/// Blocks the signals that end a server, in this thread and those it will start, so that one place waits for
/// them.
sigset_t BlockStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

/// Each connection needs a descriptor: takes all that the administrator allows. Debian's soft limit is 1,024.
void RaiseOpenFilesLimit(base::Log& log) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
    log.Warning("the limit of open files stays as it is: {}; connections beyond it will be refused",
                Status::FromErrno(errno, "raise it").message());
}

int WaitForSignal(const sigset_t& signals) {
  int signal = 0;
  while (sigwait(&signals, &signal) != 0) {
  }
  return signal;
}

/// Where tcp listens, if it does; else the first way there is.
std::string DataAddressOf(const Server& server) {
  for (const control::DataEndpoint& endpoint : server.data_endpoints())
    if (endpoint.fabric.starts_with("tcp")) return endpoint.address;
  return server.data_endpoints().front().address;
}

/// "shm,tcp"
std::string FabricsOf(const Server& server) {
  std::string names;
  for (const control::DataEndpoint& endpoint : server.data_endpoints())
    names += (names.empty() ? "" : ",") + endpoint.fabric;
  return names;
}

void PrintReady(const Server& server, bool json) {
  if (json) {
    fmt::print("{}\n", ToJson({{"ready", true},
                               {"control", server.control_address()},
                               {"data", DataAddressOf(server)},
                               {"fabrics", FabricsOf(server)},
                               {"store", server.directory()},
                               {"credentials", server.credentials_path()},
                               {"pid", int64_t{getpid()}}}));
  } else {
    fmt::print("ready control={} data={} fabrics={} store={} credentials={} pid={}\n",
               server.control_address(), DataAddressOf(server), FabricsOf(server), server.directory(),
               server.credentials_path(), getpid());
  }
  std::fflush(stdout);
}

Status ReadScrubSchedule(ServeArguments& arguments) {
  constexpr std::chrono::hours kMost(24 * 360);
  ScrubSchedule& schedule = arguments.options.scrub;
  if (!arguments.scrub_rate.empty() && !base::ParseSize(arguments.scrub_rate, &schedule.bytes_per_second))
    return Status::InvalidArgument("--scrub-rate takes bytes a second, for example 100MiB; 0: no limit");
  if (arguments.scrub_every.empty() && !arguments.scrub_rate.empty())
    return Status::InvalidArgument("--scrub-rate is for --scrub-every; one that is asked for has its own: forebay scrub start --rate");
  if (arguments.scrub_every.empty()) return {};
  const std::optional<std::chrono::milliseconds> every = ParseDuration(arguments.scrub_every);
  if (!every || *every > kMost)
    return Status::InvalidArgument("--scrub-every takes a number and a unit, for example 30d, and at most 360d");
  schedule.every = *every;
  return {};
}

/// How a relay reaches the server behind it: as the other commands reach theirs.
Status ChooseBackend(const ServeArguments& arguments, const Invocation& invocation, ServeOptions* options) {
  FB_ASSIGN(options->backend, ParseBackend(arguments.backend));
  const auto* const remote = std::get_if<RemoteBackend>(&options->backend);
  if (remote == nullptr) {
    if (!arguments.backend_tls.empty()) return Status::InvalidArgument("--backend-tls is for --backend remote:HOST");
    return {};
  }
  FB_ASSIGN(const Profile profile, ResolveProfile({.server = remote->server,
                                                   .credentials = invocation.flags.credentials,
                                                   .tls = arguments.backend_tls,
                                                   .capability = invocation.flags.capability},
                                                  ProcessEnvironment()));
  options->upstream.credentials_path = profile.credentials;
  options->upstream.capability_path = profile.capability;
  options->upstream.tls_directory = profile.tls;
  return {};
}

int RunServe(ServeArguments arguments, const Invocation& invocation) {
  if (!arguments.size.empty() && !base::ParseSize(arguments.size, &arguments.options.size_bytes))
    return RefuseUsage("--size takes a number of bytes, or one with K, M, G or T, for example 200GiB");
  if (!base::ParseSize(arguments.memory, &arguments.options.memory_bytes))
    return RefuseUsage("--memory takes a number of bytes, or one with K, M or G, for example 1GiB");
  if (!arguments.lend.empty() && !base::ParseSize(arguments.lend, &arguments.options.lend_bytes.emplace()))
    return RefuseUsage("--lend takes a number of bytes, or one with K, M or G, for example 64MiB");
  if (const Status valid = ReadScrubSchedule(arguments); !valid.ok()) return RefuseUsage(valid.message());
  const auto level = LogLevels().find(arguments.log_level);
  if (level == LogLevels().end()) return RefuseUsage("--log-level is debug, info, warning or error");

  if (!invocation.flags.tls.empty())
    arguments.options.tls_directory =
        std::filesystem::absolute(invocation.flags.tls).lexically_normal().string();
  if (const Status chosen = ChooseBackend(arguments, invocation, &arguments.options); !chosen.ok())
    return RefuseUsage(chosen.message());
  if (const Status valid = CheckServeOptions(arguments.options); !valid.ok())
    return RefuseUsage(valid.message());

  const sigset_t signals = BlockStopSignals();
  const base::SystemClock clock;
  base::SecureRandom random;
  const std::unique_ptr<base::Log> log = base::Log::ToStderr(level->second);
  RaiseOpenFilesLimit(*log);
  auto server = Server::Start(arguments.options, clock, random, *log);
  if (!server.ok()) return Fail(server.status().message());

  const Profile profile{LocalAddress((*server)->control_address()), (*server)->credentials_path(),
                        arguments.options.tls_directory};
  const std::string profile_path = arguments.no_profile ? "" : ProfilePath(ProcessEnvironment());
  if (!profile_path.empty()) {
    const Status saved = SaveProfile(profile_path, profile);
    if (!saved.ok()) log->Warning("commands will need --server and --credentials: {}", saved.message());
  }
  PrintReady(**server, invocation.json);
  const int signal = WaitForSignal(signals);
  log->Info("signal {}: finishing what is in progress", signal);
  if (!profile_path.empty()) RemoveProfile(profile_path, profile);
  (*server)->Stop(kDrainTime);
  return kDone;
}

}  // namespace

void AddServeCommand(CLI::App& root, Invocation& invocation) {
  auto serve = std::make_shared<ServeArguments>();
  CLI::App* command =
      root.add_subcommand("serve", "Start a server on the embedded engine, on a directory of files, or as a relay to another server");
  command->add_option("directory", serve->options.directory,
                      "Store directory, made when missing (default ./forebay-data)");
  command->add_option("--backend", serve->backend,
                      "Where the objects are. directory:PATH: the files in PATH, each directory in it a bucket; see "
                      "docs/directory-backend.md. remote:HOST[:PORT]: another Forebay server, reached with --credentials "
                      "or --cap as the other commands do; DIR then keeps only this relay's own records (default: the embedded "
                      "engine)");
  command->add_option("--backend-tls", serve->backend_tls,
                      "With --backend remote: directory of certificates for the way there (default: FOREBAY_TLS)");
  command->add_option("--listen", serve->options.listen,
                      "Control address (default 127.0.0.1:7400; port 0: any free one)");
  command->add_option("--data-listen", serve->options.data_listen,
                      "Data address of tcp (default: the control port + 1, or any free one)");
  command->add_option("--fabric", serve->options.fabrics,
                      "A way to move data, NAME or NAME=ADDRESS; may be repeated (default: what this machine "
                      "has, see `forebay doctor`)");
  command->add_flag("--allow-plaintext", serve->options.allow_plaintext,
                    "Let data addresses be beyond loopback, on a network that may be trusted: nothing is "
                    "encrypted");
  command->add_flag("--allow-plaintext-control", serve->options.allow_plaintext_control,
                    "With --allow-plaintext: let the control address be beyond loopback without --tls, too");
  command->add_option("--size", serve->size,
                      "Size of the data file when a store is made (default: half of the free space)");
  command->add_option(
      "--device", serve->options.devices,
      "Block device or file for data when a store is made, instead of DIR/data0; may be repeated");
  command->add_option(
      "--mirror", serve->options.mirrors,
      "Block device or file that keeps a second copy of the data, when a store is made; once for each --device, in the "
      "same order, or for DIR/data0");
  command->add_option("--backup-directory", serve->options.backup_directory,
                      "Directory in which `forebay backup` may make new ones (default: no backups of a running server)");
  command->add_option("--scrub-every", serve->scrub_every,
                      "Begin to read and verify all content when the last time is so long ago, for example 30d "
                      "(default: only by `forebay scrub start`)");
  command->add_option("--scrub-rate", serve->scrub_rate,
                      "At most so many bytes a second of these scrubs (default 50MiB; 0: no limit)");
  command->add_option("--memory", serve->memory,
                      "Memory for payload in flight and the memory tier (default 256MiB)");
  command->add_option("--lend", serve->lend,
                      "Memory for copies of hot payload that clients over shm read by themselves, without the "
                      "server's processors; 0: none (default: a quarter of --memory, beside it)");
  command->add_option("--reactors", serve->options.reactors,
                      "Data-plane threads (default: half the cores, at most 8)");
  command->add_option("--log-level", serve->log_level, "debug, info, warning or error (default info)");
  command->add_flag("--no-profile", serve->no_profile,
                    "Do not tell this user's commands where the server is");
  command->callback([serve, &invocation] {
    invocation.run = [serve, &invocation] { return RunServe(*serve, invocation); };
  });
}

}  // namespace forebay::app
