// SPDX-License-Identifier: Apache-2.0
// scrub: begin, watch and stop the reading and verifying of all content of a running server.
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/control_connection.h"
#include "app/exit_status.h"
#include "app/invocation.h"
#include "app/json.h"
#include "app/progress.h"
#include "app/scrub_schedule.h"
#include "base/bytes.h"

namespace forebay::app {
namespace {

constexpr std::chrono::milliseconds kAskEvery(200);
constexpr int kMostUnanswered = 50;  // questions one after the other: the server is busy, or restarting

struct ScrubArguments {
  std::string rate;
  bool anew = false;
  bool wait = false;
};

std::string_view PhaseName(control::ScrubPhase phase) {
  switch (phase) {
    case control::ScrubPhase::kRunning:
      return "running";
    case control::ScrubPhase::kStopped:
      return "stopped";
    case control::ScrubPhase::kFinished:
      return "finished";
    case control::ScrubPhase::kFailed:
      return "failed";
    case control::ScrubPhase::kNever:
      break;
  }
  return "never";
}

/// Of a block, without whose it is.
std::string DamageText(const control::ScrubDamage& damage) {
  return fmt::format("unit {} of {} (extent {}) {}", damage.unit, damage.device, damage.extent,
                     damage.repaired     ? "was wrong on one side, and was written again"
                     : damage.unreadable ? "cannot be read"
                                         : "does not match its checksum");
}

std::string TimeText(base::WallTime time) {
  return FormatTime(std::chrono::time_point_cast<std::chrono::system_clock::duration>(time));
}

void PrintJson(const control::ScrubReport& report) {
  const bool ended = report.ended != base::WallTime();
  fmt::print("{}\n", ToJson({{"phase", std::string(PhaseName(report.phase))},
                             {"started", report.phase == control::ScrubPhase::kNever ? "" : TimeText(report.started)},
                             {"ended", ended ? TimeText(report.ended) : ""},
                             {"rate_bytes_per_s", report.bytes_per_second},
                             {"total_bytes", report.total_bytes},
                             {"passed_bytes", report.passed_bytes},
                             {"verified_bytes", report.verified_bytes},
                             {"damaged_blocks", report.damaged_blocks},
                             {"repaired_blocks", report.repaired_blocks},
                             {"damaged_rows", report.damaged_rows},
                             {"reason", report.reason}}));
  for (const control::ScrubDamage& damage : report.damage) {
    const auto print = [&damage](const control::ScrubOwner& owner) {
      fmt::print("{}\n", ToJson({{damage.repaired ? "repaired" : "damaged", owner.name},
                                 {"offset", owner.offset},
                                 {"device", damage.device},
                                 {"unit", damage.unit},
                                 {"extent", damage.extent},
                                 {"unreadable", damage.unreadable}}));
    };
    if (damage.owners.empty()) print({});
    for (const control::ScrubOwner& owner : damage.owners) print(owner);
  }
}

void PrintText(const control::ScrubReport& report) {
  if (report.phase == control::ScrubPhase::kNever) {
    fmt::print("never scrubbed; begin with: forebay scrub start\n");
    return;
  }
  fmt::print("scrub {}, begun {}", PhaseName(report.phase), TimeText(report.started));
  if (report.ended != base::WallTime()) fmt::print(", ended {}", TimeText(report.ended));
  fmt::print("\n  {} of {} passed, {} of content verified", base::FormatSize(report.passed_bytes),
             base::FormatSize(report.total_bytes), base::FormatSize(report.verified_bytes));
  if (report.phase == control::ScrubPhase::kRunning && report.bytes_per_second != 0)
    fmt::print(", at most {} a second", base::FormatSize(report.bytes_per_second));
  fmt::print("\n  {} blocks damaged, {} repaired\n", report.damaged_blocks, report.repaired_blocks);
  if (report.damaged_rows != 0)
    fmt::print("  {} damaged rows of the metadata: forebay fsck says which\n", report.damaged_rows);
  if (!report.reason.empty()) fmt::print("  {}\n", report.reason);
  const bool finished = report.phase == control::ScrubPhase::kFinished;
  for (const control::ScrubDamage& damage : report.damage) {
    for (const control::ScrubOwner& owner : damage.owners)
      fmt::print("  {} {} at offset {}: {}\n", owner.name, damage.repaired ? "was repaired" : "is damaged", owner.offset,
                 DamageText(damage));
    if (damage.owners.empty())
      fmt::print("  {}: {}\n", DamageText(damage),
                 finished ? "no object uses it any more" : "whose it is, is looked up at the end");
  }
  if (report.damaged_blocks + report.repaired_blocks > report.damage.size())
    fmt::print("  and more; forebay fsck --data, with the server stopped, names all\n");
}

int Print(const control::ScrubReport& report, const Invocation& invocation) {
  if (invocation.json)
    PrintJson(report);
  else
    PrintText(report);
  const bool damaged = report.damaged_blocks != 0 || report.damaged_rows != 0;
  return damaged || report.phase == control::ScrubPhase::kFailed ? kFailed : kDone;
}

/// Until it runs no more. A server that restarts goes on with it.
Result<control::ScrubReport> WaitForEnd(control::ControlClient& client) {
  std::optional<Progress> line;
  uint64_t shown = 0;
  for (int unanswered = 0;;) {
    Result<control::ScrubReport> report = client.GetScrub();
    if (report.ok()) {
      unanswered = 0;
      if (report->phase != control::ScrubPhase::kRunning) return report;
      if (report->total_bytes != 0 && !line) line.emplace("scrub", report->total_bytes);
      if (line && report->passed_bytes > shown) line->Add(report->passed_bytes - std::exchange(shown, report->passed_bytes));
    } else {
      const Code code = report.status().code();
      const bool may_pass = code == Code::kUnavailable || code == Code::kDeadlineExceeded;
      if (!may_pass || ++unanswered > kMostUnanswered) return report;
    }
    std::this_thread::sleep_for(kAskEvery);
  }
}

int RunStart(const ScrubArguments& arguments, const Invocation& invocation) {
  uint64_t rate = kDefaultScrubRate;
  if (!arguments.rate.empty() && !base::ParseSize(arguments.rate, &rate))
    return RefuseUsage("--rate takes bytes a second, for example 200MiB; 0: no limit");
  const Result<std::unique_ptr<ControlConnection>> connection = ControlConnection::Open(invocation);
  if (!connection.ok()) return Fail(connection.status().message());
  control::ControlClient& client = (*connection)->client();
  if (const Status started = client.StartScrub(rate, arguments.anew); !started.ok()) return Fail(started.message());
  if (!arguments.wait) {
    if (!invocation.json) fmt::print("the scrub has begun; see: forebay scrub status\n");
    return kDone;
  }
  const Result<control::ScrubReport> report = WaitForEnd(client);
  if (!report.ok()) return Fail(report.status().message());
  return Print(*report, invocation);
}

int RunStatus(const Invocation& invocation) {
  const Result<std::unique_ptr<ControlConnection>> connection = ControlConnection::Open(invocation);
  if (!connection.ok()) return Fail(connection.status().message());
  const Result<control::ScrubReport> report = (*connection)->client().GetScrub();
  if (!report.ok()) return Fail(report.status().message());
  return Print(*report, invocation);
}

int RunStop(const Invocation& invocation) {
  const Result<std::unique_ptr<ControlConnection>> connection = ControlConnection::Open(invocation);
  if (!connection.ok()) return Fail(connection.status().message());
  const Status stopped = (*connection)->client().StopScrub();
  return stopped.ok() ? kDone : Fail(stopped.message());
}

}  // namespace

void AddScrubCommands(CLI::App& root, Invocation& invocation) {
  CLI::App* scrub = root.add_subcommand(
      "scrub", "Read all content of a running server from its devices and compare it with its checksums");
  scrub->require_subcommand(1);
  auto arguments = std::make_shared<ScrubArguments>();
  CLI::App* start = scrub->add_subcommand("start", "Begin, or go on where it was stopped");
  start->add_option("--rate", arguments->rate, "At most so many bytes a second (default 50MiB; 0: no limit)");
  start->add_flag("--anew", arguments->anew, "Begin at the beginning though one was stopped");
  start->add_flag("--wait", arguments->wait, "Wait for the end and show what it found");
  start->callback([arguments, &invocation] {
    invocation.run = [arguments, &invocation] { return RunStart(*arguments, invocation); };
  });
  CLI::App* status = scrub->add_subcommand("status", "How far it is and what it found; exit status 1 for damage");
  status->callback([&invocation] { invocation.run = [&invocation] { return RunStatus(invocation); }; });
  CLI::App* stop = scrub->add_subcommand("stop", "Stop it; `scrub start` goes on where it was");
  stop->callback([&invocation] { invocation.run = [&invocation] { return RunStop(invocation); }; });
}

}  // namespace forebay::app
