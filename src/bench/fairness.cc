// SPDX-License-Identifier: Apache-2.0
#include "bench/fairness.h"

#include <sched.h>

#include <atomic>
#include <thread>
#include <utility>

namespace forebay::bench {
namespace {

double P99(const LoadReport& load) { return static_cast<double>(load.latency.Percentile(99)); }

/// A load on a thread of its own, until it is told to stop.
class Running {
 public:
  /// `yields`: its threads, and those of its clients, run only on processors that nobody else wants.
  Running(LoadSpec spec, Connector connect, bool yields) {
    spec.watch = &watch_;
    thread_ = std::jthread([this, spec, connect = std::move(connect), yields] {
      const sched_param none{};
      if (yields) sched_setscheduler(0, SCHED_IDLE, &none);  // of this thread; those that it makes inherit it
      report_ = RunLoad(spec, connect);
      ended_ = true;
    });
  }
  /// Until it has begun, or failed.
  void WaitForBegin() const {
    while (!watch_.running && !ended_) Pause();
  }
  void WaitForEnd() const {
    while (!ended_ && watch_.running) Pause();
  }
  uint64_t operations() const { return watch_.operations; }
  std::expected<LoadReport, Error> Stop() {
    watch_.stop = true;
    thread_.join();
    return std::move(report_);
  }

 private:
  static void Pause() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

  LoadWatch watch_;
  std::atomic<bool> ended_ = false;
  std::expected<LoadReport, Error> report_;
  std::jthread thread_;
};

/// Both at once, for the modest one's duration. `greedy_rate` is what the greedy one did meanwhile.
std::expected<LoadReport, Error> RunBoth(const LoadSpec& greedy_load, const Connector& greedy, const LoadSpec& modest_load,
                                         const Connector& modest, bool greedy_yields, double* greedy_rate) {
  Running greedy_run(greedy_load, greedy, greedy_yields);
  greedy_run.WaitForBegin();
  Running modest_run(modest_load, modest, false);
  modest_run.WaitForBegin();
  const auto begin = std::chrono::steady_clock::now();
  const uint64_t before = greedy_run.operations();
  modest_run.WaitForEnd();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  *greedy_rate = static_cast<double>(greedy_run.operations() - before) / seconds.count();
  auto report = modest_run.Stop();
  if (auto other = greedy_run.Stop(); !other) return std::unexpected(other.error());
  return report;
}

}  // namespace

double FairnessReport::share() const {
  const double all = modest.operations_per_second() + greedy_operations_per_second;
  return all > 0 ? modest.operations_per_second() / all : 0;
}

double FairnessReport::p99_ratio() const { return P99(modest_alone) > 0 ? P99(modest) / P99(modest_alone) : 0; }

std::expected<FairnessReport, Error> RunFairness(const FairnessSpec& spec, const TenantConnector& greedy,
                                                 const TenantConnector& modest) {
  const auto connect_greedy = [&] { return greedy(spec.greedy_connections); };
  const auto connect_modest = [&] { return modest(spec.modest_connections); };
  const LoadSpec takes{
      .object_bytes = spec.object_bytes, .depth = spec.greedy_depth, .duration = std::chrono::hours(24)};
  LoadSpec asks{.object_bytes = spec.object_bytes, .depth = spec.modest_depth, .duration = spec.duration};
  FairnessReport report;
  double greedy_rate = 0;
  const auto most = RunBoth(takes, connect_greedy, asks, connect_modest, spec.greedy_yields, &greedy_rate);
  if (!most) return std::unexpected(most.error());
  report.both_operations_per_second = most->operations_per_second() + greedy_rate;

  asks.requests_per_second = spec.asks_for * report.both_operations_per_second;
  auto alone = RunLoad(asks, connect_modest);
  if (!alone) return std::unexpected(alone.error());
  report.modest_alone = *std::move(alone);
  auto beside = RunBoth(takes, connect_greedy, asks, connect_modest, spec.greedy_yields, &report.greedy_operations_per_second);
  if (!beside) return std::unexpected(beside.error());
  report.modest = *std::move(beside);
  return report;
}

}  // namespace forebay::bench
