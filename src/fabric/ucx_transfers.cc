// SPDX-License-Identifier: Apache-2.0
// UcxConnection: one-sided transfers of ours. What this side knows to be allowed goes to the device at once;
// everything else is asked of the owner, whose answer is the refusal. So only a peer that lies ends the
// connection by a transfer.
#include <algorithm>
#include <chrono>

#include "fabric/limits.h"
#include "fabric/ucx_connection.h"

namespace forebay::fabric {

namespace {
/// How long the device has to end a read whose deadline passed, before the connection is closed under it.
constexpr base::Duration kLandingTime = std::chrono::milliseconds(500);
}  // namespace

rt::Task<Status> UcxConnection::Write(RegionToken remote, uint64_t offset, std::vector<base::Buffer> data,
                                      base::TimePoint deadline) {
  FB_CO_TRY(state_);
  FB_CO_ASSIGN(const auto holder, gate_.Enter());
  const uint64_t length = TotalSize(data);
  FB_CO_TRY(CheckTransferSize(length, limits_));
  FB_CO_ASSIGN(rt::Units room, co_await Room(length, deadline));
  auto begun = co_await transfers_.Begin(Transfer::Kind::kWrite, offset, length, deadline);
  if (!state_.ok()) co_return state_;
  FB_CO_ASSIGN(Transfer * transfer, std::move(begun));
  PeerRegions::Region* region = Usable(*transfer, remote.key);
  if (region == nullptr) {
    room = {};
    Ask(*transfer, remote.key);
    const Status answer = co_await transfers_.Finish(transfer, deadline);
    if (!answer.ok() || length == 0) co_return answer;
    // Allowed: the offer came with the answer, which it was sent before.
    FB_CO_ASSIGN(room, co_await Room(length, deadline));
    begun = co_await transfers_.Begin(Transfer::Kind::kWrite, offset, length, deadline);
    if (!state_.ok()) co_return state_;
    FB_CO_ASSIGN(transfer, std::move(begun));
    region = Usable(*transfer, remote.key);
    if (region == nullptr) co_return Untold(transfer);
  }
  LaunchWrite(*transfer, remote.key, *region, std::move(room), std::move(data));
  co_return co_await transfers_.Finish(transfer, deadline);
}

rt::Task<Status> UcxConnection::Read(RegionToken remote, uint64_t offset, MutableByteView data,
                                     base::TimePoint deadline) {
  FB_CO_TRY(state_);
  FB_CO_ASSIGN(const auto holder, gate_.Enter());
  FB_CO_TRY(CheckTransferSize(data.size(), limits_));
  FB_CO_ASSIGN(rt::Units room, co_await Room(data.size(), deadline));
  auto begun = co_await transfers_.Begin(Transfer::Kind::kRead, offset, data.size(), deadline);
  if (!state_.ok()) co_return state_;
  FB_CO_ASSIGN(Transfer * transfer, std::move(begun));
  PeerRegions::Region* region = Usable(*transfer, remote.key);
  if (region == nullptr) {
    room = {};
    Ask(*transfer, remote.key);
    const Status answer = co_await transfers_.Finish(transfer, deadline);
    if (!answer.ok() || data.empty()) co_return answer;
    FB_CO_ASSIGN(room, co_await Room(data.size(), deadline));
    begun = co_await transfers_.Begin(Transfer::Kind::kRead, offset, data.size(), deadline);
    if (!state_.ok()) co_return state_;
    FB_CO_ASSIGN(transfer, std::move(begun));
    region = Usable(*transfer, remote.key);
    if (region == nullptr) co_return Untold(transfer);
  }
  const uint64_t id = transfer->id;
  transfer->destination = data;
  LaunchRead(*transfer, remote.key, *region, std::move(room));
  const Status status = co_await transfers_.Finish(transfer, deadline);
  if (!status.ok()) co_await AwaitLanding(id);
  co_return status;
}

rt::Task<Result<rt::Units>> UcxConnection::Room(uint64_t length, base::TimePoint deadline) {
  const size_t bytes = std::min<uint64_t>(length, kUcxDeviceBytes);
  const bool acquired = co_await device_room_.Acquire(bytes, {&life_, deadline});
  rt::Units room;
  if (acquired) room = rt::Units(device_room_, bytes);
  FB_CO_TRY(state_);
  if (!acquired)
    co_return Status::DeadlineExceeded("the deadline passed before the device had moved what was before it");
  co_return room;
}

PeerRegions::Region* UcxConnection::Usable(const Transfer& transfer, uint64_t key) {
  if (transfer.length == 0) return nullptr;  // nothing for a device to do
  const auto wanted = transfer.kind == Transfer::Kind::kRead ? Direction::kPeerReads : Direction::kPeerWrites;
  return peer_regions_.Usable(key, transfer.offset, transfer.length, wanted, reactor_.Now());
}

Status UcxConnection::Untold(Transfer* transfer) {
  const uint64_t id = transfer->id;
  Status why = Status::PermissionDenied("the offer of the region has expired by this side's clock");
  transfer->abandoned = true;  // nobody waits for it
  transfers_.Answer(transfers_.Find(id), why);
  return why;
}

void UcxConnection::Ask(const Transfer& transfer, uint64_t key) {
  const auto wanted = transfer.kind == Transfer::Kind::kRead ? Direction::kPeerReads : Direction::kPeerWrites;
  Post({.type = UcxFrameType::kAsk,
        .code = static_cast<uint16_t>(wanted),
        .id = transfer.id,
        .key = key,
        .offset = transfer.offset,
        .count = transfer.length});
  Awaited();
}

UcxConnection::Flight& UcxConnection::Launch(const Transfer& transfer, uint64_t key,
                                             PeerRegions::Region& region, rt::Units room) {
  Flight& flight = flights_.try_emplace(transfer.id, *this, transfer.id, key).first->second;
  flight.room = std::move(room);
  flight.length = transfer.length;
  flight.read = transfer.kind == Transfer::Kind::kRead;
  ++region.flights;
  Awaited();
  return flight;
}

void UcxConnection::LaunchWrite(const Transfer& transfer, uint64_t key, PeerRegions::Region& region,
                                rt::Units room, std::vector<base::Buffer> data) {
  Flight& flight = Launch(transfer, key, region, std::move(room));
  flight.source = std::move(data);
  uint64_t at = region.base + transfer.offset;
  for (const base::Buffer& buffer : flight.source) {
    if (buffer.empty() || flight.status != UCS_OK) continue;
    ++flight.parts;
    const ucs_status_t started = channel_->Put(buffer.view(), at, region.key, flight);
    if (started != UCS_INPROGRESS) OnPart(flight, started);
    at += buffer.size();
  }
  if (flight.status == UCS_OK) {
    ++flight.parts;
    const ucs_status_t started = channel_->Flush(flight);
    if (started != UCS_INPROGRESS) OnPart(flight, started);
  }
  OnPart(flight, UCS_OK);
}

void UcxConnection::LaunchRead(const Transfer& transfer, uint64_t key, PeerRegions::Region& region,
                               rt::Units room) {
  Flight& flight = Launch(transfer, key, region, std::move(room));
  ++flight.parts;
  const ucs_status_t started =
      channel_->Get(transfer.destination, region.base + transfer.offset, region.key, flight);
  if (started != UCS_INPROGRESS) OnPart(flight, started);
  OnPart(flight, UCS_OK);
}

void UcxConnection::OnPart(Flight& flight, ucs_status_t result) {
  if (flight.status == UCS_OK) flight.status = result;
  if (--flight.parts != 0) return;
  OnLanded(flight);
  flights_.erase(flight.id);
  landed_.Set();
  landed_.Reset();
}

void UcxConnection::OnLanded(const Flight& flight) {
  if (!state_.ok()) return;  // everybody was told
  if (flight.status != UCS_OK) {
    // Its queue pair is in error: nothing goes over this connection any more.
    Break(Status::Unavailable("a transfer to {} failed: {}", peer_, UcxError(flight.status, "ucx").message()),
          false);
    return;
  }
  liveness_.Moved(reactor_.Now());
  if (peer_regions_.Land(flight.region)) GiveUp(flight.region);
  ++(flight.read ? stats_.reads : stats_.writes);
  (flight.read ? stats_.bytes_read : stats_.bytes_written) += flight.length;
  (flight.read ? tally_read_ : tally_written_) += flight.length;
  SendTally(false);
  Transfer* transfer = transfers_.Find(flight.id);
  if (transfer != nullptr) transfers_.Answer(transfer, Status());
}

rt::Task<void> UcxConnection::AwaitLanding(uint64_t id) {
  const base::TimePoint until = base::DeadlineAfter(reactor_.Now(), kLandingTime);
  while (flights_.contains(id)) {
    const bool landed = co_await landed_.Wait({nullptr, state_.ok() ? until : base::kNever});
    if (!landed && state_.ok() && flights_.contains(id)) {
      Break(
          Status::Unavailable("a read from {} did not end by its deadline: the connection was closed", peer_),
          false);
    }
  }
}

void UcxConnection::SendTally(bool at_once) {
  if ((tally_written_ | tally_read_) == 0 || (!at_once && !tally_sent_.is_set())) return;
  rt::Event* told = tally_sent_.is_set() ? &tally_sent_ : nullptr;
  if (told != nullptr) tally_sent_.Reset();
  channel_->Send({.type = UcxFrameType::kTally,
                  .offset = std::exchange(tally_written_, 0),
                  .count = std::exchange(tally_read_, 0)},
                 {}, {}, told);
}

}  // namespace forebay::fabric
