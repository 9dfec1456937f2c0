// SPDX-License-Identifier: Apache-2.0
#include "oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <functional>
#include <utility>

#include "base/bytes.h"
#include "base/check.h"
#include "base/checksum.h"
#include "base/random.h"

namespace forebay::crash {

std::string ContentOf(uint64_t seed, std::string_view key, uint64_t generation, uint64_t size) {
  std::string content(size, '\0');
  base::SeededRandom random(seed ^ std::hash<std::string_view>{}(key) ^ generation * 0x9e3779b97f4a7c15);
  random.Fill(std::as_writable_bytes(std::span(content.data(), content.size())));
  return content;
}

std::optional<uint64_t> GenerationOf(const store::ObjectInfo& info) {
  const auto found = info.metadata.find(kGenerationName);
  if (found == info.metadata.end()) return std::nullopt;
  const std::string& text = found->second;
  uint64_t generation = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), generation);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return generation;
}

uint64_t Oracle::Begin(Operation operation) {
  operation.begin = ++now_;
  operations_of_[operation.key].push_back(operations_.size());
  operations_.push_back(std::move(operation));
  return operations_.size() - 1;
}

uint64_t Oracle::BeginPut(const std::string& key, uint64_t size) {
  return Begin({.key = key, .is_put = true, .size = size});
}

uint64_t Oracle::BeginDelete(const std::string& key) { return Begin({.key = key}); }

std::string Oracle::Content(uint64_t generation) const {
  const Operation& put = operations_[generation];
  return ContentOf(seed_, put.key, generation, put.size);
}

void Oracle::Acknowledged(uint64_t operation, std::string etag) {
  Operation& done = operations_[operation];
  done.answer = Answer::kAcknowledged;
  done.end = ++now_;
  done.etag = std::move(etag);
  ++acknowledged_;
}

void Oracle::HadNoEffect(uint64_t operation) { operations_[operation].answer = Answer::kNoEffect; }

std::vector<Value> Oracle::Possible(const std::string& key) const {
  uint64_t last_begin = 0;  // of an acknowledged operation
  const auto found = operations_of_.find(key);
  const std::vector<uint64_t> none;
  const std::vector<uint64_t>& operations = found == operations_of_.end() ? none : found->second;
  for (const uint64_t number : operations)
    if (operations_[number].answer == Answer::kAcknowledged) last_begin = std::max(last_begin, operations_[number].begin);

  std::vector<Value> possible;
  const auto settled = settled_.find(key);
  if (last_begin == 0) possible.push_back(settled == settled_.end() ? Value() : settled->second);
  for (const uint64_t number : operations) {
    const Operation& operation = operations_[number];
    if (operation.answer == Answer::kNoEffect || operation.end < last_begin) continue;
    possible.push_back(operation.is_put ? Value(number) : Value());
  }
  return possible;
}

Value Oracle::Certain(const std::string& key) const {
  const std::vector<Value> possible = Possible(key);
  FB_CHECK(std::ranges::all_of(possible, [&](const Value& value) { return value == possible.front(); }));
  return possible.front();
}

std::string Oracle::CheckValue(const std::string& key, const Value& value) const {
  const std::vector<Value> possible = Possible(key);
  if (std::ranges::count(possible, value) != 0) return {};
  const auto name = [](const Value& v) { return v ? fmt::format("put {}", *v) : std::string("nothing"); };
  std::string expected;
  for (const Value& one : possible) expected += (expected.empty() ? "" : " or ") + name(one);
  return fmt::format("{} holds {}, expected {}", key, name(value), expected);
}

std::string Oracle::CheckObject(const std::string& key, const store::ObjectInfo& info, std::string_view content) const {
  const std::optional<uint64_t> generation = GenerationOf(info);
  if (!generation || *generation >= operations_.size() || !operations_[*generation].is_put)
    return fmt::format("{} does not say which put it is", key);
  const Operation& put = operations_[*generation];
  if (info.key != key || put.key != key) return fmt::format("{} holds put {} of {}", key, *generation, put.key);
  if (info.size_bytes != put.size)
    return fmt::format("{}: put {} is said to have {} bytes, not {}", key, *generation, info.size_bytes, put.size);
  if (!put.etag.empty() && info.etag != put.etag)
    return fmt::format("{}: put {} was answered with ETag {} and has {}", key, *generation, put.etag, info.etag);
  const std::string expected = Content(*generation);
  if (info.crc32c != base::Crc32c(AsBytes(expected)))
    return fmt::format("{}: the checksum that is kept of put {} is not its content's", key, *generation);
  if (content != expected) return fmt::format("{}: the bytes of put {} are wrong", key, *generation);
  return {};
}

void Oracle::Settle(const std::string& key, const Value& value, std::string etag) {
  settled_[key] = value;
  operations_of_[key].clear();
  if (value) operations_[*value].etag = std::move(etag);
}

}  // namespace forebay::crash
