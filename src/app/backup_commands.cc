// SPDX-License-Identifier: Apache-2.0
// backup and restore: copies of a whole store. Of a running server by asking it, else by this process.
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/control_connection.h"
#include "app/exit_status.h"
#include "app/invocation.h"
#include "app/json.h"
#include "app/progress.h"
#include "base/arena.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "engine/store_directory.h"

namespace forebay::app {
namespace {

constexpr size_t kArenaBytes = 2 * base::kMiB;
constexpr std::chrono::milliseconds kAskEvery(200);
constexpr int kMostUnanswered = 5;  // questions one after the other: the server is busy, or restarting

struct CopyArguments {
  std::string from;  // a store that no server has open; empty: the server's own
  std::string target;
  std::string rate;
  bool sparse = true;
};

/// A line on a terminal, once the whole is known.
class CopyLine {
 public:
  explicit CopyLine(std::string what) : what_(std::move(what)) {}
  void Show(uint64_t copied_bytes, uint64_t total_bytes) {
    if (total_bytes != 0 && !line_) line_.emplace(what_, total_bytes);
    if (line_) line_->Add(copied_bytes - shown_);
    shown_ = copied_bytes;
  }

 private:
  const std::string what_;
  std::optional<Progress> line_;
  uint64_t shown_ = 0;
};

Result<uint64_t> RateOf(const CopyArguments& arguments) {
  uint64_t rate = 0;
  if (!arguments.rate.empty() && !base::ParseSize(arguments.rate, &rate))
    return Status::InvalidArgument("--rate takes bytes a second, for example 200MiB");
  return rate;
}

Result<uint64_t> CopyHere(const CopyArguments& arguments, uint64_t rate, const std::string& what) {
  const base::SystemClock clock;
  base::SecureRandom random;
  const std::unique_ptr<base::Log> log = base::Log::ToStderr(base::LogLevel::kWarning);
  FB_ASSIGN(const std::unique_ptr<base::Arena> arena, base::Arena::Create(kArenaBytes));
  CopyLine line(what);
  return engine::StoreDirectory::Copy(arguments.from, arguments.target,
                                      {.arena = *arena, .clock = clock, .random = random, .log = *log},
                                      {.sparse = arguments.sparse,
                                       .bytes_per_second = rate,
                                       .watch = [&line](const engine::CopyProgress& progress) {
                                         line.Show(progress.copied_bytes, progress.total_bytes);
                                         return Status();
                                       }});
}

Result<uint64_t> AskServer(const CopyArguments& arguments, uint64_t rate, const Invocation& invocation) {
  FB_ASSIGN(const std::unique_ptr<ControlConnection> connection, ControlConnection::Open(invocation));
  control::ControlClient& client = connection->client();
  FB_ASSIGN(const uint64_t id, client.StartBackup(arguments.target, rate));
  CopyLine line("backup");
  int unanswered = 0;
  while (true) {
    const Result<control::BackupState> state = client.GetBackup(id);
    if (state.ok()) {
      unanswered = 0;
      line.Show(state->copied_bytes, state->total_bytes);
      if (state->done) return state->copied_bytes;
    } else {
      const Code code = state.error().code();
      const bool may_pass = code == Code::kUnavailable || code == Code::kDeadlineExceeded;
      if (!may_pass || ++unanswered > kMostUnanswered) return state.error();
    }
    std::this_thread::sleep_for(kAskEvery);
  }
}

int RunBackup(CopyArguments arguments, const Invocation& invocation) {
  const Result<uint64_t> rate = RateOf(arguments);
  if (!rate.ok()) return RefuseUsage(rate.status().message());
  arguments.target = std::filesystem::absolute(arguments.target).lexically_normal().string();
  if (arguments.target.size() > 1 && arguments.target.ends_with('/')) arguments.target.pop_back();
  const Result<uint64_t> copied =
      arguments.from.empty() ? AskServer(arguments, *rate, invocation) : CopyHere(arguments, *rate, "backup");
  if (!copied.ok()) return Fail(copied.status().message());
  if (invocation.json)
    fmt::print("{}\n", ToJson({{"backup", arguments.target}, {"bytes", *copied}}));
  else
    fmt::print("{}: a backup with {} of content\n", arguments.target, base::FormatSize(*copied));
  return kDone;
}

int RunRestore(const CopyArguments& arguments, const Invocation& invocation) {
  const Result<uint64_t> rate = RateOf(arguments);
  if (!rate.ok()) return RefuseUsage(rate.status().message());
  const Result<uint64_t> copied = CopyHere(arguments, *rate, "restore");
  if (!copied.ok()) return Fail(copied.status().message());
  if (invocation.json)
    fmt::print("{}\n", ToJson({{"store", arguments.target}, {"bytes", *copied}}));
  else
    fmt::print("{}: restored, with {} of content; start it with: forebay serve {}\n", arguments.target,
               base::FormatSize(*copied), arguments.target);
  return kDone;
}

}  // namespace

void AddBackupCommands(CLI::App& root, Invocation& invocation) {
  auto backup = std::make_shared<CopyArguments>();
  CLI::App* backup_command = root.add_subcommand(
      "backup", "Copy a store, as of one moment, into a directory that is a store of its own");
  backup_command
      ->add_option(
          "target", backup->target,
          "New directory, on the server's machine, in its --backup-directory (with --offline: anywhere here)")
      ->required();
  backup_command->add_option("--rate", backup->rate,
                             "At most so many bytes a second, for example 200MiB (default: no limit)");
  backup_command->add_option(
      "--offline", backup->from,
      "Copy the store in this directory, which no server has open, instead of asking a server");
  backup_command->callback([backup, &invocation] {
    invocation.run = [backup, &invocation] { return RunBackup(*backup, invocation); };
  });

  auto restore = std::make_shared<CopyArguments>();
  auto sparse = std::make_shared<bool>(false);
  CLI::App* restore_command = root.add_subcommand(
      "restore", "Check a backup and copy it into a new store directory, every byte verified");
  restore_command->add_option("backup", restore->from, "Directory of the backup")->required();
  restore_command->add_option("directory", restore->target, "Store directory to make: new or empty")
      ->required();
  restore_command->add_option("--rate", restore->rate, "At most so many bytes a second (default: no limit)");
  restore_command->add_flag("--sparse", *sparse,
                            "Data files take room for what they hold only; puts fail when there is no more");
  restore_command->callback([restore, sparse, &invocation] {
    restore->sparse = *sparse;
    invocation.run = [restore, &invocation] { return RunRestore(*restore, invocation); };
  });
}

}  // namespace forebay::app
