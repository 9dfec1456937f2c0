// SPDX-License-Identifier: Apache-2.0
#include "rt/ring.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <string>
#include <system_error>

#include "base/check.h"

namespace forebay::rt {

namespace {

constexpr unsigned kMinCompletions = 4096;

// From the best to the least. A kernel that does not know a flag answers EINVAL. SINGLE_ISSUER with DEFER_TASKRUN (6.1):
// completions are worked on when this thread asks, not in the middle of whatever it does. COOP_TASKRUN (5.19): without
// interrupting it, at least.
constexpr std::array<unsigned, 3> kFlagSets = {
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_R_DISABLED |
        IORING_SETUP_SUBMIT_ALL,
    IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_SUBMIT_ALL,
    0,
};

// Waiting with a timeout (5.11), completions never dropped (5.5), multishot poll (5.13, which brought RSRC_TAGS too).
constexpr unsigned kNeeded = IORING_FEAT_EXT_ARG | IORING_FEAT_NODROP | IORING_FEAT_RSRC_TAGS;

std::string WhyForbidden() {
  std::ifstream file("/proc/sys/kernel/io_uring_disabled");
  std::string value;
  if (file >> value && value != "0") {
    return fmt::format("kernel.io_uring_disabled is {}: `sysctl kernel.io_uring_disabled=0` allows it", value);
  }
  return "a container's seccomp profile usually does that: allow io_uring_setup, io_uring_enter and io_uring_register in "
         "it (docker: --security-opt seccomp=PROFILE, or =unconfined to try)";
}

Status Refused(int error) {
  const std::string reason = std::generic_category().message(error);
  switch (error) {
    case EPERM:
    case EACCES:
      return Status::FailedPrecondition("io_uring is forbidden here (io_uring_setup: {}); {}", reason, WhyForbidden());
    case ENOSYS:
      return Status::FailedPrecondition("this kernel offers no io_uring (io_uring_setup: {}): Linux 5.13 or newer is needed, "
                                        "6.1 recommended; {}", reason, WhyForbidden());
    case ENOMEM:
      return Status::FailedPrecondition("no memory for an io_uring (io_uring_setup: {}): raise the memory limit, or memlock "
                                        "(`ulimit -l`), against which some kernels count it", reason);
    default:
      return Status::FailedPrecondition("cannot create an io_uring (io_uring_setup: {})", reason);
  }
}

// What io_uring_enter may answer in normal life. Anything else is a bug of ours, EEXIST above all: a second thread.
bool IsExpected(int result) {
  return result >= 0 || result == -ETIME || result == -EINTR || result == -EAGAIN || result == -EBUSY;
}

}  // namespace

Result<std::unique_ptr<Ring>> Ring::Create(unsigned entries) {
  if (entries == 0) return Status::InvalidArgument("a reactor needs at least one submission queue entry");
  auto ring = std::make_unique<Ring>();
  int result = -EINVAL;
  for (const unsigned flags : kFlagSets) {
    io_uring_params params{};
    params.flags = flags | IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE;
    params.cq_entries = std::max(kMinCompletions, entries > UINT32_MAX / 4 ? UINT32_MAX : entries * 4);
    result = io_uring_queue_init_params(entries, &ring->uring, &params);
    ring->disabled = (flags & IORING_SETUP_R_DISABLED) != 0;
    if (result != -EINVAL) break;
  }
  if (result < 0) {
    ring->uring.ring_fd = -1;
    return Refused(-result);
  }
  if ((ring->uring.features & kNeeded) != kNeeded) {
    return Status::FailedPrecondition("this kernel's io_uring is too old (features {:#x}): Linux 5.13 or newer is needed, 6.1 "
                                      "recommended", ring->uring.features);
  }
  return ring;
}

Ring::~Ring() {
  if (uring.ring_fd >= 0) io_uring_queue_exit(&uring);
}

void Ring::Enable() {
  // By system call: the library of liburing 2.3 does not export io_uring_enable_rings.
  if (disabled) FB_CHECK(syscall(__NR_io_uring_register, uring.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0) == 0);
  disabled = false;
}

io_uring_sqe* Ring::NextEntry() {
  io_uring_sqe* entry = io_uring_get_sqe(&uring);
  if (entry == nullptr) {
    ++kernel_entries;
    FB_CHECK(IsExpected(io_uring_submit(&uring)));
    entry = io_uring_get_sqe(&uring);
  }
  return entry;
}

void Ring::Enter() {
  ++kernel_entries;
  FB_CHECK(IsExpected(io_uring_submit_and_get_events(&uring)));
}

void Ring::EnterAndWait(std::optional<base::Duration> timeout) {
  ++kernel_entries;
  __kernel_timespec spec{};
  if (timeout) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(*timeout);
    spec.tv_sec = seconds.count();
    spec.tv_nsec = (*timeout - seconds).count();
  }
  io_uring_cqe* unused = nullptr;
  FB_CHECK(IsExpected(io_uring_submit_and_wait_timeout(&uring, &unused, 1, timeout ? &spec : nullptr, nullptr)));
}

}  // namespace forebay::rt
