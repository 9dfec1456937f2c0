// SPDX-License-Identifier: Apache-2.0
#include "stream.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/checksum.h"
#include "client.h"
#include "rt/when_all.h"

namespace forebay::crash {
namespace {

constexpr uint32_t kOwnKeys = 3;
constexpr uint32_t kSharedKeys = 3;
constexpr const char* kWrongETag = "an-etag-that-never-was";

class Writer {
 public:
  Writer(Lab& lab, Oracle& oracle, uint64_t seed, uint32_t number, std::vector<std::string>& violations)
      : lab_(lab), oracle_(oracle), random_(seed * 1000 + number), number_(number), violations_(violations) {}

  rt::Task<void> Run(uint32_t operations) {
    for (uint32_t i = 0; i < operations && Working(); ++i) {
      const bool own = random_.Below(10) < 7;
      const std::string key = own ? fmt::format("own-{}/{}", number_, random_.Below(kOwnKeys))
                                  : fmt::format("shared/{}", random_.Below(kSharedKeys));
      const uint64_t dice = random_.Below(100);
      if (dice < 60) {
        co_await Put(key, own);
      } else if (dice < 80) {
        co_await Delete(key, own);
      } else if (dice < 93) {
        co_await Get(key, own);
      } else {
        co_await GiveUp(key);
      }
    }
  }

 private:
  bool Working() { return lab_.powered() && lab_.engine().health().ok(); }
  void Wrong(std::string_view what, const std::string& key, const Status& status) {
    violations_.push_back(fmt::format("{} of {}: {}", what, key, status.ToString()));
  }

  uint64_t RandomSize() {
    static constexpr std::array<uint64_t, 7> kSmall = {0, 1, 4095, 4096, 4097, 20 * base::kKiB, 64 * base::kKiB};
    const uint64_t dice = random_.Below(100);
    if (dice < 3) return 4 * base::kMiB + 1;
    if (dice < 9) return base::kMiB;
    if (dice < 20) return 1 + random_.Below(1024);
    return kSmall[random_.Below(kSmall.size())];
  }

  store::Condition RandomCondition(const std::string& key, bool own) {
    switch (random_.Below(6)) {
      case 0: return store::Condition::IfAbsent();
      case 1: return store::Condition::IfMatch(own && oracle_.Certain(key) ? oracle_.ETag(*oracle_.Certain(key)) : kWrongETag);
      case 2: return store::Condition::IfMatch(kWrongETag);
      default: return store::Condition::None();
    }
  }

  /// What the answer to an operation on an own key must be, by the interface's rules.
  Code Expected(const std::string& key, const store::Condition& condition, bool is_delete) {
    const Value value = oracle_.Certain(key);
    using Kind = store::Condition::Kind;
    if (condition.kind == Kind::kIfAbsent) return value ? Code::kAlreadyExists : Code::kOk;
    if (!value) return is_delete || condition.kind == Kind::kIfMatch ? Code::kNotFound : Code::kOk;
    if (condition.kind == Kind::kIfMatch && condition.etag != oracle_.ETag(*value)) return Code::kFailedPrecondition;
    return Code::kOk;
  }

  /// While the store works, an answer that is not expected is wrong, and an error means that nothing was done.
  void Judge(std::string_view what, const std::string& key, const Status& status, std::optional<Code> expected,
             bool full_is_fine, uint64_t operation) {
    if (!Working()) return;  // the answer may have to do with that: then it is as good as none
    if (!status.ok()) oracle_.HadNoEffect(operation);
    if (full_is_fine && status.code() == Code::kResourceExhausted) return;
    if (expected) {
      if (status.code() != *expected) Wrong(fmt::format("{}, which should give {},", what, CodeName(*expected)), key, status);
    } else if (!status.ok() && status.code() != Code::kNotFound && status.code() != Code::kAlreadyExists &&
               status.code() != Code::kFailedPrecondition) {
      Wrong(what, key, status);
    }
  }

  rt::Task<void> Put(std::string key, bool own) {
    const uint64_t size = RandomSize();
    store::PutOptions options{.condition = RandomCondition(key, own)};
    const std::optional<Code> expected = own ? std::optional(Expected(key, options.condition, false)) : std::nullopt;
    const uint64_t generation = oracle_.BeginPut(key, size);
    options.metadata[kGenerationName] = std::to_string(generation);
    if (random_.Below(2) == 0) options.size_bytes = size;
    std::string content = oracle_.Content(generation);
    const uint32_t crc32c = base::Crc32c(AsBytes(content));
    const std::optional<uint32_t> checked = random_.Below(2) == 0 ? std::optional(crc32c) : std::nullopt;
    // Small content in parts would need room that the same content elsewhere does not.
    Way way = random_.Below(2) == 0 ? Way::kPut : static_cast<Way>(random_.Below(kWays));
    if (way == Way::kParts && size <= 1024) way = Way::kPut;
    bool committing = false;
    const Result<store::ObjectInfo> info =
        co_await StoreObject(lab_, way, kTemporaryPrefix + std::to_string(number_), key, std::move(content),
                             std::move(options), checked, &committing);
    if (info.ok()) {
      oracle_.Acknowledged(generation, info->etag);
      if (info->size_bytes != size || info->crc32c != crc32c || GenerationOf(*info) != generation)
        violations_.push_back(fmt::format("put {} of {} is acknowledged as something else", generation, key));
    } else if (!committing) {
      oracle_.HadNoEffect(generation);
    }
    Judge("put", key, info.status(), expected, true, generation);
  }

  rt::Task<void> Delete(std::string key, bool own) {
    const store::Context context = lab_.context();
    store::Condition condition;
    if (own && random_.Below(3) == 0 && oracle_.Certain(key))
      condition = store::Condition::IfMatch(oracle_.ETag(*oracle_.Certain(key)));
    const std::optional<Code> expected = own ? std::optional(Expected(key, condition, true)) : std::nullopt;
    const uint64_t operation = oracle_.BeginDelete(key);
    const Status status = co_await lab_.engine().Delete(context, Lab::kBucket, key, std::move(condition));
    if (status.ok()) oracle_.Acknowledged(operation);
    Judge("delete", key, status, expected, false, operation);
  }

  rt::Task<void> Get(std::string key, bool own) {
    static constexpr std::array<uint64_t, 3> kSteps = {5000, 70'000, base::kMaxChunkBytes};
    const Result<Object> object = co_await GetObject(lab_, key, kSteps[random_.Below(kSteps.size())]);
    if (!object.ok()) {
      if (object.status().code() == Code::kNotFound && (!own || !oracle_.Certain(key))) co_return;
      if (Working()) Wrong("get", key, object.status());
      co_return;
    }
    std::string wrong = oracle_.CheckObject(key, object->info, object->content);
    if (own && wrong.empty()) wrong = oracle_.CheckValue(key, GenerationOf(object->info));
    if (!wrong.empty()) violations_.push_back("while the store works: " + wrong);
  }

  /// A put whose client goes away: it leaves nothing, and its units come back.
  rt::Task<void> GiveUp(std::string key) {
    const store::Context context = lab_.context();
    const Result<std::unique_ptr<store::ObjectWriter>> writer =
        co_await lab_.engine().Put(context, Lab::kBucket, key, {});
    if (!writer.ok()) co_return;
    for (uint64_t left = random_.Below(3); left != 0; --left) {
      Result<base::Buffer> buffer = co_await (*writer)->Allocate(context, 256 * base::kKiB);
      if (!buffer.ok() || buffer->size() % device::kUnit != 0) co_return;
      std::ranges::fill(buffer->writable(), std::byte{0xee});
      if (!(co_await (*writer)->Write(context, *std::move(buffer))).ok()) co_return;
    }
  }

  Lab& lab_;
  Oracle& oracle_;
  base::SeededRandom random_;
  const uint32_t number_;
  std::vector<std::string>& violations_;
};

/// What an operator does who changes his mind: empties one device after the other, and lets it stay.
rt::Task<void> MoveAround(Lab& lab, uint64_t seed, const bool& over) {
  base::SeededRandom random(seed);
  const auto stopped = [&lab, &over] { return over || !lab.powered(); };
  while (!stopped()) {
    const auto device = static_cast<uint32_t>(random.Below(lab.disks()));
    FB_CHECK(lab.engine().SetLeaving(device, true).ok());
    co_await lab.engine().EmptyDevices(lab.reactor(), stopped, UINT64_MAX);
    FB_CHECK(lab.engine().SetLeaving(device, false).ok());
    co_await lab.reactor().Yield();
  }
}

}  // namespace

void RunStream(Lab& lab, Oracle& oracle, const StreamOptions& options, std::vector<std::string>& violations) {
  if (const Status aborted = lab.Run(AbortUploads(lab)); !aborted.ok() && lab.powered())
    violations.push_back("uploads that were left over cannot be given up: " + aborted.ToString());
  std::vector<std::unique_ptr<Writer>> writers;
  std::vector<rt::Task<void>> tasks;
  for (uint32_t number = 0; number < options.writers; ++number) {
    writers.push_back(std::make_unique<Writer>(lab, oracle, options.seed, number, violations));
    tasks.push_back(writers.back()->Run(options.operations));
  }
  bool over = false;
  const auto write = [&]() -> rt::Task<void> {
    co_await rt::WhenAll(std::move(tasks));
    over = true;
  };
  std::vector<rt::Task<void>> all;
  all.push_back(write());
  if (options.moves) all.push_back(MoveAround(lab, options.seed, over));
  lab.reactor().BlockOn(rt::WhenAll(std::move(all)));
}

}  // namespace forebay::crash
