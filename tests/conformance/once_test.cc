// SPDX-License-Identifier: Apache-2.0
// Exactly once: 10,000 changes, half of them sent twice, in another order, from many threads, while the
// server is stopped in the middle of its work and started again. What got no answer is sent until it has one.
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <optional>
#include <thread>

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "client/operations.h"
#include "once_model.h"
#include "once_server.h"

namespace forebay::conformance {
namespace {

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define FOREBAY_ONCE_SANITIZED 1
#endif
#endif
#ifdef FOREBAY_ONCE_SANITIZED
constexpr size_t kChanges = 1000;
#else
constexpr size_t kChanges = 10'000;
#endif
constexpr int kThreads = 24;
constexpr size_t kRequestsOfALife = 1200;
constexpr std::chrono::seconds kPatience{60};

uint64_t Seed() {
  const char* given = std::getenv("FOREBAY_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 10) : 20'261'130;
}

/// Sends the requests of a history from several threads until each has an answer.
class Sender {
 public:
  Sender(OnceServer& server, History& history, bool with_ids)
      : server_(server), history_(history), with_ids_(with_ids), sent_before_(history.changes.size()) {
    queue_.assign(history.requests.begin(), history.requests.end());
  }
  ~Sender() {
    thread_->Run([this] { return pool_.Close(Status::Unavailable("the test is over")); });
  }

  /// What time it is on the server: ids are made by it.
  void Learn(uint64_t server_ms) { ids_.Learn(server_ms); }
  /// `between` is called after each kRequestsOfALife answers, with requests on their way.
  void Run(const std::function<void()>& between) {
    std::vector<std::thread> threads;
    threads.reserve(kThreads);
    for (int i = 0; i < kThreads; ++i) threads.emplace_back([this] { Work(); });
    const size_t total = history_.requests.size();
    for (size_t next = kRequestsOfALife; next < total; next += kRequestsOfALife) {
      {
        const base::MutexLock lock(mutex_);
        while (answered_ < next) changed_.Wait(mutex_);
      }
      between();
    }
    for (std::thread& thread : threads) thread.join();
  }
  size_t unanswered() const { return unanswered_; }

 private:
  void Work() {
    std::shared_ptr<OnceServer::Life> life = server_.Next(nullptr);
    while (const std::optional<size_t> index = Claim()) {
      const Answer answer = Send(*index, *life);
      if (answer.code == Code::kUnavailable || answer.code == Code::kCancelled ||
          answer.code == Code::kDeadlineExceeded) {
        ++unanswered_;
        PutBack(*index);
        const std::shared_ptr<OnceServer::Life> now = server_.Current();
        life = now == life ? life : server_.Next(life);
        continue;
      }
      if (const auto now = server_.Current(); now != nullptr) life = now;
      const base::MutexLock lock(mutex_);
      history_.answers[*index].push_back(answer);
      ++answered_;
      changed_.NotifyAll();
    }
  }
  std::optional<size_t> Claim() {
    const base::MutexLock lock(mutex_);
    // Others may still put theirs back.
    while (queue_.empty() && answered_ < history_.requests.size()) changed_.Wait(mutex_);
    if (queue_.empty()) return std::nullopt;
    const size_t index = queue_.front();
    queue_.pop_front();
    Change& change = history_.changes[index];
    if (with_ids_ && change.id.IsNone()) change.id = ids_.New();
    return index;
  }
  void PutBack(size_t index) {
    const base::MutexLock lock(mutex_);
    queue_.push_front(index);
    changed_.NotifyAll();
  }

  Answer Send(size_t index, OnceServer::Life& life) {
    const Change& change = history_.changes[index];
    control::ControlClient& control = *life.control;
    switch (change.kind) {
      case ChangeKind::kDelete:
        return {control.Delete("objects", change.name, {}, change.id, kPatience).code()};
      case ChangeKind::kCreateBucket:
        return {control.CreateBucket(change.name, store::BucketClass::kDurable, change.id, kPatience).code()};
      case ChangeKind::kDeleteBucket:
        return {control.DeleteBucket(change.name, change.id, kPatience).code()};
      case ChangeKind::kPut:
      case ChangeKind::kPutIfAbsent:
        break;
    }
    Bytes content(change.size_bytes);
    base::SeededRandom(index).Fill(content);
    const bool again = sent_before_[index].exchange(true);
    const Result<PutResult> put = thread_->Run([&] {
      return pool_.With(clock_.Now() + kPatience, false, [&](client::DataSession& session) {
        return change.stream ? PutStream(session, change, content, again)
                             : PutWhole(session, change, content);
      });
    });
    if (!put.ok()) return {put.status().code()};
    return {Code::kOk, put->version, put->etag};
  }
  rt::Task<Result<PutResult>> PutWhole(client::DataSession& session, const Change& change, ByteView content) {
    const PutItem item{.bucket = "objects",
                       .key = change.name,
                       .region_offset = 0,
                       .length = content.size(),
                       .if_absent = change.kind == ChangeKind::kPutIfAbsent};
    const client::PutTicket ticket{.operation = change.id, .crc32c = base::Crc32c(content)};
    FB_CO_ASSIGN(const auto results, co_await client::PutItems(session, {&item, 1}, {&ticket, 1}, content,
                                                               clock_.Now() + kPatience));
    if (!results.front()) co_return client::ToStatus(results.front().error());
    co_return *results.front();
  }
  rt::Task<Result<PutResult>> PutStream(client::DataSession& session, const Change& change, ByteView content,
                                        bool again) {
    const base::TimePoint deadline = clock_.Now() + kPatience;
    FB_CO_ASSIGN(const auto hold, session.Hold());
    FB_CO_ASSIGN(const uint64_t handle,
                 co_await client::BeginStream(session, {"objects", change.name}, {},
                                              again ? change.id : OperationId(), deadline));
    const uint32_t crc32c = base::Crc32c(content);
    if (!content.empty())
      FB_CO_TRY(co_await client::SendPiece(session, handle, 0, content, crc32c, deadline));
    co_return co_await client::CommitStream(session, handle, content.size(), crc32c, change.id, deadline);
  }

  OnceServer& server_;
  History& history_;
  const bool with_ids_;
  const base::SystemClock clock_;
  base::SecureRandom random_;
  client::OperationIds ids_{clock_, random_};
  const std::unique_ptr<rt::ReactorThread> thread_ = *rt::ReactorThread::Create({.name = "client"});
  rt::ThreadPool threads_{1, "open"};
  client::DataPool pool_{thread_->reactor(),
                         client::MoverChoice::Only(server_.fabric()),
                         threads_,
                         [this](base::Duration) { return server_.OpenSession(); },
                         4,
                         random_};
  std::vector<std::atomic<bool>> sent_before_;
  std::atomic<size_t> unanswered_{0};
  base::Mutex mutex_;
  base::ConditionVariable changed_;
  std::deque<size_t> queue_ FB_GUARDED_BY(mutex_);
  size_t answered_ FB_GUARDED_BY(mutex_) = 0;
};

FinalState Look(OnceServer& server) {
  store::ObjectStore& store = server.store();
  const store::Context context = server.context();
  FinalState state;
  for (const std::string& key : ObjectKeys()) {
    const auto info = server.thread().Run([&] { return store.Stat(context, "objects", key); });
    EXPECT_TRUE(info.ok() || info.status().code() == Code::kNotFound) << info.status().ToString();
    state.objects.push_back(info.ok() ? FinalObject{key, info->version, info->etag}
                                      : FinalObject{.key = key});
  }
  for (const std::string& name : BucketNames())
    state.buckets.push_back(server.thread().Run([&] { return store.GetBucket(context, name); }).ok());
  // The next version tells how many there were.
  const auto last = server.thread().Run([&]() -> rt::Task<Result<store::ObjectInfo>> {
    FB_CO_ASSIGN(const auto writer, co_await store.Put(context, "objects", "last", {}));
    co_return co_await writer->Commit(context, std::nullopt);
  });
  EXPECT_TRUE(last.ok()) << last.status().ToString();
  if (last.ok()) state.versions = last->version - 1;
  return state;
}

/// Sends a history of `changes` and gives what was wrong.
std::vector<std::string> RunHistory(size_t changes, bool with_ids, bool restarts) {
  const uint64_t seed = Seed();
  SCOPED_TRACE(testing::Message() << "FOREBAY_SEED=" << seed);
  OnceServer server;
  const store::Context context = server.context();
  const Status made =
      server.thread().Run([&] { return server.store().CreateBucket(context, {.name = "objects"}); });
  EXPECT_TRUE(made.ok()) << made.ToString();
  History history = MakeHistory(seed, changes);
  size_t lives = 1;
  size_t unanswered = 0;
  {
    Sender sender(server, history, with_ids);
    sender.Learn(server.store().operation_time_ms());
    sender.Run([&] {
      if (!restarts) return;
      server.Stop();
      server.Start();
      sender.Learn(server.store().operation_time_ms());
      ++lives;
    });
    unanswered = sender.unanswered();
  }
  std::printf(
      "FIGURE %zu changes, %zu requests, %zu lives of the server, %zu requests without an answer, seed "
      "%llu\n",
      changes, history.requests.size(), lives, unanswered, static_cast<unsigned long long>(seed));
  return Violations(history, Look(server));
}

TEST(ExactlyOnce, TenThousandChangesOfWhichHalfAreSentTwiceOverRestarts) {
  for (const std::string& violation : RunHistory(kChanges, true, true)) ADD_FAILURE() << violation;
}

// The oracle itself: without ids the same history must not pass.
TEST(ExactlyOnce, WithoutIdsTheSameHistoryIsFoundOut) { EXPECT_FALSE(RunHistory(600, false, false).empty()); }

}  // namespace
}  // namespace forebay::conformance
