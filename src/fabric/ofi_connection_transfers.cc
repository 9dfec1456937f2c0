// SPDX-License-Identifier: Apache-2.0
// Transfers of ours. A transfer that the peer's offers allow is given to the provider, in as many operations
// as its memory needs; one that they do not allow, or that names a region we have not heard of, is first
// asked for.
#include <algorithm>
#include <utility>

#include "fabric/limits.h"
#include "fabric/ofi_connection.h"
#include "fabric/ofi_limits.h"

namespace forebay::fabric {

rt::Task<Status> OfiConnection::Write(RegionToken remote, uint64_t offset, std::vector<base::Buffer> data,
                                      base::TimePoint deadline) {
  Job job;
  job.remote = remote;
  job.offset = offset;
  job.length = TotalSize(data);
  job.direction = Direction::kPeerWrites;
  job.data = std::move(data);
  co_return co_await Transmit(Transfer::Kind::kWrite, std::move(job), deadline);
}

rt::Task<Status> OfiConnection::Read(RegionToken remote, uint64_t offset, MutableByteView data,
                                     base::TimePoint deadline) {
  Job job;
  job.remote = remote;
  job.offset = offset;
  job.length = data.size();
  job.direction = Direction::kPeerReads;
  job.target = data;
  co_return co_await Transmit(Transfer::Kind::kRead, std::move(job), deadline);
}

rt::Task<Status> OfiConnection::Transmit(Transfer::Kind kind, Job job, base::TimePoint deadline) {
  FB_CO_TRY(state_);
  FB_CO_ASSIGN(const auto holder, gate_.Enter());
  FB_CO_TRY(CheckTransferSize(job.length, limits_));
  auto begun = co_await transfers_.Begin(kind, job.offset, job.length, deadline);
  if (!state_.ok()) co_return state_;
  FB_CO_ASSIGN(Transfer * transfer, std::move(begun));
  const uint64_t id = transfer->id;
  BeginJob(id, std::move(job));
  const Status status = co_await transfers_.Finish(transfer, deadline);
  if (status.code() == Code::kDeadlineExceeded) AfterDeadline(id);
  co_return status;
}

void OfiConnection::BeginJob(uint64_t id, Job given) {
  Job& job = jobs_.emplace(id, std::move(given)).first->second;
  const Refusal refusal =
      peer_regions_.Judge(job.remote.key, job.offset, job.length, job.direction, reactor_.Now());
  if (refusal == Refusal::kNone) {
    StartJob(id, job);
    Kick(true);
    return;
  }
  job.asked = true;
  PushControl({.type = OfiFrameType::kAsk,
               .direction = static_cast<uint8_t>(job.direction),
               .id = id,
               .key = job.remote.key,
               .offset = job.offset,
               .length = job.length},
              true);
}

// Nobody waits for the transfer any more. A write goes on with what was posted, from buffers that the job
// keeps.
void OfiConnection::AfterDeadline(uint64_t id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  Job& job = found->second;
  if (job.failure.ok()) job.failure = Status::DeadlineExceeded("the deadline passed");
  if (job.direction == Direction::kPeerReads && job.under_way != 0) {
    Break(Status::Unavailable(
        "a read from {} was not answered by its deadline: no other way keeps its target unchanged", peer_));
    return;
  }
  FinishJobIfDone(id);
}

void OfiConnection::StartJob(uint64_t id, Job& job) {
  if (!job.failure.ok() || job.length == 0) {
    FinishJobIfDone(id);
    return;
  }
  ready_jobs_.push_back(id);
}

void OfiConnection::PumpJobs() {
  while (!ready_jobs_.empty() && state_.ok()) {
    const uint64_t id = ready_jobs_.front();
    const auto found = jobs_.find(id);
    if (found != jobs_.end() && !PostJob(id, found->second)) return;
    if (!state_.ok()) return;
    ready_jobs_.pop_front();
    FinishJobIfDone(id);
  }
}

bool OfiConnection::PostJob(uint64_t id, Job& job) {
  while (job.failure.ok() && job.posted < job.length) {
    const Refusal refusal =
        peer_regions_.Judge(job.remote.key, job.offset, job.length, job.direction, reactor_.Now());
    if (refusal != Refusal::kNone) {
      job.failure = RefusalStatus(refusal == Refusal::kUnknownKey ? Refusal::kWithdrawn : refusal, job.offset,
                                  job.length);
      return true;
    }
    if (posted_bytes_ >= kPostedBytes) return false;
    const std::optional<uint16_t> op = link_->TakeOp();
    if (!op.has_value()) return false;
    ops_[*op].job = id;
    if (Status status = PostPiece(job, *peer_regions_.Find(job.remote.key), *op); !status.ok()) {
      ops_[*op].registrations.clear();
      link_->ReturnOp(*op);
      if (status.code() == Code::kUnavailable) {
        OnLinkEnded(status);
        return true;
      }
      job.failure = std::move(status);
    }
  }
  return true;
}

Status OfiConnection::PostPiece(Job& job, OfiPeerRegion& region, uint16_t op) {
  OfiLink::Pieces pieces;
  FB_TRY(GatherPiece(job, pieces, ops_[op]));
  const OfiLink::Target remote{.address = region.base + job.offset + job.posted, .key = region.provider_key};
  const Status posted = job.direction == Direction::kPeerWrites ? link_->Write(op, pieces, remote)
                                                                : link_->Read(op, pieces, remote);
  if (!posted.ok()) return Status::Unavailable("{}", posted.message());
  ops_[op].bytes = pieces.bytes;
  posted_bytes_ += pieces.bytes;
  job.posted += pieces.bytes;
  ++job.under_way;
  ++region.under_way;
  return Status();
}

// The next memory of the job, as much as one operation takes.
Status OfiConnection::GatherPiece(Job& job, OfiLink::Pieces& pieces, OpState& op) {
  const auto add = [&](ByteView memory) -> Status {
    void* descriptor = nullptr;
    if (link_->traits().local_registration) {
      descriptor = link_->domain().DescriptorInArena(memory);
      if (descriptor == nullptr) {
        FB_ASSIGN(auto registration, link_->domain().RegisterForUs(memory));
        descriptor = DescriptorOf(registration);
        op.registrations.push_back(std::move(registration));
      }
    }
    pieces.Add(memory, descriptor);
    return Status();
  };
  if (job.direction == Direction::kPeerReads) {
    return add(job.target.subspan(job.posted, std::min<uint64_t>(job.length - job.posted, kOpBytes)));
  }
  while (pieces.count < link_->traits().pieces && job.buffer < job.data.size()) {
    const ByteView memory = job.data[job.buffer].view();
    if (pieces.count != 0 && pieces.bytes + memory.size() > kOpBytes) break;
    if (!memory.empty()) FB_TRY(add(memory));
    ++job.buffer;
  }
  return Status();
}

void OfiConnection::OnTransferred(uint16_t index, const Status& status) {
  OpState& op = ops_[index];
  const uint64_t id = op.job;
  op.registrations.clear();
  posted_bytes_ -= op.bytes;
  link_->ReturnOp(index);
  if (status.ok()) liveness_.Moved(reactor_.Now());
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  Job& job = found->second;
  --job.under_way;
  if (!status.ok() && job.failure.ok()) job.failure = status;
  if (OfiPeerRegion* region = peer_regions_.Find(job.remote.key); region != nullptr) {
    --region->under_way;
    LetGoIfIdle(job.remote.key);
  }
  FinishJobIfDone(id);
}

void OfiConnection::FinishJobIfDone(uint64_t id) {
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  Job& job = found->second;
  if (job.under_way != 0 || job.asked || (job.failure.ok() && job.posted < job.length)) return;
  if (job.failure.ok()) {
    const bool write = job.direction == Direction::kPeerWrites;
    ++(write ? stats_.writes : stats_.reads);
    (write ? stats_.bytes_written : stats_.bytes_read) += job.length;
    if (!link_->traits().device) stats_.copied_bytes += job.length;
  }
  const Status result = std::move(job.failure);
  jobs_.erase(found);
  if (Transfer* transfer = transfers_.Find(id); transfer != nullptr) transfers_.Answer(transfer, result);
}

void OfiConnection::LetGoIfIdle(uint64_t key) {
  const OfiPeerRegion* region = peer_regions_.Find(key);
  if (region == nullptr || !region->ending || region->under_way != 0) return;
  peer_regions_.Remove(key);
  PushControl({.type = OfiFrameType::kWithdrawn, .key = key}, false);
}

}  // namespace forebay::fabric
