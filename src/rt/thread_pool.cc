// SPDX-License-Identifier: Apache-2.0
#include "rt/thread_pool.h"

#include <pthread.h>

#include "base/check.h"

namespace forebay::rt {

namespace {

struct QueuedFunction : Runnable {
  explicit QueuedFunction(MoveOnlyFunction to_run) : Runnable(&Run), function(std::move(to_run)) {}
  MoveOnlyFunction function;

 private:
  static void Run(Runnable& item) {
    std::unique_ptr<QueuedFunction> self(static_cast<QueuedFunction*>(&item));
    self->function();
  }
};

}  // namespace

ThreadPool::ThreadPool(size_t threads, std::string name, size_t queue_limit)
    : name_(std::move(name)), queue_limit_(queue_limit) {
  FB_CHECK(threads > 0);
  for (size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { Work(); });
}

ThreadPool::~ThreadPool() {
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

Status ThreadPool::Submit(Runnable& item) {
  {
    base::MutexLock lock(mutex_);
    if (queued_ >= queue_limit_) {
      return Status::ResourceExhausted("the queue of thread pool `{}` is full ({} calls wait): try again later", name_,
                                       queued_);
    }
    queue_.Push(item);
    ++queued_;
  }
  changed_.NotifyOne();
  return Status();
}

Status ThreadPool::Submit(MoveOnlyFunction function) {
  auto item = std::make_unique<QueuedFunction>(std::move(function));
  Status status = Submit(static_cast<Runnable&>(*item));
  if (status.ok()) [[maybe_unused]] auto* self = item.release();  // deletes itself when it has run
  return status;
}

void ThreadPool::Work() {
  constexpr size_t kShown = 15;  // the kernel's limit for thread names
  pthread_setname_np(pthread_self(), name_.substr(0, kShown).c_str());
  while (true) {
    Runnable* item = nullptr;
    {
      base::MutexLock lock(mutex_);
      while (queue_.empty() && !stopping_) changed_.Wait(mutex_);
      item = queue_.Pop();
      if (item == nullptr) return;
      --queued_;
    }
    item->run(*item);
  }
}

}  // namespace forebay::rt
