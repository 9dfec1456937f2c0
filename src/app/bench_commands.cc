// SPDX-License-Identifier: Apache-2.0
// bench get, bench put, bench all: a load against the running server with the machine's own limit beside it.
#include <memory>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/crypto_bench.h"
#include "app/exit_status.h"
#include "app/fairness_bench.h"
#include "app/invocation.h"
#include "app/json.h"
#include "base/bytes.h"
#include "bench/cases.h"

namespace forebay::app {
namespace {

using bench::Case;
using bench::CaseReport;
using bench::Heat;
using bench::Operation;

struct BenchArguments {
  std::string size = "1MiB";
  unsigned depth = 8;
  unsigned threads = 1;
  unsigned connections = 1;
  unsigned batch = 1;
  uint64_t objects = 0;
  bool cold = false;
  double seconds = 5;
  std::string device_directory = ".";
};

double MiB(double bytes) { return bytes / static_cast<double>(base::kMiB); }

double PerGiB(double cpu_seconds, const bench::LoadReport& load) {
  return load.bytes == 0 ? 0
                         : cpu_seconds * static_cast<double>(base::kGiB) / static_cast<double>(load.bytes);
}

std::string Describe(const Case& spec) {
  const bench::LoadSpec& load = spec.load;
  std::string text = fmt::format("{} {}", load.operation == Operation::kGet ? "get" : "put",
                                 base::FormatSize(load.object_bytes));
  if (load.operation == Operation::kGet) text += load.heat == Heat::kHot ? " hot" : " cold";
  if (load.batch > 1) text += fmt::format(", batches of {}", load.batch);
  text += fmt::format(", depth {}", load.depth);
  if (load.threads > 1) text += fmt::format(", {} threads", load.threads);
  if (spec.connections > 1) text += fmt::format(", {} connections", spec.connections);
  return text;
}

void Print(const Case& spec, const CaseReport& report, bool json) {
  const bench::LoadReport& load = report.load;
  const auto micros = [&](double percent) {
    return static_cast<double>(load.latency.Percentile(percent)) / 1000;
  };
  if (json) {
    fmt::print("{}\n",
               ToJson({{"case", Describe(spec)},
                       {"path", load.path},
                       {"operation", std::string(spec.load.operation == Operation::kGet ? "get" : "put")},
                       {"object_bytes", spec.load.object_bytes},
                       {"depth", uint64_t{spec.load.depth}},
                       {"threads", uint64_t{spec.load.threads}},
                       {"connections", uint64_t{spec.connections}},
                       {"batch", uint64_t{spec.load.batch}},
                       {"hot", spec.load.heat == Heat::kHot},
                       {"seconds", load.seconds},
                       {"operations", load.operations},
                       {"operations_per_second", load.operations_per_second()},
                       {"bytes_per_second", load.bytes_per_second()},
                       {"p50_us", micros(50)},
                       {"p99_us", micros(99)},
                       {"client_cpu_seconds_per_gib", PerGiB(load.client_cpu_seconds, load)},
                       {"server_cpu_seconds_per_gib", PerGiB(load.server_cpu_seconds, load)},
                       {"device_flushes", load.device_flushes},
                       {"limit_cpu_seconds_per_gib", report.limit_cpu_seconds_per_gib},
                       {"limit", std::string(bench::LimitName(report.limit))},
                       {"limit_bytes_per_second", report.limit_bytes_per_second},
                       {"limit_operations_per_second", report.limit_operations_per_second},
                       {"fraction_of_limit", report.fraction()}}));
    return;
  }
  fmt::print("{}\n  path      {}\n", Describe(spec), load.path);
  fmt::print("  rate      {:>9.1f} MiB/s  {:>9.0f} objects/s  in {:.1f} s\n", MiB(load.bytes_per_second()),
             load.operations_per_second(), load.seconds);
  fmt::print("  latency   p50 {:.0f} us  p99 {:.0f} us\n", micros(50), micros(99));
  fmt::print("  CPU       client {:.2f} s/GiB  server {:.2f} s/GiB  (limit: {:.2f} both ends)\n",
             PerGiB(load.client_cpu_seconds, load), PerGiB(load.server_cpu_seconds, load),
             report.limit_cpu_seconds_per_gib);
  if (spec.load.operation == Operation::kPut && load.device_flushes != 0)
    fmt::print("  flushes   {} of the device: one per {:.1f} puts\n", load.device_flushes,
               static_cast<double>(load.operations) / static_cast<double>(load.device_flushes));
  fmt::print("  limit     {:>9.1f} MiB/s  {:>9.0f} operations/s  ({})\n", MiB(report.limit_bytes_per_second),
             report.limit_operations_per_second, bench::LimitName(report.limit));
  fmt::print("  fraction  {:.2f} of the limit\n", report.fraction());
}

int RunCases(const std::vector<Case>& cases, const Invocation& invocation) {
  for (const Case& spec : cases) {
    const auto report =
        bench::RunCase(spec, [&](unsigned connections) { return invocation.Connect(connections); });
    if (!report) return Fail(report.error());
    Print(spec, *report, invocation.json);
    std::fflush(stdout);
  }
  return kDone;
}

int RunOne(Operation operation, const BenchArguments& arguments, const Invocation& invocation) {
  Case spec;
  if (!base::ParseSize(arguments.size, &spec.load.object_bytes))
    return RefuseUsage("--size takes a number of bytes, or one with K, M or G, for example 4KiB");
  if (!(arguments.seconds >= 0.1 && arguments.seconds <= 3600))
    return RefuseUsage("--seconds is 0.1 to 3600");
  spec.load.operation = operation;
  spec.load.depth = arguments.depth;
  spec.load.threads = arguments.threads;
  spec.load.batch = arguments.batch;
  spec.load.objects = arguments.objects;
  spec.load.heat = arguments.cold ? Heat::kCold : Heat::kHot;
  spec.load.duration = std::chrono::milliseconds(static_cast<int64_t>(arguments.seconds * 1000));
  spec.connections = arguments.connections;
  spec.device_directory = arguments.device_directory;
  spec.limit = bench::ChooseLimit(spec.load);
  return RunCases({spec}, invocation);
}

/// The cases of docs/performance.md.
std::vector<Case> AllCases(const BenchArguments& arguments) {
  const auto duration = std::chrono::milliseconds(static_cast<int64_t>(arguments.seconds * 1000));
  std::vector<Case> cases = {
      {.load = {.object_bytes = base::kMiB, .depth = 8}},
      {.load = {.object_bytes = 64 * base::kMiB, .depth = 8}},
      {.load = {.object_bytes = base::kMiB, .depth = 8, .heat = Heat::kCold}},
      {.load = {.operation = Operation::kPut, .object_bytes = 4 * base::kMiB, .depth = 8}},
      {.load = {.operation = Operation::kPut, .object_bytes = 4096, .depth = 64}},
      {.load = {.object_bytes = 4096, .depth = 8}, .connections = 8},
      {.load = {.object_bytes = 4096, .depth = 4, .batch = 32}},
  };
  for (Case& spec : cases) {
    spec.load.duration = duration;
    spec.device_directory = arguments.device_directory;
    spec.limit = bench::ChooseLimit(spec.load);
  }
  return cases;
}

void AddCommon(CLI::App& command, BenchArguments& arguments) {
  command.add_option("--seconds", arguments.seconds, "How long the load runs (default 5)");
  command.add_option("--device-directory", arguments.device_directory,
                     "A directory on the store's device, for the limits of the device (default: here)");
}

void AddLoadOptions(CLI::App& command, BenchArguments& arguments) {
  AddCommon(command, arguments);
  command.add_option("--size", arguments.size, "Object size (default 1MiB)");
  command.add_option("--depth", arguments.depth, "Requests in flight per thread (default 8)");
  command.add_option("--threads", arguments.threads, "Clients with a thread of their own (default 1)");
  command.add_option("--connections", arguments.connections, "Connections per client (default 1)");
  command.add_option("--objects", arguments.objects, "Distinct objects (default: chosen by size)");
}

}  // namespace

void AddBenchCommands(CLI::App& root, Invocation& invocation) {
  CLI::App* bench = root.add_subcommand("bench", "Load, latency, CPU, and the machine's own limit beside it");
  bench->require_subcommand(1);

  auto get = std::make_shared<BenchArguments>();
  CLI::App* get_command = bench->add_subcommand("get", "Gets of one size");
  AddLoadOptions(*get_command, *get);
  get_command->add_option("--batch", get->batch, "Objects of one request (default 1)");
  get_command->add_flag("--cold,!--hot", get->cold,
                        "Read each object once, from the device; --hot (the default): from the memory tier");
  get_command->callback([get, &invocation] {
    invocation.run = [get, &invocation] { return RunOne(Operation::kGet, *get, invocation); };
  });

  auto put = std::make_shared<BenchArguments>();
  CLI::App* put_command = bench->add_subcommand("put", "Durable puts of one size");
  AddLoadOptions(*put_command, *put);
  put_command->callback([put, &invocation] {
    invocation.run = [put, &invocation] { return RunOne(Operation::kPut, *put, invocation); };
  });

  auto all = std::make_shared<BenchArguments>();
  CLI::App* all_command = bench->add_subcommand("all", "The cases of docs/performance.md, one after another");
  AddCommon(*all_command, *all);
  all_command->callback([all, &invocation] {
    invocation.run = [all, &invocation] { return RunCases(AllCases(*all), invocation); };
  });

  AddFairnessBench(*bench, invocation);
  AddCryptoBench(*bench, invocation);
}

}  // namespace forebay::app
