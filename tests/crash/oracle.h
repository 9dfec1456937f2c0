// SPDX-License-Identifier: Apache-2.0
// Oracle: what a store may hold, told from the operations that were begun and answered. Each put has a number of its own, the
// generation, which the object carries as metadata, and content that follows from (seed, key, generation): so that whatever
// is found says which put it claims to be, and can be compared to the last byte.
//
// The rule: the value of a key is what one of its operations left: one that was acknowledged, unless another acknowledged
// one began after it had ended; or one whose answer never came, which may have won at any later time. Once the value has
// been seen after a restart it is settled, and nothing else may ever come back.
// Belongs to one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "store/object_store.h"

namespace forebay::crash {

/// The value of a key: the generation of the put that left it, or nothing.
using Value = std::optional<uint64_t>;

/// The metadata entry that holds the generation.
constexpr const char* kGenerationName = "generation";

/// `size` bytes that follow from the rest.
std::string ContentOf(uint64_t seed, std::string_view key, uint64_t generation, uint64_t size);
/// The generation that an object claims; nothing when it claims none.
std::optional<uint64_t> GenerationOf(const store::ObjectInfo& info);

class Oracle {
 public:
  explicit Oracle(uint64_t seed) : seed_(seed) {}

  // ---- while the store works ----

  /// The generation of the put that begins now.
  uint64_t BeginPut(const std::string& key, uint64_t size);
  /// The number of the delete that begins now: for the answer only.
  uint64_t BeginDelete(const std::string& key);
  /// What the put's content is; its size is the one it began with.
  std::string Content(uint64_t generation) const;
  /// `etag`: what the answer to a put said.
  void Acknowledged(uint64_t operation, std::string etag = {});
  /// It was refused, and is known to have left nothing.
  void HadNoEffect(uint64_t operation);

  // ---- what is expected ----

  const std::map<std::string, std::vector<uint64_t>>& keys() const { return operations_of_; }
  /// All that the key may hold now.
  std::vector<Value> Possible(const std::string& key) const;
  /// The one value that the key may hold; only asked where there is one (checked).
  Value Certain(const std::string& key) const;
  /// Of an acknowledged or settled put.
  const std::string& ETag(uint64_t generation) const { return operations_[generation].etag; }

  /// What is wrong with this value; empty when it is possible.
  std::string CheckValue(const std::string& key, const Value& value) const;
  /// What is wrong with this object, whoever's turn it was: its put, size, checksum, ETag and content must fit together.
  std::string CheckObject(const std::string& key, const store::ObjectInfo& info, std::string_view content) const;

  /// The key was found to hold this after a restart: from now on it does. `etag` when there is an object.
  void Settle(const std::string& key, const Value& value, std::string etag);

  uint64_t acknowledged() const { return acknowledged_; }

 private:
  enum class Answer : uint8_t { kNone, kAcknowledged, kNoEffect };
  struct Operation {
    std::string key;
    bool is_put = false;
    uint64_t size = 0;
    uint64_t begin = 0;
    uint64_t end = UINT64_MAX;  // the moment of the answer, if one came
    Answer answer = Answer::kNone;
    std::string etag;
  };

  uint64_t Begin(Operation operation);

  const uint64_t seed_;
  uint64_t now_ = 0;
  uint64_t acknowledged_ = 0;
  std::vector<Operation> operations_;                            // by number
  std::map<std::string, std::vector<uint64_t>> operations_of_;   // of each key, since it was settled
  std::map<std::string, Value> settled_;
};

}  // namespace forebay::crash
