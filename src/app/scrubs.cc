// SPDX-License-Identifier: Apache-2.0
#include "app/scrubs.h"

#include <algorithm>
#include <utility>

namespace forebay::app {
namespace {

base::WallTime WallTimeOf(int64_t ns) { return base::WallTime(base::Duration(ns)); }

control::ScrubPhase PhaseOf(engine::ScrubPhase phase) {
  switch (phase) {
    case engine::ScrubPhase::kRunning:
      return control::ScrubPhase::kRunning;
    case engine::ScrubPhase::kStopped:
      return control::ScrubPhase::kStopped;
    case engine::ScrubPhase::kFinished:
      return control::ScrubPhase::kFinished;
    case engine::ScrubPhase::kFailed:
      return control::ScrubPhase::kFailed;
    case engine::ScrubPhase::kNever:
      break;
  }
  return control::ScrubPhase::kNever;
}

control::ScrubDamage DamageOf(const engine::DamagedBlock& block, const engine::Devices& devices) {
  control::ScrubDamage damage{.device = block.device < devices.size() ? devices.at(block.device).name() : std::string(),
                              .unit = block.unit,
                              .extent = block.extent,
                              .unreadable = block.unreadable,
                              .repaired = block.repaired};
  for (const engine::BlockOwner& owner : block.owners)
    damage.owners.push_back({.name = owner.name, .offset = owner.offset});
  return damage;
}

}  // namespace

Result<std::unique_ptr<Scrubs>> Scrubs::Open(engine::Engine& engine, const base::Clock& clock, base::Log& log,
                                             const ScrubSchedule& schedule) {
  std::unique_ptr<Scrubs> scrubs(new Scrubs(engine, clock, schedule));
  Result<engine::ScrubState> state = engine::Scrubber::Load(engine.OpenForScrub().meta);
  if (!state.ok() && state.status().code() != Code::kDataLoss) return state.status();
  if (!state.ok()) log.Warning("how far the last scrub was is not known: {}", state.status().message());
  {
    base::MutexLock lock(scrubs->mutex_);
    scrubs->state_ = std::move(state).value_or(engine::ScrubState{});
    scrubs->wanted_ = scrubs->state_.phase == engine::ScrubPhase::kRunning;
    scrubs->rate_ = scrubs->state_.bytes_per_second;
  }
  FB_ASSIGN(scrubs->thread_, rt::ReactorThread::Create({.name = "fb-scrub", .entries = 64, .clock = &clock}));
  rt::Reactor& reactor = scrubs->thread_->reactor();
  scrubs->wake_ = std::make_unique<rt::Event>(reactor);
  scrubs->served_ = rt::StartOn(reactor, [&self = *scrubs] { return self.Serve(); });
  return scrubs;
}

Status Scrubs::Start(uint64_t bytes_per_second, bool anew) {
  {
    base::MutexLock lock(mutex_);
    if (closing_) return Status::Unavailable("the server is stopping");
    if (wanted_)
      return Status::FailedPrecondition("a scrub is running: see forebay scrub status, or stop it first");
    wanted_ = true;
    rate_ = bytes_per_second;
    begin_anew_ = anew || state_.phase != engine::ScrubPhase::kStopped;
    state_.phase = engine::ScrubPhase::kRunning;
  }
  Wake();
  return {};
}

Status Scrubs::Stop() {
  {
    base::MutexLock lock(mutex_);
    if (std::exchange(wanted_, false)) state_.phase = engine::ScrubPhase::kStopped;  // what runs notices soon
  }
  Wake();
  return {};
}

void Scrubs::Close() {
  {
    base::MutexLock lock(mutex_);
    closing_ = true;
  }
  if (thread_ == nullptr || !served_.valid()) return;
  Wake();
  served_.get();
}

void Scrubs::Wake() {
  thread_->reactor().Post([this] { wake_->Set(); });
}

rt::Task<void> Scrubs::Serve() {
  rt::Reactor& reactor = thread_->reactor();
  while (true) {
    wake_->Reset();
    if (std::optional<engine::ScrubState> pass = TakePass()) {
      engine::Scrubber scrubber(reactor, engine_.OpenForScrub(),
                                [this](const engine::ScrubState& state) { return Watch(state); });
      co_await scrubber.Run(*pass);
      base::MutexLock lock(mutex_);
      // Whoever asked for another one while this ended gets it.
      if (begin_anew_ || pass->phase == engine::ScrubPhase::kRunning) continue;
      if (pass->phase != engine::ScrubPhase::kStopped) wanted_ = false;
      state_ = *std::move(pass);
      if (wanted_) state_.phase = engine::ScrubPhase::kRunning;
      continue;
    }
    base::TimePoint due;
    {
      base::MutexLock lock(mutex_);
      if (closing_) co_return;
      due = Due();
    }
    (void)co_await wake_->Wait({.deadline = due});
  }
}

std::optional<engine::ScrubState> Scrubs::TakePass() {
  base::MutexLock lock(mutex_);
  if (closing_) return std::nullopt;
  if (!wanted_ && Due() <= clock_.Now()) {
    wanted_ = true;
    begin_anew_ = true;
    rate_ = schedule_.bytes_per_second;
  }
  if (!wanted_) return std::nullopt;
  if (std::exchange(begin_anew_, false)) state_ = engine::Scrubber::NewPass(rate_, clock_);
  state_.bytes_per_second = rate_;
  return state_;
}

base::TimePoint Scrubs::Due() const {
  if (!schedule_.every) return base::kNever;
  if (state_.phase == engine::ScrubPhase::kNever) return clock_.Now();
  // By the wall clock, which goes on while the server does not; where that jumps, never later than one whole time.
  const base::Duration passed = clock_.WallNow() - WallTimeOf(state_.started_ns);
  const base::Duration left = passed < base::Duration::zero() ? *schedule_.every : *schedule_.every - passed;
  return base::DeadlineAfter(clock_.Now(), left);
}

engine::ScrubOrder Scrubs::Watch(const engine::ScrubState& state) {
  base::MutexLock lock(mutex_);
  if (!wanted_) return engine::ScrubOrder::kStop;  // also when the server stops before this was noticed
  if (closing_) return engine::ScrubOrder::kLeave;
  if (begin_anew_ || state.bytes_per_second != rate_) return engine::ScrubOrder::kStop;
  state_ = state;
  return engine::ScrubOrder::kGoOn;
}

Result<control::ScrubReport> Scrubs::Get() {
  base::MutexLock lock(mutex_);
  control::ScrubReport report{.phase = PhaseOf(state_.phase),
                              .started = WallTimeOf(state_.started_ns),
                              .ended = WallTimeOf(state_.ended_ns),
                              .bytes_per_second = state_.bytes_per_second,
                              .total_bytes = state_.total_bytes,
                              .passed_bytes = state_.passed_bytes,
                              .verified_bytes = state_.verified_bytes,
                              .damaged_blocks = state_.damaged_blocks,
                              .repaired_blocks = state_.repaired_blocks,
                              .damaged_rows = state_.damaged_rows,
                              .reason = state_.reason};
  if (closing_) return Status::Unavailable("the server is stopping");
  const engine::ScrubSource source = engine_.OpenForScrub();
  for (const engine::DamagedBlock& block : state_.damage) report.damage.push_back(DamageOf(block, source.devices));
  return report;
}

}  // namespace forebay::app
