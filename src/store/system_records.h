// SPDX-License-Identifier: Apache-2.0
// SystemRecords: the small durable records that a server keeps of itself (tenants, keys, revocations), on any
// ObjectStore, as objects of a bucket that no tenant can reach. A record is there, whole and durable, once
// Put answered; conditions make read-modify-write safe. Thread-safe. The store is borrowed and outlives it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "rt/reactor.h"
#include "rt/task.h"
#include "store/object_store.h"

namespace forebay::store {

class SystemRecords {
 public:
  static constexpr size_t kMaxValueBytes = 64 * base::kKiB;
  /// What one List gives.
  static constexpr size_t kMaxListed = 65'536;

  struct Record {
    std::string key;
    Bytes value;
    std::string etag;
  };

  explicit SystemRecords(ObjectStore& store) : store_(store) {}

  /// Makes the bucket when it is missing. Before every other call.
  rt::Task<Status> Open(rt::Reactor& reactor);
  /// Nothing when there is no such record; DataLoss when its content is damaged.
  rt::Task<Result<std::optional<Record>>> Get(rt::Reactor& reactor, std::string key);
  /// Gives the new ETag. InvalidArgument beyond kMaxValueBytes; AlreadyExists, FailedPrecondition or NotFound
  /// when the condition does not hold.
  rt::Task<Result<std::string>> Put(rt::Reactor& reactor, std::string key, Bytes value, Condition condition);
  /// NotFound; FailedPrecondition (if-match).
  rt::Task<Status> Delete(rt::Reactor& reactor, std::string key, Condition condition);
  /// Ascending by key. What is changed meanwhile is given as it was before or after. ResourceExhausted for
  /// more than kMaxListed records.
  rt::Task<Result<std::vector<Record>>> List(rt::Reactor& reactor, std::string prefix);

 private:
  /// Records are small: whoever waits longer than this for one has a store that does not answer.
  static constexpr base::Duration kPatience = std::chrono::seconds(30);

  static Context MakeContext(rt::Reactor& reactor) {
    return {.reactor = reactor, .tenant = TenantId::kSystem, .deadline = reactor.clock().Now() + kPatience};
  }

  ObjectStore& store_;
};

}  // namespace forebay::store
