// SPDX-License-Identifier: Apache-2.0
#include "fabric/transfer_table.h"

#include <utility>

namespace forebay::fabric {

TransferTable::TransferTable(rt::Reactor& reactor, uint32_t limit, rt::CancelToken& life)
    : reactor_(reactor), limit_(limit), life_(life), slots_(reactor, limit) {}

rt::Task<Result<Transfer*>> TransferTable::Begin(Transfer::Kind kind, uint64_t offset, uint64_t length,
                                                 base::TimePoint deadline) {
  if (!co_await slots_.Acquire(1, {&life_, deadline})) {
    if (life_.cancelled()) co_return Status::Cancelled("the endpoint was fenced");
    co_return Status::DeadlineExceeded("the deadline passed before one of the {} transfers in flight had ended", limit_);
  }
  const uint64_t id = next_id_++;
  Transfer& transfer = transfers_.try_emplace(id, reactor_).first->second;
  transfer.id = id;
  transfer.kind = kind;
  transfer.offset = offset;
  transfer.length = length;
  ++unanswered_;
  co_return &transfer;
}

rt::Task<Status> TransferTable::Finish(Transfer* transfer, base::TimePoint deadline) {
  if (co_await transfer->done.Wait({nullptr, deadline}) || transfer->done.is_set()) {
    Status result = std::move(transfer->result);
    Erase(transfer);
    co_return result;
  }
  transfer->abandoned = true;
  co_return Status::DeadlineExceeded("the deadline passed before the peer answered a {} of {} bytes",
                                     transfer->kind == Transfer::Kind::kWrite ? "write" : "read", transfer->length);
}

Transfer* TransferTable::Find(uint64_t id) {
  const auto found = transfers_.find(id);
  // An entry that is done waits for its caller only; the peer has answered it.
  return found == transfers_.end() || found->second.done.is_set() ? nullptr : &found->second;
}

void TransferTable::Answer(Transfer* transfer, Status result) {
  --unanswered_;
  if (transfer->abandoned) {
    Erase(transfer);
    return;
  }
  transfer->result = std::move(result);
  transfer->done.Set();
}

void TransferTable::AnswerAll(const Status& result) {
  for (auto at = transfers_.begin(); at != transfers_.end();) {
    Transfer* transfer = &at->second;
    ++at;  // Answer may erase the entry
    if (!transfer->done.is_set()) Answer(transfer, result);
  }
}

void TransferTable::Erase(Transfer* transfer) {
  transfers_.erase(transfer->id);
  slots_.Release();
}

}  // namespace forebay::fabric
