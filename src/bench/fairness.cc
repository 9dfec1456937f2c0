// SPDX-License-Identifier: Apache-2.0
#include "bench/fairness.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "base/bytes.h"

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

/// Notes how late a thread wakes, until it is told to stop.
class WakeupProbe {
 public:
  WakeupProbe() {
    thread_ = std::jthread([this](const std::stop_token& stop) {
      constexpr std::chrono::milliseconds kPeriod(1);
      auto due = std::chrono::steady_clock::now() + kPeriod;
      while (!stop.stop_requested()) {
        std::this_thread::sleep_until(due);
        const auto now = std::chrono::steady_clock::now();
        for (; due <= now; due += kPeriod) lateness_.Add(static_cast<uint64_t>((now - due).count()));
      }
    });
  }
  Histogram Stop() {
    thread_.request_stop();
    thread_.join();
    return lateness_;
  }

 private:
  Histogram lateness_;
  std::jthread thread_;
};

std::expected<ModestRun, Error> RunAlone(const LoadSpec& load, const Connector& modest) {
  Running run(load, modest, false);
  run.WaitForBegin();
  WakeupProbe probe;
  run.WaitForEnd();
  Histogram lateness = probe.Stop();
  auto report = run.Stop();
  if (!report) return std::unexpected(report.error());
  return ModestRun{.modest = *std::move(report), .lateness = lateness};
}

/// Both at once, for the modest one's duration.
std::expected<ModestRun, Error> RunBoth(const LoadSpec& greedy_load, const Connector& greedy, const LoadSpec& modest_load,
                                        const Connector& modest, bool greedy_yields) {
  Running greedy_run(greedy_load, greedy, greedy_yields);
  greedy_run.WaitForBegin();
  Running modest_run(modest_load, modest, false);
  modest_run.WaitForBegin();
  WakeupProbe probe;
  const auto begin = std::chrono::steady_clock::now();
  const uint64_t before = greedy_run.operations();
  modest_run.WaitForEnd();
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  ModestRun run{.greedy_operations_per_second = static_cast<double>(greedy_run.operations() - before) / seconds.count(),
                .lateness = probe.Stop()};
  auto report = modest_run.Stop();
  if (auto other = greedy_run.Stop(); !other) return std::unexpected(other.error());
  if (!report) return std::unexpected(report.error());
  run.modest = *std::move(report);
  return run;
}

}  // namespace

double ModestRun::share() const {
  const double all = modest.operations_per_second() + greedy_operations_per_second;
  return all > 0 ? modest.operations_per_second() / all : 0;
}

double FairnessReport::p99_ratio() const {
  const double alone = P99(single_alone.modest);
  return alone > 0 ? P99(single_beside.modest) / alone : 0;
}

std::expected<FairnessReport, Error> RunFairness(const FairnessSpec& spec, const TenantConnector& greedy,
                                                 const TenantConnector& modest) {
  const auto connect_greedy = [&] { return greedy(spec.greedy_connections); };
  const auto connect_modest = [&] { return modest(spec.modest_connections); };
  const auto connect_single = [&] { return modest(1); };
  // Each load puts its own first, and there are eight loads.
  const uint64_t objects = std::clamp<uint64_t>(32 * base::kMiB / std::max<uint64_t>(spec.object_bytes, 1), 4, 128);
  const LoadSpec takes{.object_bytes = spec.object_bytes,
                       .depth = spec.greedy_depth,
                       .objects = objects,
                       .duration = std::chrono::hours(24)};
  LoadSpec asks{.object_bytes = spec.object_bytes,
                .depth = spec.modest_depth,
                .objects = objects,
                .duration = spec.duration};
  LoadSpec single = asks;
  single.depth = 1;
  FairnessReport report;
  const auto most = RunBoth(takes, connect_greedy, asks, connect_modest, spec.greedy_yields);
  if (!most) return std::unexpected(most.error());
  report.both_operations_per_second = most->modest.operations_per_second() + most->greedy_operations_per_second;
  asks.requests_per_second = spec.asks_for * report.both_operations_per_second;

  struct Pair {
    const LoadSpec& load;
    const Connector connect;
    ModestRun& alone;
    ModestRun& beside;
  };
  for (const Pair& pair : {Pair{single, connect_single, report.single_alone, report.single_beside},
                           Pair{asks, connect_modest, report.steady_alone, report.steady_beside}}) {
    auto alone = RunAlone(pair.load, pair.connect);
    if (!alone) return std::unexpected(alone.error());
    pair.alone = *std::move(alone);
    auto beside = RunBoth(takes, connect_greedy, pair.load, pair.connect, spec.greedy_yields);
    if (!beside) return std::unexpected(beside.error());
    pair.beside = *std::move(beside);
  }
  return report;
}

}  // namespace forebay::bench
