// SPDX-License-Identifier: Apache-2.0
#include "rt/reactor_thread.h"

#include <pthread.h>

#include <string>

namespace forebay::rt {

Result<std::unique_ptr<ReactorThread>> ReactorThread::Create(Reactor::Options options) {
  FB_ASSIGN(auto reactor, Reactor::Create(std::move(options)));
  return std::unique_ptr<ReactorThread>(new ReactorThread(std::move(reactor)));
}

ReactorThread::ReactorThread(std::unique_ptr<Reactor> reactor)
    : reactor_(std::move(reactor)), thread_([this] {
        constexpr size_t kShown = 15;  // the kernel's limit for thread names
        pthread_setname_np(pthread_self(), reactor_->name().substr(0, kShown).c_str());
        reactor_->Run();
      }) {}

ReactorThread::~ReactorThread() {
  reactor_->Stop();
  thread_.join();
}

}  // namespace forebay::rt
