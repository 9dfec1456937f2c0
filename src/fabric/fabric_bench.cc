// SPDX-License-Identifier: Apache-2.0
// How near the fabrics come to the machine: each case of `tcp` runs beside bare sockets, each of `shm` beside memcpy, in
// turns, in the same process (two threads). For people: `fabric_bench [seconds per case]`.
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "base/arena.h"
#include "base/check.h"
#include "base/random.h"
#include "fabric/shm_fabric.h"
#include "fabric/tcp_fabric.h"
#include "rt/reactor_thread.h"
#include "rt/tcp.h"
#include "rt/when_all.h"

namespace forebay::fabric {
namespace {

using SteadyClock = std::chrono::steady_clock;
constexpr size_t kBlock = base::kMiB;
constexpr size_t kMessage = 4096;
constexpr int kDepth = 8;

/// What a case did: units (GB or thousands of round trips) per second, and processor time per unit of both sides together.
/// On a busy machine the second tells more.
struct Measured {
  double per_second = 0;
  double cpu_seconds_per_unit = 0;
  double initiator_cpu_seconds_per_unit = 0;  ///< of the side that a server is
};

class Meter {
 public:
  double seconds() const { return std::chrono::duration<double>(SteadyClock::now() - start_).count(); }
  Measured Result(double units) const {
    return {units / seconds(), static_cast<double>(std::clock() - cpu_start_) / CLOCKS_PER_SEC / units};
  }

 private:
  const SteadyClock::time_point start_ = SteadyClock::now();
  const std::clock_t cpu_start_ = std::clock();
};

template <typename T>
T Must(Result<T> result) {
  if (!result.ok()) {
    std::fputs((result.status().ToString() + "\n").c_str(), stderr);
    std::exit(1);
  }
  return *std::move(result);
}
void Must(const Status& status) {
  if (!status.ok()) {
    std::fputs((status.ToString() + "\n").c_str(), stderr);
    std::exit(1);
  }
}

std::unique_ptr<rt::ReactorThread> Thread(std::string name) {
  rt::ReactorOptions options;
  options.name = std::move(name);
  return Must(rt::ReactorThread::Create(std::move(options)));
}

/// Two blocking threads on a loopback connection, one writing 1 MiB blocks, one reading them: the limit. GB/s.
Measured RawStream(double seconds) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  FB_CHECK(bind(listener, reinterpret_cast<sockaddr*>(&address), size) == 0 && listen(listener, 1) == 0);
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  std::thread writer([&] {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    FB_CHECK(connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0);
    std::vector<char> block(kBlock * kDepth, 'x');
    size_t at = 0;
    while (send(fd, block.data() + at, kBlock, MSG_NOSIGNAL) > 0) at = (at + kBlock) % block.size();
    close(fd);
  });
  const int fd = accept(listener, nullptr, nullptr);
  std::vector<char> block(kBlock * kDepth);
  uint64_t bytes = 0;
  const Meter meter;
  while (meter.seconds() < seconds) {
    const ssize_t got = recv(fd, block.data() + bytes % (block.size() - kBlock), kBlock, MSG_WAITALL);
    FB_CHECK(got > 0);
    bytes += static_cast<uint64_t>(got);
  }
  const Measured rate = meter.Result(static_cast<double>(bytes) / 1e9);
  close(fd);
  writer.join();
  close(listener);
  return rate;
}

/// One thread that copies 2 MiB that are in use, over and over: the limit of shared memory. GB/s.
Measured Memcpy(double seconds) {
  Bytes from(2 * kBlock, std::byte{1}), to(2 * kBlock);
  uint64_t bytes = 0;
  const Meter meter;
  while (meter.seconds() < seconds) {
    for (size_t at = 0; at < from.size(); at += kBlock) {
      std::memcpy(to.data() + at, from.data() + at, kBlock);
      asm volatile("" : : "r"(to.data()) : "memory");  // somebody wants it
      bytes += kBlock;
    }
  }
  return meter.Result(static_cast<double>(bytes) / 1e9);
}

/// What a case runs over.
struct Mover {
  const char* address;
  std::unique_ptr<Fabric> (*make)(base::Random& random);
};
constexpr Mover kTcp{"127.0.0.1:0",
                     [](base::Random& random) -> std::unique_ptr<Fabric> { return std::make_unique<TcpFabric>(random); }};
constexpr Mover kShm{"@", [](base::Random& random) -> std::unique_ptr<Fabric> { return std::make_unique<ShmFabric>(random); }};

double ThreadSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

/// A connected pair on two reactors.
struct Pair {
  base::SecureRandom random;
  std::unique_ptr<Fabric> fabric;
  std::unique_ptr<rt::ReactorThread> a_thread = Thread("initiator");
  std::unique_ptr<rt::ReactorThread> b_thread = Thread("owner");
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Endpoint> a, b;

  explicit Pair(const Mover& mover) : fabric(mover.make(random)) {
    b_thread->Run([&]() -> rt::Task<void> {
      listener = Must(fabric->Listen(b_thread->reactor(), mover.address, {}));
      co_return;
    });
    a = Must(a_thread->Run(
        [&] { return fabric->Connect(a_thread->reactor(), listener->address(), {}, base::kNever); }));
    b = Must(b_thread->Run([&] { return listener->Accept(b_thread->reactor()); }));
  }
  ~Pair() {
    a_thread->Run([&]() -> rt::Task<void> {
      co_await a->Fence(Status());
      a.reset();
    });
    b_thread->Run([&]() -> rt::Task<void> {
      co_await b->Fence(Status());
      b.reset();
      co_await listener->Close();
      listener.reset();
    });
  }
};

enum class Way { kWrite, kRead };

/// One-sided transfers of 1 MiB, `depth` (at most kDepth) in flight. GB/s.
Measured OneSided(const Mover& mover, Way way, size_t depth, double seconds) {
  Pair pair(mover);
  auto arena = Must(base::Arena::Create(2 * kDepth * kBlock));
  Bytes target(kBlock * kDepth), source(kBlock * kDepth);
  const auto token = pair.b_thread->Run([&]() -> rt::Task<RegionToken> {
    co_return Must(pair.b->Offer(target, way == Way::kWrite ? Direction::kPeerWrites : Direction::kPeerReads,
                                 base::kNever));
  });
  std::vector<base::Buffer> buffers;
  buffers.reserve(kDepth);
  for (int i = 0; i < kDepth; ++i) buffers.push_back(Must(arena->Allocate(kBlock)));
  uint64_t bytes = 0;
  double initiator_cpu = 0;
  const Meter meter;
  pair.a_thread->Run([&]() -> rt::Task<void> {
    const double start = ThreadSeconds();
    const auto worker = [&](size_t i) -> rt::Task<void> {
      while (meter.seconds() < seconds) {
        if (way == Way::kWrite) {
          Must(co_await pair.a->Write(token, i * kBlock, {buffers[i]}, base::kNever));
        } else {
          Must(co_await pair.a->Read(token, i * kBlock, MutableByteView(source).subspan(i * kBlock, kBlock), base::kNever));
        }
        bytes += kBlock;
      }
    };
    std::vector<rt::Task<void>> workers;
    workers.reserve(depth);
    for (size_t i = 0; i < depth; ++i) workers.push_back(worker(i));
    co_await rt::WhenAll(std::move(workers));
    initiator_cpu = ThreadSeconds() - start;
  });
  Measured measured = meter.Result(static_cast<double>(bytes) / 1e9);
  measured.initiator_cpu_seconds_per_unit = initiator_cpu / (static_cast<double>(bytes) / 1e9);
  return measured;
}

/// A message there and back, one at a time. Round trips per second.
Measured Echo(const Mover& mover, double seconds) {
  Pair pair(mover);
  auto server = pair.b_thread->Submit([&]() -> rt::Task<void> {
    while (true) {
      auto message = co_await pair.b->Receive();
      if (!message.ok() || !(co_await pair.b->Send(*std::move(message))).ok()) co_return;
    }
  });
  uint64_t count = 0;
  const Meter meter;
  pair.a_thread->Run([&]() -> rt::Task<void> {
    while (meter.seconds() < seconds) {
      Must(co_await pair.a->Send(Bytes(kMessage)));
      Must((co_await pair.a->Receive()).status());
      ++count;
    }
    co_await pair.a->Fence(Status());
  });
  const Measured rate = meter.Result(static_cast<double>(count) / 1e3);
  server.get();
  return rate;
}

/// The same with nothing but rt's streams.
Measured BareEcho(double seconds) {
  auto a = Thread("initiator"), b = Thread("echo");
  auto listener = Must(rt::TcpListener::Listen(b->reactor(), "127.0.0.1", 0));
  const auto address = listener.LocalAddress();
  auto server = b->Submit([&]() -> rt::Task<void> {
    auto stream = Must(co_await listener.Accept());
    Bytes buffer(kMessage);
    while ((co_await stream.ReadExactly(buffer)).ok() && (co_await stream.WriteAll(buffer)).ok()) {
    }
  });
  uint64_t count = 0;
  Measured rate;
  a->Run([&]() -> rt::Task<void> {
    auto stream = Must(co_await rt::TcpStream::Connect(a->reactor(), address));
    Bytes buffer(kMessage);
    const Meter meter;
    while (meter.seconds() < seconds) {
      Must(co_await stream.WriteAll(buffer));
      Must(co_await stream.ReadExactly(buffer));
      ++count;
    }
    rate = meter.Result(static_cast<double>(count) / 1e3);
  });
  server.get();
  return rate;
}

double ResidentKiB() {
  std::ifstream file("/proc/self/statm");
  double total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / base::kKiB;
}

/// What an idle connection costs, per endpoint.
void ReportIdle(const Mover& mover) {
  constexpr int kConnections = 400;  // both ends are in this process: two descriptors each
  std::vector<std::unique_ptr<Endpoint>> all;
  Pair pair(mover);
  const double before = ResidentKiB();
  for (int i = 0; i < kConnections; ++i) {
    all.push_back(Must(pair.a_thread->Run(
        [&] { return pair.fabric->Connect(pair.a_thread->reactor(), pair.listener->address(), {}, base::kNever); })));
    all.push_back(Must(pair.b_thread->Run([&] { return pair.listener->Accept(pair.b_thread->reactor()); })));
  }
  const double each = (ResidentKiB() - before) / (2 * kConnections);
  std::fputs(fmt::format("idle endpoint, {}       {:.1f} KiB of memory\n", pair.fabric->name(), each).c_str(), stdout);
  for (auto* thread : {pair.a_thread.get(), pair.b_thread.get()}) {
    thread->Run([&]() -> rt::Task<void> {
      for (auto& endpoint : all) {
        if (endpoint == nullptr || &endpoint->reactor() != &thread->reactor()) continue;
        co_await endpoint->Fence(Status());
        endpoint.reset();
      }
    });
  }
}

void Report(const char* what, const char* unit, const std::vector<Measured>& limit, const std::vector<Measured>& ours) {
  const auto median = [](const std::vector<Measured>& all, double Measured::*field) {
    std::vector<double> values;
    values.reserve(all.size());
    for (const Measured& one : all) values.push_back(one.*field);
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
  };
  const auto line = [&](const char* measure, const char* of, double Measured::*field, double scale) {
    const double a = median(ours, field) * scale, b = median(limit, field) * scale;
    std::fputs(fmt::format("{:<25} {:<5} {:>8.2f} {:<9} limit {:>8.2f}   ratio {:.2f}\n", what, measure, a, of, b, a / b).c_str(),
               stdout);
  };
  line("speed", fmt::format("{}/s", unit).c_str(), &Measured::per_second, 1);
  line("cpu", fmt::format("ms/{}", unit).c_str(), &Measured::cpu_seconds_per_unit, 1e3);
  if (const double initiator = median(ours, &Measured::initiator_cpu_seconds_per_unit); initiator != 0) {
    std::fputs(fmt::format("{:<25} {:<5} {:>8.2f} ms/{}, of it the initiator's\n", what, "cpu", initiator * 1e3, unit).c_str(),
               stdout);
  }
}

int Main(double seconds) {
  ReportIdle(kTcp);  // first, when no freed memory lies about
  ReportIdle(kShm);
  struct Case {
    const char* what;
    const char* unit;
    std::function<Measured(double)> limit, ours;
    std::vector<Measured> limits = {}, measured = {};
  };
  const auto one_sided = [](const Mover& mover, Way way, size_t depth) {
    return [&mover, way, depth](double time) { return OneSided(mover, way, depth, time); };
  };
  const auto echo = [](const Mover& mover) { return [&mover](double time) { return Echo(mover, time); }; };
  std::vector<Case> cases = {
      {"tcp write 1 MiB, depth 8", "GB", RawStream, one_sided(kTcp, Way::kWrite, kDepth)},
      {"tcp read 1 MiB, depth 8", "GB", RawStream, one_sided(kTcp, Way::kRead, kDepth)},
      {"tcp echo 4 KiB messages", "1000", BareEcho, echo(kTcp)},
      {"shm write 1 MiB, depth 2", "GB", Memcpy, one_sided(kShm, Way::kWrite, 2)},
      {"shm write 1 MiB, depth 8", "GB", Memcpy, one_sided(kShm, Way::kWrite, kDepth)},
      {"shm read 1 MiB, depth 2", "GB", Memcpy, one_sided(kShm, Way::kRead, 2)},
      {"shm read 1 MiB, depth 8", "GB", Memcpy, one_sided(kShm, Way::kRead, kDepth)},
      {"shm echo 4 KiB messages", "1000", BareEcho, echo(kShm)},
  };
  for (int round = 0; round < 5; ++round) {
    for (Case& one : cases) {
      one.limits.push_back(one.limit(seconds));
      one.measured.push_back(one.ours(seconds));
    }
  }
  for (const Case& one : cases) Report(one.what, one.unit, one.limits, one.measured);
  return 0;
}

}  // namespace
}  // namespace forebay::fabric

int main(int argc, char** argv) { return forebay::fabric::Main(argc > 1 ? std::atof(argv[1]) : 0.5); }
