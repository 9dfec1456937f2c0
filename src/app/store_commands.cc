// SPDX-License-Identifier: Apache-2.0
// fsck and version: what needs no server.
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/exit_status.h"
#include "app/invocation.h"
#include "app/json.h"
#include "app/version.h"
#include "base/arena.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/random.h"
#include "engine/store_directory.h"

namespace forebay::app {
namespace {

constexpr size_t kFsckMemoryBytes = 64 * base::kMiB;

struct FsckArguments {
  std::string directory;
  bool data = false;
  bool repair = false;
  bool remove_damaged = false;
  size_t max_errors = 100;
};

int PrintReport(const engine::FsckReport& report, const FsckArguments& arguments, bool json) {
  for (const std::string& error : report.errors) fmt::print(stderr, "forebay: {}\n", error);
  if (report.error_count > report.errors.size())
    fmt::print(stderr, "forebay: and {} more; raise --max-errors to see them\n",
               report.error_count - report.errors.size());
  if (json) {
    fmt::print("{}\n", ToJson({{"store", arguments.directory},
                               {"clean", report.clean()},
                               {"errors", report.error_count},
                               {"buckets", report.buckets},
                               {"objects", report.objects},
                               {"object_bytes", report.object_bytes},
                               {"uploads", report.uploads},
                               {"operations", report.operations},
                               {"extents", report.extents},
                               {"used_bytes", report.used_bytes},
                               {"capacity_bytes", report.capacity_bytes},
                               {"verified_bytes", report.verified_bytes}}));
  } else {
    fmt::print("{}: {}\n", arguments.directory,
               report.clean() ? "clean" : fmt::format("{} errors", report.error_count));
    fmt::print("  {} buckets, {} objects of {}, {} extents; {} of {} in use\n", report.buckets,
               report.objects, base::FormatSize(report.object_bytes), report.extents,
               base::FormatSize(report.used_bytes), base::FormatSize(report.capacity_bytes));
    if (report.uploads != 0) fmt::print("  {} uploads in progress\n", report.uploads);
    if (arguments.data)
      fmt::print("  {} read and verified against checksums\n", base::FormatSize(report.verified_bytes));
  }
  return report.clean() ? kDone : kFailed;
}

void PrintPlan(const engine::RepairPlan& plan, bool acted) {
  for (const std::string& action : plan.actions) fmt::print(stderr, "forebay: repair: {}\n", action);
  for (const std::string& one : plan.unrepaired) fmt::print(stderr, "forebay: not repaired: {}\n", one);
  if (!acted && !plan.empty())
    fmt::print(stderr, "forebay: nothing was changed; this is done by: forebay fsck --repair\n");
}

int RunFsck(const FsckArguments& arguments, const Invocation& invocation) {
  const base::SystemClock clock;
  base::SecureRandom random;
  const std::unique_ptr<base::Log> log = base::Log::ToStderr(base::LogLevel::kWarning);
  const auto arena = base::Arena::Create(kFsckMemoryBytes);
  if (!arena.ok()) return Fail(arena.status().message());
  if (arguments.remove_damaged && !arguments.repair)
    return RefuseUsage("--remove-damaged says what --repair does: name both");
  const bool data = arguments.data || arguments.remove_damaged;
  const engine::StoreDirectory::Environment environment{
      .arena = **arena, .clock = clock, .random = random, .log = *log};
  const engine::FsckOptions fsck{.verify_data = data, .max_errors = arguments.max_errors};
  const auto repaired = engine::StoreDirectory::Repair(
      arguments.directory, fsck, {.verify_data = data, .remove_damaged = arguments.remove_damaged}, arguments.repair,
      environment);
  if (!repaired.ok()) return Fail(repaired.status().message());
  if (!repaired->record.empty()) {
    for (const std::string& error : repaired->before.errors) fmt::print(stderr, "forebay: found: {}\n", error);
    if (repaired->before.error_count > repaired->before.errors.size())
      fmt::print(stderr, "forebay: found: and {} more\n",
                 repaired->before.error_count - repaired->before.errors.size());
  }
  PrintPlan(repaired->plan, !repaired->record.empty());
  if (!repaired->record.empty() && !invocation.json)
    fmt::print("repaired; what was done, with each row that went, stands in {}\n", repaired->record);
  return PrintReport(repaired->after, arguments, invocation.json);
}

}  // namespace

void AddStoreCommands(CLI::App& root, Invocation& invocation) {
  auto fsck = std::make_shared<FsckArguments>();
  CLI::App* fsck_command =
      root.add_subcommand("fsck", "Prove that a stopped store is consistent; changes nothing without --repair");
  fsck_command->add_option("directory", fsck->directory, "Store directory")->required();
  fsck_command->add_flag("--data", fsck->data, "Also read every block and verify its checksum");
  fsck_command->add_flag("--repair", fsck->repair,
                         "Repair what is wrong, as the plan says that is shown without it; no byte that can be read is "
                         "given up, and each row that goes is kept in DIR/lost");
  fsck_command->add_flag("--remove-damaged", fsck->remove_damaged,
                         "With --repair: remove objects of which a block is lost, instead of keeping the rest");
  fsck_command->add_option("--max-errors", fsck->max_errors, "Show at most this many (default 100)");
  fsck_command->callback(
      [fsck, &invocation] { invocation.run = [fsck, &invocation] { return RunFsck(*fsck, invocation); }; });

  CLI::App* version = root.add_subcommand("version", "Print the version");
  version->callback([&invocation] {
    invocation.run = [&invocation] {
      if (invocation.json)
        fmt::print("{}\n", ToJson({{"version", std::string(kVersion)}}));
      else
        fmt::print("forebay {}\n", kVersion);
      return kDone;
    };
  });
}

}  // namespace forebay::app
