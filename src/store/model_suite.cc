// SPDX-License-Identifier: Apache-2.0
// Random operations on the store and on a map; both must always agree.
#include <algorithm>
#include <map>

#include "base/checksum.h"
#include "base/random.h"
#include "store/store_suite.h"

namespace forebay::store {
namespace {

constexpr int kOperations = 2000;
constexpr size_t kMaxReaders = 4;
constexpr size_t kMaxComposedBytes = 600'000;  // of an object, so that what is made of what was made has an end

struct ModelObject {
  std::string content;
  std::string etag;
  UserMetadata metadata;
};

/// A reader and what it must go on to read.
struct OpenVersion {
  std::unique_ptr<ObjectReader> reader;
  std::string content;
};

/// The code that a conditional change of `object` (null: there is none) must give.
Code ExpectedCode(const Condition& condition, const ModelObject* object) {
  switch (condition.kind) {
    case Condition::Kind::kNone:
      return Code::kOk;
    case Condition::Kind::kIfAbsent:
      return object == nullptr ? Code::kOk : Code::kAlreadyExists;
    case Condition::Kind::kIfMatch:
      if (object == nullptr) return Code::kNotFound;
      return object->etag == condition.etag ? Code::kOk : Code::kFailedPrecondition;
  }
  return Code::kUnknown;
}

class ModelRun {
 public:
  ModelRun(StoreSuite& suite, uint64_t seed) : suite_(suite), random_(seed) {
    for (const std::string directory : {"", "a/", "a/b/", "a//", "ä/", "z"})
      for (const std::string name : {"x", "y", "1", "%", "\xf4\x8f\xbf\xbf", "name with spaces"})
        keys_.push_back(directory + name);
  }

  void Step() {
    const uint64_t dice = Below(470);
    if (dice == 0) return Reopen();
    if (dice < 110) return PutOne();
    if (dice < 140) return AbandonOne();
    if (dice < 220) return GetOne();
    if (dice < 260) return ReadSomeOf();
    if (dice < 310) return DeleteOne();
    if (dice < 330) return KeepOpen();
    if (dice < 350) return ListSome();
    if (dice < 370) return ComposeOne();
    if (dice < 385) return RenameOne();
    if (dice < 388) return RenameSome();
    if (dice < 440) return OverwriteOne();
    if (dice < 455) return TruncateOne();
    return StatOne();
  }

  /// Everything, and that the store agrees about what there is.
  void CompareAll() {
    std::vector<std::string> names;
    for (const auto& [key, object] : objects_) {
      names.push_back(key);
      const Result<std::string> got = suite_.Get(key);
      ASSERT_TRUE(Is(got, Code::kOk)) << key;
      EXPECT_TRUE(*got == object.content) << key;
    }
    EXPECT_EQ(suite_.ListAll({.limit = 10}), names);
  }

 private:
  uint64_t Below(uint64_t bound) { return random_.Below(bound); }
  const std::string& AnyKey() { return keys_[Below(keys_.size())]; }

  std::string AnyContent() {
    constexpr size_t kSizes[] = {0, 1, 100, 1024, 1025, 4095, 4096, 4097, 65'535, 65'536, 65'537, 150'000};
    size_t size = kSizes[Below(std::size(kSizes))];
    if (Below(2) == 0) size = Below(size + 1);
    return MakeContent(random_.Next64(), size);
  }

  const ModelObject* Find(const std::string& key) const {
    const auto found = objects_.find(key);
    return found == objects_.end() ? nullptr : &found->second;
  }

  Condition AnyCondition(const std::string& key) {
    const ModelObject* object = Find(key);
    switch (Below(5)) {
      case 0:
        return Condition::IfAbsent();
      case 1:
        return Condition::IfMatch(object != nullptr ? object->etag : "none");
      case 2:
        return Condition::IfMatch("wrong");
      default:
        return Condition::None();
    }
  }

  /// Of a change of an object that must be there.
  Condition ChangeCondition(const std::string& key) {
    Condition condition = AnyCondition(key);
    return condition.kind == Condition::Kind::kIfAbsent ? Condition::None() : condition;
  }

  void PutOne() {
    const std::string key = AnyKey();
    PutOptions options{.condition = AnyCondition(key)};
    if (Below(3) == 0) options.metadata["n"] = std::to_string(Below(1000));
    ModelObject object{.content = AnyContent(), .etag = "", .metadata = options.metadata};
    if (Below(2) == 0) options.size_bytes = object.content.size();
    const Code expected = ExpectedCode(options.condition, Find(key));
    const Result<ObjectInfo> put = suite_.Put(key, object.content, std::move(options), 4096 << Below(7));
    ASSERT_TRUE(Is(put, expected)) << key;
    if (!put.ok()) return;
    EXPECT_EQ(put->crc32c, base::Crc32c(AsBytes(object.content)));
    object.etag = put->etag;
    objects_[key] = std::move(object);
  }

  void ComposeOne() {
    if (objects_.empty()) return;
    const std::string key = AnyKey();
    std::vector<Source> sources;
    ModelObject object{.content = "", .etag = "", .metadata = {}};
    for (uint64_t left = 1 + Below(4); left != 0; --left) {
      const auto source = std::next(objects_.begin(), static_cast<ptrdiff_t>(Below(objects_.size())));
      const std::string& content = source->second.content;
      const size_t offset = Below(2) == 0 ? 0 : Below(content.size() + 1);
      const size_t length = Below(2) == 0 ? content.size() - offset : Below(content.size() - offset + 1);
      if (object.content.size() + length > kMaxComposedBytes) continue;
      sources.push_back({.bucket = StoreSuite::kBucket, .key = source->first, .offset = offset, .length = length});
      object.content += content.substr(offset, length);
    }
    if (sources.empty()) return;
    PutOptions options{.condition = AnyCondition(key)};
    const Code expected = ExpectedCode(options.condition, Find(key));
    const Context context = suite_.MakeContext();
    const Result<ObjectInfo> composed = suite_.Run(
        suite_.store().Compose(context, StoreSuite::kBucket, key, std::move(sources), std::move(options)));
    ASSERT_TRUE(Is(composed, expected)) << key;
    if (!composed.ok()) return;
    EXPECT_EQ(composed->crc32c, base::Crc32c(AsBytes(object.content)));
    object.etag = composed->etag;
    objects_[key] = std::move(object);
  }

  void OverwriteOne() {
    const std::string key = AnyKey();
    const ModelObject* object = Find(key);
    const size_t size = object == nullptr ? 0 : object->content.size();
    OverwriteOptions options{.condition = ChangeCondition(key)};
    if (Below(4) != 0) options.offset = Below(3) == 0 ? size + Below(10'000) : Below(size + 1);
    const std::string bytes = AnyContent();
    if (size + bytes.size() > kMaxComposedBytes) return;
    if (Below(2) == 0) options.size_bytes = bytes.size();
    const uint64_t at = options.offset.value_or(size);
    const Code expected = object == nullptr ? Code::kNotFound : ExpectedCode(options.condition, object);
    const auto overwrite = [&]() -> rt::Task<Result<ObjectInfo>> {
      const Context context = suite_.MakeContext();
      FB_CO_ASSIGN(const std::unique_ptr<ObjectWriter> writer,
                   co_await suite_.store().Overwrite(context, StoreSuite::kBucket, key, options));
      FB_CO_TRY(co_await WriteContent(*writer, context, bytes, 4096 << Below(7)));
      co_return co_await writer->Commit(context, base::Crc32c(AsBytes(bytes)));
    };
    const Result<ObjectInfo> changed = suite_.Run(overwrite());
    ASSERT_TRUE(Is(changed, expected)) << key;
    if (!changed.ok()) return;
    std::string& content = objects_[key].content;
    if (!bytes.empty()) {
      if (content.size() < at + bytes.size()) content.resize(at + bytes.size(), '\0');
      content.replace(at, bytes.size(), bytes);
    }
    EXPECT_EQ(changed->crc32c, base::Crc32c(AsBytes(content))) << key << ": " << bytes.size() << " at " << at;
    objects_[key].etag = changed->etag;
  }

  void TruncateOne() {
    const std::string key = AnyKey();
    const ModelObject* object = Find(key);
    const size_t size = Below(object == nullptr ? 100 : object->content.size() + 20'000);
    const Condition condition = ChangeCondition(key);
    const Code expected = object == nullptr ? Code::kNotFound : ExpectedCode(condition, object);
    const Context context = suite_.MakeContext();
    const Result<ObjectInfo> changed =
        suite_.Run(suite_.store().Truncate(context, StoreSuite::kBucket, key, size, condition));
    ASSERT_TRUE(Is(changed, expected)) << key;
    if (!changed.ok()) return;
    objects_[key].content.resize(size, '\0');
    EXPECT_EQ(changed->crc32c, base::Crc32c(AsBytes(objects_[key].content))) << key << " to " << size;
    objects_[key].etag = changed->etag;
  }

  void RenameOne() {
    const std::string from = AnyKey();
    const std::string to = AnyKey();
    if (from == to) return;
    const Condition condition = AnyCondition(to);
    const ModelObject* object = Find(from);
    const Code expected = object == nullptr ? Code::kNotFound : ExpectedCode(condition, Find(to));
    const Context context = suite_.MakeContext();
    ASSERT_TRUE(Is(suite_.Run(suite_.store().Rename(context, StoreSuite::kBucket, from, to, {.target = condition})),
                   expected))
        << from << " to " << to;
    if (expected != Code::kOk) return;
    objects_[to] = std::move(objects_[from]);
    objects_.erase(from);
  }

  void RenameSome() {
    const std::string prefixes[] = {"", "a", "a/", "a/b/", "ä/", "z", "none", "new/"};
    const std::string from = prefixes[Below(std::size(prefixes))];
    const std::string to = prefixes[Below(std::size(prefixes))];
    if (from == to) return;
    std::map<std::string, ModelObject> renamed;
    std::map<std::string, ModelObject> stay;
    bool no_key = false;
    for (const auto& [key, object] : objects_) {
      if (!key.starts_with(from)) {
        stay[key] = object;
        continue;
      }
      renamed[to + key.substr(from.size())] = object;
      no_key = no_key || to.size() + key.size() == from.size();
    }
    const bool in_the_way = std::ranges::any_of(renamed, [&](const auto& one) { return stay.contains(one.first); });
    const Context context = suite_.MakeContext();
    const Result<uint64_t> result =
        suite_.Run(suite_.store().RenamePrefix(context, StoreSuite::kBucket, from, to));
    const std::string what = "`" + from + "` to `" + to + "`";
    if (renamed.empty()) {
      ASSERT_TRUE(Is(result, Code::kNotFound)) << what;
    } else if (no_key || in_the_way) {
      ASSERT_FALSE(result.ok()) << what;
    } else {
      ASSERT_TRUE(Is(result, Code::kOk)) << what;
      EXPECT_EQ(*result, renamed.size()) << what;
      objects_ = std::move(stay);
      objects_.merge(renamed);
    }
  }

  void AbandonOne() {
    const std::string key = AnyKey();
    auto writer = suite_.BeginPut(key);
    ASSERT_TRUE(Is(writer, Code::kOk));
    const std::string content = AnyContent();
    ASSERT_TRUE(Is(suite_.Write(**writer, content), Code::kOk));
    if (Below(2) == 0) {
      EXPECT_TRUE(Is(suite_.Commit(**writer, ~base::Crc32c(AsBytes(content))), Code::kDataLoss));
    }
  }

  void GetOne() {
    const std::string key = AnyKey();
    const ModelObject* object = Find(key);
    const Result<std::string> got = suite_.Get(key);
    ASSERT_TRUE(Is(got, object != nullptr ? Code::kOk : Code::kNotFound)) << key;
    if (object != nullptr) {
      EXPECT_TRUE(*got == object->content) << key;
    }
  }

  void ReadSomeOf() {
    const std::string key = AnyKey();
    const ModelObject* object = Find(key);
    if (object == nullptr) return;
    const auto reader = suite_.Open(key, Condition::IfMatch(object->etag));
    ASSERT_TRUE(Is(reader, Code::kOk)) << key;
    const size_t offset = Below(object->content.size() + 1);
    const size_t length = Below(object->content.size() - offset + 1);
    const Result<std::string> got = suite_.Read(**reader, offset, length);
    ASSERT_TRUE(Is(got, Code::kOk)) << key << " " << offset << " + " << length;
    EXPECT_TRUE(*got == object->content.substr(offset, length)) << key << " " << offset << " + " << length;
  }

  void DeleteOne() {
    const std::string key = AnyKey();
    Condition condition = Below(2) == 0 ? Condition::None() : AnyCondition(key);
    if (condition.kind == Condition::Kind::kIfAbsent) condition = Condition::None();
    const ModelObject* object = Find(key);
    const Code expected = object == nullptr ? Code::kNotFound : ExpectedCode(condition, object);
    ASSERT_TRUE(Is(suite_.Delete(key, condition), expected)) << key;
    if (expected == Code::kOk) objects_.erase(key);
  }

  void KeepOpen() {
    const std::string key = AnyKey();
    const ModelObject* object = Find(key);
    if (object == nullptr) return;
    auto reader = suite_.Open(key);
    ASSERT_TRUE(Is(reader, Code::kOk)) << key;
    if (readers_.size() == kMaxReaders) {
      CheckReaders();
      readers_.erase(readers_.begin() + static_cast<ptrdiff_t>(Below(kMaxReaders)));
    }
    readers_.push_back({*std::move(reader), object->content});
  }

  void Reopen() {
    CheckReaders();
    readers_.clear();
    suite_.Reopen();
    CompareAll();
  }

  void CheckReaders() {
    for (const OpenVersion& open : readers_)
      EXPECT_TRUE(suite_.Run(ReadContent(*open.reader, suite_.MakeContext(), 65'536)).value_or("failed") ==
                  open.content);
  }

  void ListSome() {
    const std::string prefixes[] = {"", "a", "a/", "a/b/", "ä/", "z", "none"};
    const std::string delimiters[] = {"", "/", "//", "b/", " "};
    ListOptions options{.prefix = prefixes[Below(std::size(prefixes))],
                        .delimiter = delimiters[Below(std::size(delimiters))],
                        .limit = static_cast<uint32_t>(1 + Below(12))};
    std::set<std::string> keys;
    for (const auto& [key, object] : objects_) keys.insert(key);
    EXPECT_EQ(suite_.ListAll(options), ExpectedListing(keys, options.prefix, options.delimiter))
        << "prefix `" << options.prefix << "` delimiter `" << options.delimiter << "` limit "
        << options.limit;
  }

  void StatOne() {
    const std::string key = AnyKey();
    const ModelObject* object = Find(key);
    const Result<ObjectInfo> info = suite_.Stat(key);
    ASSERT_TRUE(Is(info, object != nullptr ? Code::kOk : Code::kNotFound)) << key;
    if (object == nullptr) return;
    EXPECT_EQ(info->size_bytes, object->content.size());
    EXPECT_EQ(info->etag, object->etag);
    EXPECT_EQ(info->metadata, object->metadata);
  }

  StoreSuite& suite_;
  base::SeededRandom random_;
  std::vector<std::string> keys_;
  std::map<std::string, ModelObject> objects_;
  std::vector<OpenVersion> readers_;
};

TEST_P(StoreSuite, AgreesWithAModelOverRandomOperations) {
  const uint64_t seed = TestSeed(20240601);
  SCOPED_TRACE(testing::Message() << "FOREBAY_SEED=" << seed);
  ModelRun run(*this, seed);
  for (int i = 0; i < kOperations && !HasFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "operation " << i);
    run.Step();
  }
  run.CompareAll();
}

}  // namespace
}  // namespace forebay::store
