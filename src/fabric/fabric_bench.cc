// SPDX-License-Identifier: Apache-2.0
// How near the tcp fabric comes to the socket: each case runs beside its bare counterpart, in turns, in the same process
// (two threads, loopback). For people: `fabric_bench [seconds per case]`.
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
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/arena.h"
#include "base/check.h"
#include "base/random.h"
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

/// A connected pair on two reactors.
struct Pair {
  base::SecureRandom random;
  TcpFabric fabric{random};
  std::unique_ptr<rt::ReactorThread> a_thread = Thread("initiator");
  std::unique_ptr<rt::ReactorThread> b_thread = Thread("owner");
  std::unique_ptr<Listener> listener;
  std::unique_ptr<Endpoint> a, b;

  Pair() {
    b_thread->Run([&]() -> rt::Task<void> {
      listener = Must(fabric.Listen(b_thread->reactor(), "127.0.0.1:0", {}));
      co_return;
    });
    a = Must(a_thread->Run(
        [&] { return fabric.Connect(a_thread->reactor(), listener->address(), {}, base::kNever); }));
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

/// One-sided transfers of 1 MiB, eight in flight. GB/s.
Measured OneSided(Way way, double seconds) {
  Pair pair;
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
  const Meter meter;
  pair.a_thread->Run([&]() -> rt::Task<void> {
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
    workers.reserve(kDepth);
    for (size_t i = 0; i < kDepth; ++i) workers.push_back(worker(i));
    co_await rt::WhenAll(std::move(workers));
  });
  return meter.Result(static_cast<double>(bytes) / 1e9);
}

/// A message there and back, one at a time. Round trips per second.
Measured Echo(double seconds) {
  Pair pair;
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
void ReportIdle() {
  constexpr int kConnections = 400;  // both ends are in this process: two descriptors each
  std::vector<std::unique_ptr<Endpoint>> all;
  Pair pair;
  const double before = ResidentKiB();
  for (int i = 0; i < kConnections; ++i) {
    all.push_back(Must(pair.a_thread->Run(
        [&] { return pair.fabric.Connect(pair.a_thread->reactor(), pair.listener->address(), {}, base::kNever); })));
    all.push_back(Must(pair.b_thread->Run([&] { return pair.listener->Accept(pair.b_thread->reactor()); })));
  }
  const double each = (ResidentKiB() - before) / (2 * kConnections);
  std::fputs(fmt::format("idle endpoint            {:.1f} KiB of memory\n", each).c_str(), stdout);
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
    std::fputs(fmt::format("{:<24} {:<5} {:>8.2f} {:<14} bare {:>8.2f}   ratio {:.2f}\n", what, measure, a, of, b, a / b).c_str(),
               stdout);
  };
  line("speed", fmt::format("{}/s", unit).c_str(), &Measured::per_second, 1);
  line("cpu", fmt::format("ms/{}", unit).c_str(), &Measured::cpu_seconds_per_unit, 1e3);
}

int Main(double seconds) {
  ReportIdle();  // first, when no freed memory lies about
  std::vector<Measured> raw, writes, reads, bare, echo;
  for (int round = 0; round < 5; ++round) {
    raw.push_back(RawStream(seconds));
    writes.push_back(OneSided(Way::kWrite, seconds));
    reads.push_back(OneSided(Way::kRead, seconds));
    bare.push_back(BareEcho(seconds));
    echo.push_back(Echo(seconds));
  }
  Report("write 1 MiB, depth 8", "GB", raw, writes);
  Report("read 1 MiB, depth 8", "GB", raw, reads);
  Report("echo 4 KiB messages", "1000", bare, echo);
  return 0;
}

}  // namespace
}  // namespace forebay::fabric

int main(int argc, char** argv) { return forebay::fabric::Main(argc > 1 ? std::atof(argv[1]) : 0.5); }
