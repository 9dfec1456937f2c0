// SPDX-License-Identifier: Apache-2.0
// stalled-get, stalled-put: a transfer during which the server (--pid) is stopped. The call must end by its
// timeout plus one second, and from then on the caller's memory is the caller's: it does not change when the
// server goes on, and it may be unmapped.
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <thread>
#include <vector>

#include "content.h"
#include "tool.h"

namespace forebay::integration {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Longer than the 5 s after which a silent peer is given up would test that instead.
constexpr milliseconds kTimeout{2500};
// A promise of the client: every call ends by its timeout plus one second.
constexpr milliseconds kGrace{1000};
// For a loaded machine to run us again after that. It may take longer than any slack, and may run us only
// when the call is over; so the call is made again, and what it promises must be seen once.
constexpr milliseconds kSlack{250};
constexpr int kAttempts = 10;
constexpr std::chrono::seconds kWatch{5};
constexpr auto kUntouched = std::byte{0xee};
constexpr std::string_view kKey = "stalled";

/// Memory of whole pages that can be taken away for good.
class Pages {
 public:
  explicit Pages(size_t size) : size_(size) {
    void* memory =
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) Die("no memory");
    memory_ = static_cast<std::byte*>(memory);
  }
  ~Pages() { Unmap(); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  void Unmap() {
    if (memory_ != nullptr) munmap(memory_, size_);
    memory_ = nullptr;
  }
  std::span<std::byte> bytes() const { return {memory_, size_}; }

 private:
  std::byte* memory_;
  size_t size_;
};

void Signal(pid_t server, int number) {
  if (kill(server, number) != 0) Die("cannot signal the server");
}

/// Stops the server in a thread of its own once `moved` says that enough has been moved, or, on a slow
/// machine, when half of the time is over.
template <typename Moved>
std::thread StopWhen(pid_t server, const std::atomic<bool>& over, Moved moved) {
  return std::thread([server, &over, moved] {
    const auto latest = Clock::now() + kTimeout / 2;
    while (!moved() && Clock::now() < latest) {
      if (over) return;
      std::this_thread::yield();
    }
    Signal(server, SIGSTOP);
  });
}

/// Whether it ended in time; false too when it was over before the server was stopped.
bool EndedInTime(const std::string& what, const Error* error, Clock::duration took) {
  if (error == nullptr) {
    Say("{} ended well: it was over too early to tell anything", what);
    return false;
  }
  if (error->code != Code::kDeadlineExceeded && error->code != Code::kUnavailable)
    Die(what + " ended with " + Describe(*error));
  const auto took_ms = std::chrono::duration_cast<milliseconds>(took);
  Say("{} ended after {} ms with {}", what, took_ms.count(), Describe(*error));
  return took_ms <= kTimeout + kGrace + kSlack;
}

template <typename Attempt>
void OnceInTime(Attempt attempt) {
  for (int i = 0; i < kAttempts; ++i)
    if (attempt()) return;
  Die(fmt::format("of {} calls with a timeout of {} ms none ended by that and {} ms more", kAttempts,
                  kTimeout.count(), (kGrace + kSlack).count()));
}

/// Bytes that the process has had written to its devices.
uint64_t BytesWritten(pid_t process) {
  std::ifstream io(fmt::format("/proc/{}/io", process));
  for (std::string name; io >> name;) {
    uint64_t value = 0;
    io >> value;
    if (name == "write_bytes:") return value;
  }
  Die("cannot read what the server has written");
}

bool StalledGet(Client& client, const Options& options, size_t size, size_t stop_at) {
  const auto server = static_cast<pid_t>(options.Number("pid"));
  const Pages buffer(size);
  std::ranges::fill(buffer.bytes(), kUntouched);
  std::atomic<bool> over = false;
  const volatile std::byte* watched = buffer.bytes().data() + stop_at;
  // Sixteen bytes of random content are all 0xee once in 2^128.
  std::thread stopper = StopWhen(server, over, [watched] {
    for (int i = 0; i < 16; ++i)
      if (watched[i] != kUntouched) return true;
    return false;
  });
  const auto start = Clock::now();
  const auto got = client.Get(options.Text("bucket"), kKey, buffer.bytes(), {.timeout = kTimeout});
  const auto took = Clock::now() - start;
  const std::vector<std::byte> snapshot(buffer.bytes().begin(), buffer.bytes().end());
  over = true;
  stopper.join();
  const bool in_time =
      EndedInTime(fmt::format("get stopped at {}", stop_at), got ? nullptr : &got.error(), took);
  Signal(server, SIGCONT);
  if (got) return false;
  std::this_thread::sleep_for(kWatch);  // what is tested: that nothing comes in this time
  if (std::memcmp(snapshot.data(), buffer.bytes().data(), size) != 0)
    Die("the buffer changed after the call had ended");
  return in_time;
}

bool StalledPut(Client& client, const Options& options, size_t size, size_t stop_at) {
  const auto server = static_cast<pid_t>(options.Number("pid"));
  Pages source(size);
  FillContent(options.Number("seed"), kKey, source.bytes());
  std::atomic<bool> over = false;
  const uint64_t before = BytesWritten(server);
  std::thread stopper = StopWhen(server, over, [=] { return BytesWritten(server) - before >= stop_at; });
  const auto start = Clock::now();
  const auto put = client.Put(options.Text("bucket"), "put", source.bytes(), {.timeout = kTimeout});
  const auto took = Clock::now() - start;
  source.Unmap();
  over = true;
  stopper.join();
  const bool in_time =
      EndedInTime(fmt::format("put stopped at {}", stop_at), put ? nullptr : &put.error(), took);
  Signal(server, SIGCONT);
  if (put) return false;
  std::this_thread::sleep_for(kWatch);  // in which a client that still read from the source would crash
  return in_time;
}

/// The client is as good as before.
void CheckServed(Client& client, const Options& options, size_t size) {
  std::vector<std::byte> content(size);
  std::vector<std::byte> expected(size);
  FillContent(options.Number("seed"), kKey, expected);
  const auto got = client.Get(options.Text("bucket"), kKey, content);
  if (!got) Die("get after the server went on: " + Describe(got.error()));
  if (got->size != size || content != expected) Die("the get after the server went on gave wrong bytes");
}

/// What a put that was not acknowledged left, and takes it away.
void CheckWholeOrGone(Client& client, const Options& options, size_t size) {
  std::vector<std::byte> content(size);
  const auto got = client.Get(options.Text("bucket"), "put", content);
  if (got) {
    std::vector<std::byte> expected(size);
    FillContent(options.Number("seed"), kKey, expected);
    if (got->size != size || content != expected) Die("a put that was not acknowledged is there, and half");
    Say("the put that was not acknowledged is there, and whole");
    if (!client.Remove(options.Text("bucket"), "put")) Die("it cannot be removed");
  } else if (got.error().code != Code::kNotFound) {
    Die("get: " + Describe(got.error()));
  }
}

void StoreObject(Client& client, const Options& options, const std::string& key, size_t size) {
  std::vector<std::byte> content(size);
  FillContent(options.Number("seed"), kKey, content);
  if (const auto put = client.Put(options.Text("bucket"), key, content); !put)
    Die("put: " + Describe(put.error()));
}

}  // namespace

int RunStalledGet(const Options& options) {
  const auto client = Connect(options, 1);
  const size_t size = options.Number("size");
  StoreObject(*client, options, std::string(kKey), size);
  for (const size_t percent : {2, 50}) {
    OnceInTime([&] {
      const bool in_time = StalledGet(*client, options, size, size / 100 * percent);
      CheckServed(*client, options, size);
      return in_time;
    });
  }
  return 0;
}

int RunStalledPut(const Options& options) {
  const auto client = Connect(options, 1);
  const size_t size = options.Number("size");
  StoreObject(*client, options, std::string(kKey), size);
  // A store zeroes fresh space of a file device ahead: a first put in its place keeps that out of what is
  // measured.
  StoreObject(*client, options, "put", size);
  if (const auto removed = client->Remove(options.Text("bucket"), "put"); !removed)
    Die("remove: " + Describe(removed.error()));
  for (const size_t percent : {2, 50}) {
    OnceInTime([&] {
      const bool in_time = StalledPut(*client, options, size, size / 100 * percent);
      CheckServed(*client, options, size);
      CheckWholeOrGone(*client, options, size);
      return in_time;
    });
  }
  return 0;
}

}  // namespace forebay::integration
