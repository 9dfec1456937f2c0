// SPDX-License-Identifier: Apache-2.0
#include "rt/sync.h"

namespace forebay::rt::internal {

bool Waiter::Over() const {
  return (options_.token != nullptr && options_.token->cancelled()) || options_.deadline <= reactor_.Now();
}

void Waiter::Suspend(WaitList& list, std::coroutine_handle<> awaiting) {
  waiter = awaiting;
  list.Append(*this);
  if (options_.token != nullptr) options_.token->Link(*this);
  if (options_.deadline != kNever) reactor_.timers().Arm(*this, options_.deadline);
}

void Waiter::GiveUp() {
  WaitList& list = *list_;
  list.Remove(*this);
  Unlink();
  reactor_.timers().Cancel(*this);
  reactor_.Ready(*this);
  if (list.gave_up_ != nullptr) list.gave_up_(list);
}

void WaitList::WakeFirst() {
  Waiter& waiter = *first_;
  Remove(waiter);
  waiter.woken_ = true;
  waiter.Unlink();
  waiter.reactor_.timers().Cancel(waiter);
  waiter.reactor_.Ready(waiter);
}

void WaitList::Append(Waiter& waiter) {
  waiter.list_ = this;
  waiter.before_ = last_;
  waiter.after_ = nullptr;
  (last_ != nullptr ? last_->after_ : first_) = &waiter;
  last_ = &waiter;
}

void WaitList::Remove(Waiter& waiter) {
  (waiter.before_ != nullptr ? waiter.before_->after_ : first_) = waiter.after_;
  (waiter.after_ != nullptr ? waiter.after_->before_ : last_) = waiter.before_;
  waiter.list_ = nullptr;
}

}  // namespace forebay::rt::internal
