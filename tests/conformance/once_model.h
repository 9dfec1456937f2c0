// SPDX-License-Identifier: Apache-2.0
// A random history of changes, half of which are sent twice and in another order, and what must be true of
// its answers and of the store in the end when each change took place once. On `toggle` keys only if-absent
// puts and deletes happen, so puts and deletes that took place take turns; `overwrite` keys are only put, so
// the last version is there; buckets are made and removed in turns. Thread-safe: values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/ids.h"
#include "base/random.h"
#include "base/status.h"

namespace forebay::conformance {

enum class ChangeKind : uint8_t { kPut, kPutIfAbsent, kDelete, kCreateBucket, kDeleteBucket };

struct Change {
  ChangeKind kind = ChangeKind::kPut;
  std::string name;         // of the object, or of the bucket
  uint64_t size_bytes = 0;  // of a put; its content follows from its number
  bool stream = false;      // as a put of unknown size
  OperationId id{};         // given when it is first sent
};

struct Answer {
  Code code = Code::kUnknown;
  uint64_t version = 0;  // of a put that took place
  std::string etag{};
  friend bool operator==(const Answer&, const Answer&) = default;
};

struct History {
  std::vector<Change> changes;
  std::vector<size_t> requests;              // changes by their index, in the order in which they are sent
  std::vector<std::vector<Answer>> answers;  // by change
};

/// `count` changes, and the requests for them.
History MakeHistory(uint64_t seed, size_t count);

/// What is there in the end.
struct FinalObject {
  std::string key;
  uint64_t version = 0;  // 0: none
  std::string etag{};
};
struct FinalState {
  std::vector<FinalObject> objects;  // one for each of ObjectKeys
  std::vector<bool> buckets;         // one for each of BucketNames: whether it is there
  uint64_t versions = 0;             // that the store has given out
};
std::vector<std::string> ObjectKeys();
std::vector<std::string> BucketNames();

/// What is wrong, in words; empty when each change took place once and each answer was the first one.
std::vector<std::string> Violations(const History& history, const FinalState& state);

}  // namespace forebay::conformance
