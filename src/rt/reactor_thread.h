// SPDX-License-Identifier: Apache-2.0
// ReactorThread: a thread of its own that runs a reactor, for servers (pinned with Options::cpu) and for client libraries.
// The destructor stops the loop and joins. Whoever started coroutines on it closes their gates first, by RunOn.
// Thread-safe.
#pragma once

#include <memory>
#include <thread>
#include <utility>

#include "rt/call_on.h"
#include "rt/reactor.h"

namespace forebay::rt {

class ReactorThread {
 public:
  /// Starts the thread, named after the reactor. Fails as Reactor::Create does.
  static Result<std::unique_ptr<ReactorThread>> Create(Reactor::Options options);
  ~ReactorThread();
  ReactorThread(const ReactorThread&) = delete;
  ReactorThread& operator=(const ReactorThread&) = delete;

  Reactor& reactor() { return *reactor_; }

  /// See StartOn and RunOn.
  template <TaskFunction F>
  auto Submit(F function) {
    return StartOn(*reactor_, std::move(function));
  }
  template <TaskFunction F>
  auto Run(F function) {
    return RunOn(*reactor_, std::move(function));
  }

 private:
  explicit ReactorThread(std::unique_ptr<Reactor> reactor);

  std::unique_ptr<Reactor> reactor_;
  std::thread thread_;
};

}  // namespace forebay::rt
