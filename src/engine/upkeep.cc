// SPDX-License-Identifier: Apache-2.0
#include "engine/upkeep.h"

#include <pthread.h>

#include <memory>
#include <system_error>
#include <utility>

namespace forebay::engine {

Upkeep::~Upkeep() {
  stopping_ = true;
  std::thread thread;
  {
    base::MutexLock lock(mutex_);
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

void Upkeep::Wake() {
  if (!engine_.NeedsResync() && !engine_.HasDevicesToEmpty()) return;
  base::MutexLock lock(mutex_);
  if (running_) {
    again_ = true;
    return;
  }
  if (thread_.joinable()) thread_.join();  // it has nothing left to do
  try {
    thread_ = std::thread([this] {
      ::pthread_setname_np(::pthread_self(), "fb-upkeep");
      Run();
    });
    running_ = true;
  } catch (const std::system_error& error) {
    log_.Error("no thread can be started to look after the devices ({}): restart the server", error.what());
  }
}

void Upkeep::RunOnce(rt::Reactor& reactor) {
  const auto stopped = [this] { return stopping_.load(); };
  const Status resynced = reactor.BlockOn(engine_.Resync(reactor, stopped, kBytesPerSecond));
  if (!resynced.ok() && resynced.code() != Code::kCancelled)
    log_.Error("a side of a mirror could not be brought up to date: {}", resynced.message());
  if (resynced.code() == Code::kAborted) {  // the other side did not answer: perhaps it does later
    reactor.BlockOn([](rt::Reactor& here, const std::atomic<bool>& stopping) -> rt::Task<void> {
      for (int i = 0; i < 100 && !stopping; ++i) co_await here.Sleep(std::chrono::milliseconds(100));
    }(reactor, stopping_));
    return;
  }
  // A mirror with one side is more urgent.
  const auto interrupted = [this] { return stopping_.load() || engine_.NeedsResync(); };
  reactor.BlockOn(engine_.EmptyDevices(reactor, interrupted, kBytesPerSecond));
}

void Upkeep::Run() {
  while (true) {
    const auto reactor = rt::Reactor::Create({.name = "fb-upkeep", .entries = 16});
    if (reactor.ok())
      RunOnce(**reactor);
    else
      log_.Error("the devices cannot be looked after: {}; restart the server", reactor.status().message());
    base::MutexLock lock(mutex_);
    if (stopping_ || !reactor.ok() || !(again_ || engine_.NeedsResync())) {
      running_ = false;
      return;
    }
    again_ = false;
  }
}

}  // namespace forebay::engine
