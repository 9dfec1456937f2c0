// SPDX-License-Identifier: Apache-2.0
#include "fabric/shm_memory.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include <fmt/format.h>

namespace forebay::fabric {

namespace {

// Linux 6.3; older kernels answer EINVAL.
constexpr unsigned kNoExecSeal = 0x0008U;

// Linux 6.1; older kernels answer EINVAL.
constexpr int kMadvCollapse = 25;

/// Shrinking would make the mapper fault. The write seal is the kernel's ground to refuse punched holes too,
/// and leaves the maker's mapping, which was there before it, as it is.
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

/// Of lent memory. Its maker can still shorten it: that is how it takes the pages back.
constexpr int kLentSeals = F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL;

int CreateMemoryFile(const char* name) {
  const int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExecSeal);
  if (fd >= 0 || errno != EINVAL) return fd;
  return memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

/// Huge pages have seals too, but may be missing when they are touched.
bool IsSmallPageMemory(int fd) {
  struct statfs system{};
  return fstatfs(fd, &system) == 0 && system.f_type == TMPFS_MAGIC;
}

}  // namespace

Result<ShmMapping> MapShm(int fd, size_t size, bool writable) {
  void* memory = mmap(nullptr, size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) {
    return Status::ResourceExhausted(
        "no room to map {} of shared memory; raise the memory limit, or have fewer "
        "connections",
        base::FormatSize(size));
  }
  madvise(memory, size, MADV_DONTFORK);  // only a hint of hygiene: a child has no use for it
  return ShmMapping({static_cast<std::byte*>(memory), size});
}

void ShmMapping::Unmap() {
  if (!memory_.empty()) munmap(memory_.data(), memory_.size());
  memory_ = {};
}

Result<ShmMemory> CreateShm(size_t size) {
  ShmMemory memory;
  memory.descriptor = Socket(CreateMemoryFile("forebay-shm"));
  const int fd = memory.descriptor.fd();
  if (fd < 0) return Status::FromErrno(errno, "memfd_create");
  if (ftruncate(fd, static_cast<off_t>(size)) != 0) return Status::FromErrno(errno, "size of shared memory");
  FB_ASSIGN(memory.mapping, MapShm(fd, size, true));
  if (fcntl(fd, F_ADD_SEALS, kSeals | F_SEAL_SEAL) != 0)
    return Status::FromErrno(errno, "seal shared memory");
  return memory;
}

Result<ShmMapping> MapPeerShm(int fd, size_t size) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || !IsSmallPageMemory(fd)) {
    return Status::InvalidArgument("the peer sent a descriptor that is no shared memory");
  }
  if ((seals & kSeals) != kSeals) {
    return Status::InvalidArgument("the peer sent shared memory without the seals {:#x} (it has {:#x})",
                                   kSeals, seals);
  }
  struct stat file{};
  if (fstat(fd, &file) != 0 || file.st_size != static_cast<off_t>(size)) {
    return Status::InvalidArgument("the peer sent shared memory of {} bytes and announced {}", file.st_size,
                                   size);
  }
  return MapShm(fd, size, false);
}

// ---- lent ----

Result<Socket> CreateLentMemory() {
  Socket memory(CreateMemoryFile("forebay-lent"));
  if (memory.fd() < 0) return Status::FromErrno(errno, "memfd_create");
  // Others who get a descriptor shall not make another one of it, which could shorten the memory.
  if (fchmod(memory.fd(), 0400) != 0) return Status::FromErrno(errno, "rights of lent memory");
  return memory;
}

bool PutLargePage(const Socket& memory, uint64_t at) {
  // The kernel turns small pages into a large one and takes holes for zeros, but wants to see one page at least.
  const std::byte zero{};
  if (pwrite(memory.fd(), &zero, sizeof(zero), static_cast<off_t>(at)) != sizeof(zero)) return false;
  constexpr size_t kReserved = 2 * kLargePageBytes;  // an aligned place is somewhere in it
  void* const reserved = mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return false;
  const uintptr_t start = base::RoundUp(reinterpret_cast<uintptr_t>(reserved), kLargePageBytes);
  void* const page = mmap(reinterpret_cast<void*>(start), kLargePageBytes, PROT_READ, MAP_SHARED | MAP_FIXED, memory.fd(),
                          static_cast<off_t>(at));
  const bool put = page != MAP_FAILED && madvise(page, kLargePageBytes, kMadvCollapse) == 0;
  munmap(reserved, kReserved);
  return put;
}

Result<Socket> SealLentMemory(const Socket& memory) {
  if (fcntl(memory.fd(), F_ADD_SEALS, kLentSeals) != 0) return Status::FromErrno(errno, "seal lent memory");
  const std::string path = fmt::format("/proc/self/fd/{}", memory.fd());
  Socket reading(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (reading.fd() < 0) return Status::FromErrno(errno, "open " + path);
  return reading;
}

Status CheckLentMemory(int fd) {
  const int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || !IsSmallPageMemory(fd))
    return Status::InvalidArgument("the peer lent a descriptor that is no shared memory");
  if ((seals & kLentSeals) != kLentSeals)
    return Status::InvalidArgument("the peer lent memory without the seals {:#x} (it has {:#x})", kLentSeals,
                                   seals);
  if ((fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY)
    return Status::InvalidArgument("the peer lent memory by a descriptor that is not for reading only");
  return Status();
}

}  // namespace forebay::fabric
