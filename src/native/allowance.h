// SPDX-License-Identifier: Apache-2.0
// Allowance: what one connection's requests must have before they take memory: a turn among the transfers at once, the rates
// of its tenant and capability, and a place on the reactor. What it waits for in the first two it waits for in the order in
// which the requests came. Reactor-local. Lives until the connection's requests have ended.
#pragma once

#include <memory>
#include <utility>

#include "auth/rate_limits.h"
#include "native/admission.h"
#include "native/request.h"
#include "rt/sync.h"

namespace forebay::native {

class Allowance {
 public:
  class TransferPlace;

  /// Borrows `admission`.
  Allowance(rt::Reactor& reactor, Admission& admission, TenantId tenant, auth::RateAccounts accounts)
      : reactor_(reactor),
        flow_(admission.Join(tenant)),
        admission_(admission),
        accounts_(std::move(accounts)),
        turns_(reactor, 1),
        pace_(reactor, 1) {}

  /// For what the request does next: charges it, and gives a place for so many bytes of payload, which are at most the window.
  /// ResourceExhausted when a rate makes it wait for longer than the request may take; what Request::Stopped says when it is
  /// cancelled meanwhile; DeadlineExceeded when there is no place in time. Nothing stays charged when it fails.
  rt::Task<Result<Admission::Place>> Admit(Request& request, auth::RateCharge charge, size_t bytes);
  /// The same if nothing is to be waited for; else an empty place, and nothing is charged.
  Admission::Place TryAdmit(uint64_t operations, size_t bytes) {
    return accounts_.HasRates() ? Admission::Place() : admission_.TryEnter(*flow_, operations, bytes);
  }
  /// Charges what was moved before it was known how much it would be: whoever comes next waits for it.
  void Owe(uint64_t bytes);
  /// Takes back the charge of what was not moved.
  void Refund(uint64_t bytes);

  /// A turn among the transfers at once. Fails as Admit does.
  rt::Task<Result<TransferPlace>> BeginTransfer(Request& request);

  size_t chunk_bytes() const { return admission_.chunk_bytes(); }
  bool contended() const { return admission_.contended(); }

 private:
  rt::Task<Status> WaitForRates(Request& request, auth::RateCharge charge);

  rt::Reactor& reactor_;
  const std::shared_ptr<Admission::Flow> flow_;  // shared with the tenant's other connections
  Admission& admission_;                         // borrowed
  auth::RateAccounts accounts_;
  rt::Semaphore turns_;  // who waits for a transfer's turn
  rt::Semaphore pace_;   // who waits for the rates
};

/// A transfer that counts among those at once, until this is destroyed. Empty where there is no limit.
class [[nodiscard]] Allowance::TransferPlace {
 public:
  TransferPlace() = default;
  explicit TransferPlace(auth::RateAccounts& accounts) : accounts_(&accounts) {}
  TransferPlace(TransferPlace&& other) noexcept : accounts_(std::exchange(other.accounts_, nullptr)) {}
  TransferPlace& operator=(TransferPlace&& other) noexcept {
    std::swap(accounts_, other.accounts_);
    return *this;
  }
  ~TransferPlace() {
    if (accounts_ != nullptr) accounts_->EndTransfer();
  }

 private:
  auth::RateAccounts* accounts_ = nullptr;  // borrowed from the allowance
};

}  // namespace forebay::native
