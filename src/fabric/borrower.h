// SPDX-License-Identifier: Apache-2.0
// Borrower: takes what a peer lends instead of sending it: the n-th loan of memory that is new is in the n-th
// descriptor that it passes, and may be kept for loans of the same memory. The bytes are read from there into the region that the loan was judged for, one
// loan after the other. The memory rule: a region is touched in turns of the reactor only, so whoever
// withdraws one has nothing to wait for. Reactor-local. Destroyed after Run has ended.
#pragma once

#include <cstdint>
#include <deque>

#include "base/bytes.h"
#include "base/status.h"
#include "fabric/byte_stream.h"
#include "fabric/kept_descriptors.h"
#include "fabric/region_table.h"
#include "rt/sync.h"

namespace forebay::fabric {

/// Told how each loan ended, in order.
class BorrowSink {
 public:
  virtual ~BorrowSink() = default;
  /// `code` is a Refusal, or kTakenBack. `hurry`: the lender may have nothing to do until it is told.
  virtual Status OnBorrowed(uint64_t id, uint64_t length, uint16_t code, bool hurry) = 0;
};

/// A transfer whose payload is lent, as it was judged when it was announced.
struct Borrowed {
  uint64_t id = 0;
  uint64_t key = 0;  // of the region
  uint64_t length = 0;
  Refusal refusal = Refusal::kNone;
  MutableByteView memory;  // exactly where the bytes go; empty when it was refused
  uint16_t place = 0;      // where the descriptor is kept; 0: nowhere
  bool again = false;      // it is there already
};

class Borrower {
 public:
  /// Loans that a peer may have announced, or passed, and not been answered.
  static constexpr size_t kMaxLoans = ByteStream::kMaxDescriptors;

  /// `stream` and `sink` are borrowed for the borrower's life. `kept` has the places of the loans to come.
  Borrower(rt::Reactor& reactor, ByteStream& stream, BorrowSink& sink, KeptDescriptors kept);

  /// Until `life` is cancelled: ok. An error of the stream, or what the peer did that no rightful peer does.
  rt::Task<Status> Run(rt::CancelToken& life);
  void Add(const Borrowed& loan);
  /// Nothing is read into region `key` any more. How many loans lost it.
  size_t Withdraw(uint64_t key);

  /// Nothing is kept any more. After Run has ended.
  void LetGo() { kept_ = KeptDescriptors(); }

  size_t size() const { return loans_.size(); }

 private:
  rt::Task<Result<uint16_t>> Take(Borrowed& loan, const rt::CancelToken& life);
  rt::Task<Result<uint16_t>> ReadFrom(int descriptor, Borrowed& loan, const rt::CancelToken& life);

  rt::Reactor& reactor_;
  ByteStream& stream_;
  BorrowSink& sink_;
  KeptDescriptors kept_;
  std::deque<Borrowed> loans_;  // the first one may be under way
  uint64_t waiting_bytes_ = 0;  // of loans_
  uint64_t ended_bytes_ = 0;    // since there was a hurry
  rt::Event added_;
};

}  // namespace forebay::fabric
