// SPDX-License-Identifier: Apache-2.0
#include "fabric/borrower.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "fabric/shm_memory.h"
#include "fabric/tcp_frames.h"

namespace forebay::fabric {

Borrower::Borrower(rt::Reactor& reactor, ByteStream& stream, BorrowSink& sink, KeptDescriptors kept)
    : reactor_(reactor), stream_(stream), sink_(sink), kept_(std::move(kept)), added_(reactor) {}

void Borrower::Add(const Borrowed& loan) {
  loans_.push_back(loan);
  waiting_bytes_ += loan.length;
  added_.Set();
}

size_t Borrower::Withdraw(uint64_t key) {
  size_t lost = 0;
  for (Borrowed& loan : loans_) {
    if (loan.key != key || loan.refusal != Refusal::kNone) continue;
    loan.refusal = Refusal::kWithdrawn;
    loan.memory = {};
    ++lost;
  }
  return lost;
}

rt::Task<Status> Borrower::Run(rt::CancelToken& life) {
  while (!life.cancelled()) {
    if (loans_.empty()) {
      added_.Reset();
      co_await added_.Wait({&life});
      continue;
    }
    FB_CO_ASSIGN(const uint16_t code, co_await Take(loans_.front(), life));
    if (life.cancelled()) break;
    const Borrowed loan = loans_.front();
    loans_.pop_front();
    waiting_bytes_ -= loan.length;
    ended_bytes_ += loan.length;
    // Waking the lender costs both sides more than all else about a loan but its bytes. It need not be told before
    // half of what it lent is read: the other half keeps us busy until it has lent more.
    const bool hurry = ended_bytes_ >= waiting_bytes_;
    if (hurry) ended_bytes_ = 0;
    FB_CO_TRY(sink_.OnBorrowed(loan.id, loan.length, code, hurry));
  }
  co_return Status();
}

/// The descriptor is taken also when there is nothing to do with it, so that the next loan finds its own.
rt::Task<Result<uint16_t>> Borrower::Take(Borrowed& loan, const rt::CancelToken& life) {
  if (loan.again) {
    if (kept_.At(loan.place) < 0)
      co_return Status::InvalidArgument("the peer lent again what is in place {}, where it put nothing", loan.place);
    co_return co_await ReadFrom(kept_.At(loan.place), loan, life);
  }
  FB_CO_ASSIGN(Socket lent, co_await stream_.ReceiveDescriptor());
  FB_CO_TRY(CheckLentMemory(lent.fd()));
  if (loan.place == 0) co_return co_await ReadFrom(lent.fd(), loan, life);
  kept_.Put(loan.place, std::move(lent));
  co_return co_await ReadFrom(kept_.At(loan.place), loan, life);
}

rt::Task<Result<uint16_t>> Borrower::ReadFrom(int descriptor, Borrowed& loan, const rt::CancelToken& life) {
  for (uint64_t done = 0; done < loan.length && loan.refusal == Refusal::kNone;) {
    const size_t step = std::min<uint64_t>(loan.length - done, ByteStream::kTurnBytes);
    const ssize_t got = pread(descriptor, loan.memory.data() + done, step, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) co_return kTakenBack;
    done += static_cast<uint64_t>(got);
    if (done == loan.length) break;
    co_await reactor_.Yield();
    if (life.cancelled()) break;
  }
  // What was taken back while it was read may have been read as zeros; its size went first.
  struct stat info{};
  if (loan.refusal == Refusal::kNone &&
      (fstat(descriptor, &info) != 0 || static_cast<uint64_t>(info.st_size) < loan.length))
    co_return kTakenBack;
  co_return static_cast<uint16_t>(loan.refusal);
}

}  // namespace forebay::fabric
