// SPDX-License-Identifier: Apache-2.0
#include "bench/limits.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "bench/process_cpu.h"
#include "rt/call_on.h"
#include "rt/reactor.h"
#include "rt/reactor_thread.h"
#include "rt/tcp.h"
#include "rt/when_all.h"

namespace forebay::bench {
namespace {

using SteadyClock = std::chrono::steady_clock;

/// Times what lies between its construction and Stop.
class Stopwatch {
 public:
  Limit Stop(uint64_t operations, uint64_t bytes) const {
    const std::chrono::duration<double> passed = SteadyClock::now() - start_;
    return {passed.count(), operations, bytes, ProcessCpuSeconds() - cpu_};
  }

 private:
  SteadyClock::time_point start_ = SteadyClock::now();
  double cpu_ = ProcessCpuSeconds();
};

class FileDescriptor {
 public:
  explicit FileDescriptor(int fd) : fd_(fd) {}
  FileDescriptor(FileDescriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&&) = delete;
  ~FileDescriptor() {
    if (fd_ >= 0) close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

/// A connected pair of blocking TCP sockets over loopback.
Result<std::pair<FileDescriptor, FileDescriptor>> ConnectedPair() {
  const FileDescriptor listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (listener.get() < 0 || bind(listener.get(), raw, size) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), raw, &size) != 0)
    return Status::FromErrno(errno, "listen on loopback");
  FileDescriptor sender(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (sender.get() < 0 || connect(sender.get(), raw, size) != 0)
    return Status::FromErrno(errno, "connect over loopback");
  FileDescriptor receiver(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (receiver.get() < 0) return Status::FromErrno(errno, "accept over loopback");
  const int on = 1;
  setsockopt(sender.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return std::pair(std::move(sender), std::move(receiver));
}

/// Sends whole blocks until told to stop, then ends the stream.
void SendBlocks(int fd, const Bytes& block, const std::atomic<bool>& stop) {
  while (!stop.load(std::memory_order_relaxed)) {
    size_t sent = 0;
    while (sent < block.size()) {
      const ssize_t n = send(fd, block.data() + sent, block.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<size_t>(n);
    }
  }
  shutdown(fd, SHUT_WR);
}

rt::Task<Status> ServeEcho(rt::TcpStream stream, size_t request_bytes, size_t reply_bytes) {
  Bytes request(request_bytes);
  const Bytes reply(reply_bytes);
  for (;;) {
    if (!(co_await stream.ReadExactly(request)).ok()) co_return Status();  // the client is done
    FB_CO_TRY(co_await stream.WriteAll(reply));
  }
}

rt::Task<Result<uint64_t>> AskEcho(rt::Reactor& reactor, rt::TcpStream stream, size_t request_bytes,
                                   size_t reply_bytes, base::TimePoint until) {
  const Bytes request(request_bytes);
  Bytes reply(reply_bytes);
  uint64_t rounds = 0;
  while (reactor.Now() < until) {
    FB_CO_TRY(co_await stream.WriteAll(request));
    FB_CO_TRY(co_await stream.ReadExactly(reply));
    ++rounds;
  }
  co_return rounds;
}

/// A scratch file written once over its whole length, so that reads meet real blocks; removed at the end.
class ScratchFile {
 public:
  static Result<ScratchFile> Create(const std::string& directory, uint64_t size_bytes) {
    std::string path = directory + "/.forebay-bench-XXXXXX";
    const int plain = mkstemp(path.data());
    if (plain < 0) return Status::FromErrno(errno, "create a scratch file in " + directory);
    ScratchFile file(path, size_bytes);
    const FileDescriptor writer(plain);
    base::SeededRandom random(1);
    Bytes block(base::kMiB);
    random.Fill(block);
    for (uint64_t at = 0; at < size_bytes; at += block.size()) {
      if (pwrite(writer.get(), block.data(), block.size(), static_cast<off_t>(at)) !=
          static_cast<ssize_t>(block.size()))
        return Status::FromErrno(errno, "write the scratch file " + path);
    }
    if (fsync(writer.get()) != 0) return Status::FromErrno(errno, "flush the scratch file " + path);
    posix_fadvise(writer.get(), 0, 0, POSIX_FADV_DONTNEED);
    return file;
  }
  ScratchFile(ScratchFile&& other) noexcept
      : path_(std::exchange(other.path_, {})), size_bytes_(other.size_bytes_) {}
  ScratchFile& operator=(ScratchFile&&) = delete;
  ~ScratchFile() {
    if (!path_.empty()) unlink(path_.c_str());
  }

  /// With O_DIRECT where the file system has it.
  Result<FileDescriptor> Open(int flags) const {
    int fd = open(path_.c_str(), flags | O_DIRECT | O_CLOEXEC);
    if (fd < 0 && errno == EINVAL) fd = open(path_.c_str(), flags | O_CLOEXEC);
    if (fd < 0) return Status::FromErrno(errno, "open the scratch file " + path_);
    return FileDescriptor(fd);
  }
  uint64_t size_bytes() const { return size_bytes_; }

 private:
  ScratchFile(std::string path, uint64_t size_bytes) : path_(std::move(path)), size_bytes_(size_bytes) {}
  std::string path_;
  uint64_t size_bytes_;
};

struct FreeDeleter {
  void operator()(void* memory) const { std::free(memory); }  // NOLINT: memory of aligned_alloc
};
using AlignedBlock = std::unique_ptr<std::byte, FreeDeleter>;

AlignedBlock MakeAligned(size_t size_bytes) {
  AlignedBlock block(static_cast<std::byte*>(std::aligned_alloc(4096, base::RoundUp(size_bytes, 4096))));
  std::memset(block.get(), 0x5a, size_bytes);
  return block;
}

rt::Task<Result<uint64_t>> ReadRandomly(rt::Reactor& reactor, int fd, size_t block_bytes, uint64_t blocks,
                                        uint64_t seed, base::TimePoint until) {
  const AlignedBlock block = MakeAligned(block_bytes);
  base::SeededRandom random(seed);
  uint64_t reads = 0;
  while (reactor.Now() < until) {
    const uint64_t offset = random.Below(blocks) * block_bytes;
    const int got = co_await reactor.Read(fd, block.get(), static_cast<uint32_t>(block_bytes), offset);
    if (got != static_cast<int>(block_bytes))
      co_return Status::FromErrno(got < 0 ? -got : EIO, "read the scratch file");
    ++reads;
  }
  co_return reads;
}

rt::Task<Status> WriteOnce(rt::Reactor& reactor, int fd, const std::byte* block, size_t block_bytes,
                           uint64_t offset) {
  const int put = co_await reactor.Write(fd, block, static_cast<uint32_t>(block_bytes), offset);
  if (put != static_cast<int>(block_bytes))
    co_return Status::FromErrno(put < 0 ? -put : EIO, "write the scratch file");
  co_return Status();
}

rt::Task<Result<uint64_t>> WriteRounds(rt::Reactor& reactor, int fd, size_t block_bytes, unsigned depth,
                                       uint64_t blocks, base::TimePoint until) {
  const AlignedBlock block = MakeAligned(block_bytes);
  uint64_t writes = 0;
  while (reactor.Now() < until) {
    std::vector<rt::Task<Status>> round;
    round.reserve(depth);
    for (unsigned i = 0; i < depth; ++i)
      round.push_back(WriteOnce(reactor, fd, block.get(), block_bytes, (writes + i) % blocks * block_bytes));
    for (const Status& status : co_await rt::WhenAll(std::move(round))) FB_CO_TRY(status);
    const int flushed = co_await reactor.Fsync(fd, true);
    if (flushed < 0) co_return Status::FromErrno(-flushed, "flush the scratch file");
    writes += depth;
  }
  co_return writes;
}

uint64_t ScratchSize(uint64_t wanted, size_t block_bytes, unsigned depth) {
  const uint64_t least = static_cast<uint64_t>(block_bytes) * depth;
  return base::RoundUp(std::max(wanted, least), base::kMiB);
}

}  // namespace

Result<Limit> MeasureStream(size_t block_bytes, std::chrono::milliseconds duration) {
  FB_ASSIGN(const auto pair, ConnectedPair());
  std::atomic<bool> stop = false;
  const Bytes block(block_bytes, std::byte{0x5a});
  Bytes target(block_bytes);
  const Stopwatch watch;
  std::thread sender([&] { SendBlocks(pair.first.get(), block, stop); });
  const auto until = SteadyClock::now() + duration;
  uint64_t bytes = 0;
  for (;;) {
    const ssize_t n = recv(pair.second.get(), target.data(), target.size(), MSG_WAITALL);
    if (n <= 0) break;
    bytes += static_cast<uint64_t>(n);
    if (SteadyClock::now() >= until) stop = true;
  }
  sender.join();
  return watch.Stop(bytes / block_bytes, bytes);
}

Result<Limit> MeasureCopy(size_t block_bytes, std::chrono::milliseconds duration) {
  constexpr size_t kBeyondCaches = 256 * base::kMiB;
  const size_t blocks = std::max<size_t>(1, kBeyondCaches / block_bytes);
  const std::vector<char> source(blocks * block_bytes, 's');
  std::vector<char> target(blocks * block_bytes, 't');  // touched: no page faults are measured
  const Stopwatch watch;
  const auto until = SteadyClock::now() + duration;
  uint64_t copies = 0;
  do {
    const size_t at = copies++ % blocks * block_bytes;
    std::memcpy(target.data() + at, source.data() + at, block_bytes);
  } while (SteadyClock::now() < until);
  return watch.Stop(copies, copies * block_bytes);
}

Result<Limit> MeasureEcho(size_t request_bytes, size_t reply_bytes, unsigned connections,
                          std::chrono::milliseconds duration) {
  FB_ASSIGN(const auto server, rt::ReactorThread::Create({.name = "echo-server"}));
  FB_ASSIGN(const auto client, rt::ReactorThread::Create({.name = "echo-client"}));
  std::vector<rt::TcpStream> server_ends;
  std::vector<rt::TcpStream> client_ends;
  for (unsigned i = 0; i < connections; ++i) {
    FB_ASSIGN(auto pair, ConnectedPair());
    // Adopt takes the descriptors over.
    FB_ASSIGN(rt::TcpStream near, rt::TcpStream::Adopt(client->reactor(), dup(pair.first.get())));
    FB_ASSIGN(rt::TcpStream far, rt::TcpStream::Adopt(server->reactor(), dup(pair.second.get())));
    client_ends.push_back(std::move(near));
    server_ends.push_back(std::move(far));
  }
  const Stopwatch watch;
  auto served = server->Submit([&server_ends, request_bytes, reply_bytes]() -> rt::Task<std::vector<Status>> {
    std::vector<rt::Task<Status>> tasks;
    tasks.reserve(server_ends.size());
    for (rt::TcpStream& stream : server_ends)
      tasks.push_back(ServeEcho(std::move(stream), request_bytes, reply_bytes));
    co_return co_await rt::WhenAll(std::move(tasks));
  });
  rt::Reactor& reactor = client->reactor();
  const auto asked = client->Run([&]() -> rt::Task<std::vector<Result<uint64_t>>> {
    std::vector<rt::Task<Result<uint64_t>>> tasks;
    const base::TimePoint until = reactor.Now() + duration;
    tasks.reserve(client_ends.size());
    for (rt::TcpStream& stream : client_ends)
      tasks.push_back(AskEcho(reactor, std::move(stream), request_bytes, reply_bytes, until));
    co_return co_await rt::WhenAll(std::move(tasks));
  });
  uint64_t rounds = 0;
  for (const Result<uint64_t>& result : asked) rounds += result.value_or(0);
  const Limit limit = watch.Stop(rounds, rounds * (request_bytes + reply_bytes));
  served.wait();
  for (const Result<uint64_t>& result : asked) FB_TRY(result.status());
  return limit;
}

Result<Limit> MeasureDeviceRead(const std::string& directory, size_t block_bytes, unsigned depth,
                                uint64_t file_bytes, std::chrono::milliseconds duration) {
  FB_ASSIGN(const ScratchFile file,
            ScratchFile::Create(directory, ScratchSize(file_bytes, block_bytes, depth)));
  FB_ASSIGN(const FileDescriptor fd, file.Open(O_RDONLY));
  FB_ASSIGN(const auto reactor, rt::Reactor::Create({.name = "device-read"}));
  const uint64_t blocks = file.size_bytes() / block_bytes;
  const Stopwatch watch;
  const auto results = reactor->BlockOn([&]() -> rt::Task<std::vector<Result<uint64_t>>> {
    std::vector<rt::Task<Result<uint64_t>>> tasks;
    const base::TimePoint until = reactor->Now() + duration;
    tasks.reserve(depth);
    for (unsigned i = 0; i < depth; ++i)
      tasks.push_back(ReadRandomly(*reactor, fd.get(), block_bytes, blocks, i + 1, until));
    co_return co_await rt::WhenAll(std::move(tasks));
  });
  uint64_t reads = 0;
  for (const Result<uint64_t>& result : results) {
    FB_TRY(result.status());
    reads += *result;
  }
  return watch.Stop(reads, reads * block_bytes);
}

Result<Limit> MeasureFlushedWrite(const std::string& directory, size_t block_bytes, unsigned depth,
                                  uint64_t file_bytes, std::chrono::milliseconds duration) {
  FB_ASSIGN(const ScratchFile file,
            ScratchFile::Create(directory, ScratchSize(file_bytes, block_bytes, depth)));
  FB_ASSIGN(const FileDescriptor fd, file.Open(O_WRONLY));
  FB_ASSIGN(const auto reactor, rt::Reactor::Create({.name = "device-write"}));
  const uint64_t blocks = file.size_bytes() / block_bytes;
  const Stopwatch watch;
  FB_ASSIGN(const uint64_t writes, reactor->BlockOn([&]() -> rt::Task<Result<uint64_t>> {
    co_return co_await WriteRounds(*reactor, fd.get(), block_bytes, depth, blocks, reactor->Now() + duration);
  }));
  return watch.Stop(writes, writes * block_bytes);
}

}  // namespace forebay::bench
