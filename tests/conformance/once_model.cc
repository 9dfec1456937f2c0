// SPDX-License-Identifier: Apache-2.0
#include "once_model.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace forebay::conformance {
namespace {

constexpr uint64_t kKeysOfAKind = 40;
constexpr uint64_t kBuckets = 6;
/// How far a request may come behind its place, in requests; one that is sent again, further.
constexpr uint64_t kDisorder = 60;
constexpr uint64_t kSecondDisorder = 800;

std::string Toggle(uint64_t i) { return fmt::format("toggle/{}", i); }
std::string Overwrite(uint64_t i) { return fmt::format("overwrite/{}", i); }
std::string Bucket(uint64_t i) { return fmt::format("bucket-{}", i); }

bool IsPut(const Change& change) {
  return change.kind == ChangeKind::kPut || change.kind == ChangeKind::kPutIfAbsent;
}

Change MakeChange(base::Random& random) {
  constexpr uint64_t kSizes[] = {0, 100, 1024, 1025, 5000, 20'000, 150'000};
  const uint64_t size = kSizes[random.Below(std::size(kSizes))];
  const bool stream = random.Below(8) == 0;
  switch (random.Below(10)) {
    case 0:
      return {.kind = random.Below(2) == 0 ? ChangeKind::kCreateBucket : ChangeKind::kDeleteBucket,
              .name = Bucket(random.Below(kBuckets))};
    case 1:
    case 2:
    case 3:
      return {.kind = ChangeKind::kDelete, .name = Toggle(random.Below(kKeysOfAKind))};
    case 4:
    case 5:
    case 6:
      return {
          .kind = ChangeKind::kPutIfAbsent, .name = Toggle(random.Below(kKeysOfAKind)), .size_bytes = size};
    default:
      return {.kind = ChangeKind::kPut,
              .name = Overwrite(random.Below(kKeysOfAKind)),
              .size_bytes = size,
              .stream = stream};
  }
}

/// The refusal that the state of the store may give.
Code RefusalOf(ChangeKind kind) {
  switch (kind) {
    case ChangeKind::kPutIfAbsent:
    case ChangeKind::kCreateBucket:
      return Code::kAlreadyExists;
    case ChangeKind::kDelete:
    case ChangeKind::kDeleteBucket:
      return Code::kNotFound;
    case ChangeKind::kPut:
      break;
  }
  return Code::kOk;
}

/// What took place under one name.
struct Effects {
  int made = 0;
  int removed = 0;
  uint64_t last_version = 0;
  std::string last_etag;
};

class Judge {
 public:
  explicit Judge(const History& history) : history_(history) {}

  std::vector<std::string> Run(const FinalState& state) {
    for (size_t i = 0; i < history_.changes.size(); ++i) CheckAnswers(i);
    if (state.versions != versions_.size())
      Say("{} puts took place and {} versions were given out", versions_.size(), state.versions);
    for (const FinalObject& object : state.objects) CheckObject(object);
    const std::vector<std::string> names = BucketNames();
    for (size_t i = 0; i < names.size(); ++i) {
      const Effects& effects = effects_[names[i]];
      if (effects.made - effects.removed != (state.buckets[i] ? 1 : 0))
        Say("{} was made {} times and removed {} times, and is {}", names[i], effects.made, effects.removed,
            state.buckets[i] ? "there" : "not there");
    }
    return std::move(violations_);
  }

 private:
  template <typename... Args>
  void Say(fmt::format_string<Args...> format, Args&&... args) {
    violations_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }

  void CheckAnswers(size_t index) {
    const Change& change = history_.changes[index];
    const std::vector<Answer>& answers = history_.answers[index];
    if (answers.empty()) return Say("change {} of {} has no answer", index, change.name);
    const Answer& first = answers.front();
    for (const Answer& answer : answers)
      if (answer != first)
        Say("change {} of {} was answered {} version {} and {} version {}", index, change.name,
            CodeName(first.code), first.version, CodeName(answer.code), answer.version);
    if (first.code != Code::kOk && first.code != RefusalOf(change.kind))
      Say("change {} of {} was answered {}", index, change.name, CodeName(first.code));
    if (first.code != Code::kOk) return;
    Effects& effects = effects_[change.name];
    if (!IsPut(change)) {
      ++(change.kind == ChangeKind::kCreateBucket ? effects.made : effects.removed);
      return;
    }
    ++effects.made;
    if (!versions_.insert(first.version).second) Say("two puts have version {}", first.version);
    if (first.version < effects.last_version) return;
    effects.last_version = first.version;
    effects.last_etag = first.etag;
  }

  void CheckObject(const FinalObject& object) {
    const Effects& effects = effects_[object.key];
    const bool there = object.version != 0;
    if (object.key.starts_with("toggle/")) {
      if (effects.made - effects.removed != (there ? 1 : 0))
        Say("{} was put {} times and deleted {} times, and is {}", object.key, effects.made, effects.removed,
            there ? "there" : "not there");
      if (!there) return;
    }
    if (object.version != effects.last_version || object.etag != effects.last_etag)
      Say("{} has version {} and {} was put last", object.key, object.version, effects.last_version);
  }

  const History& history_;
  std::vector<std::string> violations_;
  std::map<std::string, Effects> effects_;
  std::set<uint64_t> versions_;
};

}  // namespace

std::vector<std::string> ObjectKeys() {
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < kKeysOfAKind; ++i) {
    keys.push_back(Toggle(i));
    keys.push_back(Overwrite(i));
  }
  return keys;
}

std::vector<std::string> BucketNames() {
  std::vector<std::string> names;
  for (uint64_t i = 0; i < kBuckets; ++i) names.push_back(Bucket(i));
  return names;
}

History MakeHistory(uint64_t seed, size_t count) {
  base::SeededRandom random(seed);
  History history;
  history.answers.resize(count);
  std::vector<std::pair<uint64_t, size_t>> places;
  for (size_t i = 0; i < count; ++i) {
    history.changes.push_back(MakeChange(random));
    places.emplace_back(i + random.Below(kDisorder), i);
    if (random.Below(2) == 0) places.emplace_back(i + random.Below(kSecondDisorder), i);
  }
  std::ranges::sort(places);
  for (const auto& [place, change] : places) history.requests.push_back(change);
  return history;
}

std::vector<std::string> Violations(const History& history, const FinalState& state) {
  return Judge(history).Run(state);
}

}  // namespace forebay::conformance
