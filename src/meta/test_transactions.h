// SPDX-License-Identifier: Apache-2.0
// What tests of meta hand to a store: transactions out of a function, and hooks that can be watched, held and made to fail.
// TestHooks is thread-safe; a TestTransaction belongs to the committer while it is committed.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "meta/meta_store.h"

namespace forebay::meta {

/// A transaction out of a function, which notes its outcome.
class TestTransaction final : public Transaction {
 public:
  using Body = std::function<Status(View&, Batch&)>;
  struct Options {
    bool needs_data_flush = false;
    bool frees_space = false;
    bool durable = true;
    std::function<void(const Status&)> done;
  };
  TestTransaction(Body body, Options options) : body_(std::move(body)), options_(std::move(options)) {}

  Status Prepare(View& view, Batch& batch) override { return body_(view, batch); }
  bool needs_data_flush() const override { return options_.needs_data_flush; }
  bool frees_space() const override { return options_.frees_space; }
  bool durable() const override { return options_.durable; }
  void Done(const Status& outcome) override {
    if (options_.done) options_.done(outcome);
  }

 private:
  const Body body_;
  const Options options_;
};

inline std::unique_ptr<Transaction> Do(TestTransaction::Body body, TestTransaction::Options options = {}) {
  return std::make_unique<TestTransaction>(std::move(body), std::move(options));
}
inline std::unique_ptr<Transaction> PutOne(Family family, std::string key, std::string value) {
  return Do([family, key = std::move(key), value = std::move(value)](View&, Batch& batch) {
    batch.Put(family, key, value);
    return Status();
  });
}
inline std::unique_ptr<Transaction> PutIfAbsent(Family family, std::string key, std::string value) {
  return Do([family, key = std::move(key), value = std::move(value)](View& view, Batch& batch) {
    FB_ASSIGN(const auto there, view.Get(family, key));
    if (there) return Status::AlreadyExists("{} is there", key);
    batch.Put(family, key, value);
    return Status();
  });
}
inline std::unique_ptr<Transaction> DeleteOne(Family family, std::string key) {
  return Do([family, key = std::move(key)](View&, Batch& batch) {
    batch.Delete(family, key);
    return Status();
  });
}

/// Hooks that note their calls, fail when told, and can hold a group back until a test lets it go.
class TestHooks final : public GroupHooks {
 public:
  struct Flush {
    uint64_t witness;
    bool data;
    friend bool operator==(const Flush&, const Flush&) = default;
  };

  Status FinishGroup(View& view, Batch& batch, bool* durable) override {
    if (make_durable) *durable = true;
    return on_finish ? on_finish(view, batch) : Status();
  }
  Status FlushData(uint64_t witness, bool data) override {
    base::MutexLock lock(mutex_);
    flushes_.push_back({witness, data});
    changed_.NotifyAll();
    while (held_) changed_.Wait(mutex_);
    return flush_outcome_;
  }

  std::vector<Flush> flushes() const {
    base::MutexLock lock(mutex_);
    return flushes_;
  }
  void FailFlushes(Status outcome) {
    base::MutexLock lock(mutex_);
    flush_outcome_ = std::move(outcome);
  }
  /// The next flush, and with it its group, waits until Release.
  void Hold() {
    base::MutexLock lock(mutex_);
    held_ = true;
  }
  void Release() {
    base::MutexLock lock(mutex_);
    held_ = false;
    changed_.NotifyAll();
  }
  void AwaitFlushes(size_t count) {
    base::MutexLock lock(mutex_);
    while (flushes_.size() < count) changed_.Wait(mutex_);
  }

  std::function<Status(View&, Batch&)> on_finish;  ///< set before the store opens
  bool make_durable = false;                       ///< whatever the members say; set between commits

 private:
  mutable base::Mutex mutex_;
  base::ConditionVariable changed_;
  std::vector<Flush> flushes_ FB_GUARDED_BY(mutex_);
  Status flush_outcome_ FB_GUARDED_BY(mutex_);
  bool held_ FB_GUARDED_BY(mutex_) = false;
};

}  // namespace forebay::meta
