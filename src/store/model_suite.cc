// SPDX-License-Identifier: Apache-2.0
// Random operations on the store and on a map, by eight writers at once, each with keys of its own; both must always agree.
// Now and then, when all have stopped, the store is closed and opened again.
#include <algorithm>
#include <map>
#include <memory>

#include "base/checksum.h"
#include "base/random.h"
#include "rt/when_all.h"
#include "store/store_suite.h"

namespace forebay::store {
namespace {

constexpr uint64_t kOperations = 10'000;
constexpr uint64_t kWriters = 8;
constexpr uint64_t kMostAtOnce = 200;  // operations of each writer between two openings
constexpr size_t kMaxReaders = 2;      // of each writer
constexpr size_t kMaxBytes = 600'000;  // of an object, so that what is made of what was made has an end

struct ModelObject {
  std::string content;
  std::string etag;
  UserMetadata metadata;
  UserMetadata attributes{};
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

/// Reports what does not hold; gives whether it does, so that a coroutine can end.
bool Check(const testing::AssertionResult& holds, const std::string& what) {
  if (!holds) ADD_FAILURE() << what << ": " << holds.message();
  return holds;
}
bool Check(bool holds, const std::string& what) { return Check(testing::AssertionResult(holds), what); }

class ModelWriter {
 public:
  ModelWriter(StoreSuite& suite, uint64_t seed, uint64_t number)
      : suite_(suite), random_(seed * kWriters + number), own_(std::to_string(number) + "/") {
    for (const std::string directory : {"", "a/", "a/b/", "a//", "ä/", "z"})
      for (const std::string name : {"x", "y", "1", "%", "\xf4\x8f\xbf\xbf", "name with spaces"})
        keys_.push_back(own_ + directory + name);
  }

  rt::Task<void> Run(uint64_t operations) {
    for (uint64_t i = 0; i < operations && !testing::Test::HasFailure(); ++i) co_await Step();
    for (const OpenVersion& open : readers_) co_await CheckReader(open);
    readers_.clear();
  }

  /// Everything, and that the store agrees about what there is.
  void CompareAll() {
    std::vector<std::string> names;
    for (const auto& [key, object] : objects_) {
      names.push_back(key);
      EXPECT_TRUE(suite_.Holds(key, object.content));
    }
    EXPECT_EQ(suite_.ListAll({.prefix = own_, .limit = 10}), names);
  }

 private:
  uint64_t Below(uint64_t bound) { return random_.Below(bound); }
  const std::string& AnyKey() { return keys_[Below(keys_.size())]; }
  std::string AnyPrefix() {
    const char* const prefixes[] = {"", "a", "a/", "a/b/", "ä/", "z", "none", "new/"};
    return own_ + prefixes[Below(std::size(prefixes))];
  }

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
  /// Of a change of an object that must be there, and what that gives.
  std::pair<Condition, Code> ChangeCondition(const std::string& key) {
    Condition condition = AnyCondition(key);
    if (condition.kind == Condition::Kind::kIfAbsent) condition = Condition::None();
    const ModelObject* object = Find(key);
    return {condition, object == nullptr ? Code::kNotFound : ExpectedCode(condition, object)};
  }

  rt::Task<void> Step() {
    const uint64_t dice = Below(490);
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
    if (dice < 470) return SetSomeAttributes();
    return StatOne();
  }

  rt::Task<void> PutOne() {
    const std::string key = AnyKey();
    PutOptions options{.condition = AnyCondition(key)};
    if (Below(3) == 0) options.metadata["n"] = std::to_string(Below(1000));
    ModelObject object{.content = AnyContent(), .etag = "", .metadata = options.metadata};
    if (Below(2) == 0) options.size_bytes = object.content.size();
    const Code expected = ExpectedCode(options.condition, Find(key));
    const Result<ObjectInfo> put =
        co_await PutContent(suite_.store(), suite_.MakeContext(), StoreSuite::kBucket, key, object.content,
                            std::move(options), 4096 << Below(7));
    if (!Check(Is(put, expected), "put " + key) || !put.ok()) co_return;
    Check(put->crc32c == base::Crc32c(AsBytes(object.content)), "the checksum of " + key);
    object.etag = put->etag;
    objects_[key] = std::move(object);
  }

  rt::Task<void> OverwriteOne() {
    const std::string key = AnyKey();
    const ModelObject* object = Find(key);
    const size_t size = object == nullptr ? 0 : object->content.size();
    OverwriteOptions options;
    Code expected = Code::kOk;
    std::tie(options.condition, expected) = ChangeCondition(key);
    if (Below(4) != 0) options.offset = Below(3) == 0 ? size + Below(10'000) : Below(size + 1);
    const std::string bytes = AnyContent();
    if (size + bytes.size() > kMaxBytes) co_return;
    if (Below(2) == 0) options.size_bytes = bytes.size();
    const uint64_t at = options.offset.value_or(size);
    const std::string what = fmt::format("overwrite {} by {} bytes at {}", key, bytes.size(), at);
    const Result<ObjectInfo> changed = co_await Overwrite(key, std::move(options), bytes);
    if (!Check(Is(changed, expected), what) || !changed.ok()) co_return;
    std::string& content = objects_[key].content;
    if (!bytes.empty()) {
      if (content.size() < at + bytes.size()) content.resize(at + bytes.size(), '\0');
      content.replace(at, bytes.size(), bytes);
    }
    Check(changed->crc32c == base::Crc32c(AsBytes(content)), what + ": the checksum");
    objects_[key].etag = changed->etag;
  }
  rt::Task<Result<ObjectInfo>> Overwrite(std::string key, OverwriteOptions options, std::string bytes) {
    const Context context = suite_.MakeContext();
    FB_CO_ASSIGN(const std::unique_ptr<ObjectWriter> writer,
                 co_await suite_.store().Overwrite(context, StoreSuite::kBucket, std::move(key), std::move(options)));
    FB_CO_TRY(co_await WriteContent(*writer, context, bytes, 4096 << Below(7)));
    co_return co_await writer->Commit(context, base::Crc32c(AsBytes(bytes)));
  }

  rt::Task<void> TruncateOne() {
    const std::string key = AnyKey();
    const ModelObject* object = Find(key);
    const size_t size = Below(object == nullptr ? 100 : object->content.size() + 20'000);
    const auto [condition, expected] = ChangeCondition(key);
    const Context context = suite_.MakeContext();
    const Result<ObjectInfo> changed =
        co_await suite_.store().Truncate(context, StoreSuite::kBucket, key, size, condition);
    const std::string what = fmt::format("truncate {} to {}", key, size);
    if (!Check(Is(changed, expected), what) || !changed.ok()) co_return;
    objects_[key].content.resize(size, '\0');
    Check(changed->crc32c == base::Crc32c(AsBytes(objects_[key].content)), what + ": the checksum");
    objects_[key].etag = changed->etag;
  }

  rt::Task<void> SetSomeAttributes() {
    const std::string key = AnyKey();
    AttributeChange change;
    Code expected = Code::kOk;
    std::tie(change.condition, expected) = ChangeCondition(key);
    for (const char* const name : {"a", "b", "c"}) {
      if (Below(3) == 0) change.set[name] = std::to_string(Below(100));
      if (Below(3) == 0) change.remove.emplace_back(name);
    }
    const Context context = suite_.MakeContext();
    const Status set = co_await suite_.store().SetAttributes(context, StoreSuite::kBucket, key, 0, change);
    if (!Check(Is(set, expected), "set attributes of " + key) || !set.ok()) co_return;
    UserMetadata& attributes = objects_[key].attributes;
    for (const std::string& name : change.remove) attributes.erase(name);
    for (const auto& [name, value] : change.set) attributes[name] = value;
  }

  rt::Task<void> ComposeOne() {
    if (objects_.empty()) co_return;
    const std::string key = AnyKey();
    std::vector<Source> sources;
    ModelObject object;
    for (uint64_t left = 1 + Below(4); left != 0; --left) {
      const auto source = std::next(objects_.begin(), static_cast<ptrdiff_t>(Below(objects_.size())));
      const std::string& content = source->second.content;
      const size_t offset = Below(2) == 0 ? 0 : Below(content.size() + 1);
      const size_t length = Below(2) == 0 ? content.size() - offset : Below(content.size() - offset + 1);
      if (object.content.size() + length > kMaxBytes) continue;
      sources.push_back({.bucket = StoreSuite::kBucket, .key = source->first, .offset = offset, .length = length});
      object.content += content.substr(offset, length);
    }
    if (sources.empty()) co_return;
    PutOptions options{.condition = AnyCondition(key)};
    const Code expected = ExpectedCode(options.condition, Find(key));
    const Context context = suite_.MakeContext();
    const Result<ObjectInfo> composed = co_await suite_.store().Compose(context, StoreSuite::kBucket, key,
                                                                        std::move(sources), std::move(options));
    if (!Check(Is(composed, expected), "compose " + key) || !composed.ok()) co_return;
    Check(composed->crc32c == base::Crc32c(AsBytes(object.content)), "the checksum of " + key);
    object.etag = composed->etag;
    objects_[key] = std::move(object);
  }

  rt::Task<void> RenameOne() {
    const std::string from = AnyKey();
    const std::string to = AnyKey();
    if (from == to) co_return;
    const Condition condition = AnyCondition(to);
    const Code expected = Find(from) == nullptr ? Code::kNotFound : ExpectedCode(condition, Find(to));
    const Context context = suite_.MakeContext();
    const Status renamed =
        co_await suite_.store().Rename(context, StoreSuite::kBucket, from, to, {.target = condition});
    if (!Check(Is(renamed, expected), "rename " + from + " to " + to) || !renamed.ok()) co_return;
    objects_[to] = std::move(objects_[from]);
    objects_.erase(from);
  }

  rt::Task<void> RenameSome() {
    const std::string from = AnyPrefix();
    const std::string to = AnyPrefix();
    if (from == to || StoreSuite::Refuses(Refusal::kRenamePrefix)) co_return;
    std::map<std::string, ModelObject> renamed;
    std::map<std::string, ModelObject> stay;
    for (const auto& [key, object] : objects_) {
      if (key.starts_with(from)) {
        renamed[to + key.substr(from.size())] = object;
      } else {
        stay[key] = object;
      }
    }
    const bool in_the_way = std::ranges::any_of(renamed, [&](const auto& one) { return stay.contains(one.first); });
    const Code expected = renamed.empty() ? Code::kNotFound : in_the_way ? Code::kAlreadyExists : Code::kOk;
    const Context context = suite_.MakeContext();
    const Result<uint64_t> result = co_await suite_.store().RenamePrefix(context, StoreSuite::kBucket, from, to);
    const std::string what = "rename all of `" + from + "` to `" + to + "`";
    if (!Check(Is(result, expected), what) || !result.ok()) co_return;
    Check(*result == renamed.size(), what + ": how many");
    objects_ = std::move(stay);
    objects_.merge(renamed);
  }

  rt::Task<void> AbandonOne() {
    const std::string key = AnyKey();
    const Context context = suite_.MakeContext();
    const auto writer = co_await suite_.store().Put(context, StoreSuite::kBucket, key, {});
    if (!Check(Is(writer, Code::kOk), "begin a put of " + key)) co_return;
    const std::string content = AnyContent();
    Check(Is(co_await WriteContent(**writer, context, content, 65'536), Code::kOk), "write " + key);
    if (Below(2) != 0) co_return;
    const Result<ObjectInfo> refused = co_await (*writer)->Commit(context, ~base::Crc32c(AsBytes(content)));
    Check(Is(refused, Code::kDataLoss), "commit a wrong checksum of " + key);
  }

  rt::Task<void> GetOne() {
    const std::string key = AnyKey();
    const ModelObject* object = Find(key);
    const Result<std::string> got =
        co_await GetContent(suite_.store(), suite_.MakeContext(), StoreSuite::kBucket, key, {});
    if (!Check(Is(got, object != nullptr ? Code::kOk : Code::kNotFound), "get " + key)) co_return;
    if (object != nullptr) Check(*got == object->content, "the content of " + key);
  }

  rt::Task<Result<std::unique_ptr<ObjectReader>>> Open(std::string key, Condition condition) {
    const Context context = suite_.MakeContext();
    co_return co_await suite_.store().Open(context, StoreSuite::kBucket, std::move(key), std::move(condition));
  }

  rt::Task<void> ReadSomeOf() {
    const std::string key = AnyKey();
    const ModelObject* object = Find(key);
    if (object == nullptr) co_return;
    const auto reader = co_await Open(key, Condition::IfMatch(object->etag));
    if (!Check(Is(reader, Code::kOk), "open " + key)) co_return;
    const size_t offset = Below(object->content.size() + 1);
    const size_t length = Below(object->content.size() - offset + 1);
    const Result<std::string> got = co_await ReadRange(**reader, suite_.MakeContext(), offset, length);
    const std::string what = fmt::format("read {} bytes at {} of {}", length, offset, key);
    if (Check(Is(got, Code::kOk), what)) Check(*got == object->content.substr(offset, length), what);
  }

  rt::Task<void> DeleteOne() {
    const std::string key = AnyKey();
    const auto [condition, expected] = ChangeCondition(key);
    const Context context = suite_.MakeContext();
    const Status deleted = co_await suite_.store().Delete(context, StoreSuite::kBucket, key, condition);
    if (Check(Is(deleted, expected), "delete " + key) && deleted.ok()) objects_.erase(key);
  }

  rt::Task<void> KeepOpen() {
    const std::string key = AnyKey();
    const ModelObject* object = Find(key);
    if (object == nullptr) co_return;
    auto reader = co_await Open(key, {});
    if (!Check(Is(reader, Code::kOk), "open " + key)) co_return;
    if (readers_.size() == kMaxReaders) {
      co_await CheckReader(readers_.front());
      readers_.erase(readers_.begin());
    }
    readers_.push_back({*std::move(reader), object->content});
  }
  rt::Task<void> CheckReader(const OpenVersion& open) {
    const Result<std::string> got = co_await ReadContent(*open.reader, suite_.MakeContext(), 65'536);
    Check(got.value_or("failed") == open.content, "a reader keeps its version of " + open.reader->info().key);
  }

  rt::Task<void> ListSome() {
    const char* const delimiters[] = {"", "/", "//", "b/", " "};
    ListOptions options{.prefix = AnyPrefix(),
                        .delimiter = delimiters[Below(std::size(delimiters))],
                        .limit = static_cast<uint32_t>(1 + Below(12))};
    const std::string what = fmt::format("list `{}` by `{}` in pages of {}", options.prefix, options.delimiter, options.limit);
    std::set<std::string> keys;
    for (const auto& [key, object] : objects_) keys.insert(key);
    const std::vector<std::string> expected = ExpectedListing(keys, options.prefix, options.delimiter);
    std::vector<std::string> entries;
    for (bool more = true; more;) {
      const Context context = suite_.MakeContext();
      const Result<ListPage> page = co_await suite_.store().List(context, StoreSuite::kBucket, options);
      if (!Check(Is(page, Code::kOk), what)) co_return;
      std::ranges::copy(EntriesOf(*page), std::back_inserter(entries));
      options.start_after = page->next_start_after;
      more = page->truncated;
    }
    Check(entries == expected, what);
  }

  rt::Task<void> StatOne() {
    const std::string key = AnyKey();
    const ModelObject* object = Find(key);
    const Context context = suite_.MakeContext();
    const Result<ObjectInfo> info = co_await suite_.store().Stat(context, StoreSuite::kBucket, key);
    if (!Check(Is(info, object != nullptr ? Code::kOk : Code::kNotFound), "stat " + key) || object == nullptr) co_return;
    Check(info->size_bytes == object->content.size() && info->etag == object->etag && info->metadata == object->metadata &&
              info->attributes == object->attributes,
          "what stat says of " + key);
  }

  StoreSuite& suite_;
  base::SeededRandom random_;
  const std::string own_;  // what all keys of this writer begin with
  std::vector<std::string> keys_;
  std::map<std::string, ModelObject> objects_;
  std::vector<OpenVersion> readers_;
};

TEST_P(StoreSuite, AgreesWithAModelOverRandomOperationsOfEightWriters) {
  const uint64_t seed = TestSeed(20240601);
  SCOPED_TRACE(testing::Message() << "FOREBAY_SEED=" << seed);
  base::SeededRandom random(seed);
  std::vector<std::unique_ptr<ModelWriter>> writers;
  for (uint64_t i = 0; i < kWriters; ++i) writers.push_back(std::make_unique<ModelWriter>(*this, seed, i));
  for (uint64_t done = 0; done < kOperations / kWriters && !HasFailure();) {
    const uint64_t operations = std::min(kOperations / kWriters - done, 1 + random.Below(kMostAtOnce));
    std::vector<rt::Task<void>> tasks;
    tasks.reserve(kWriters);
    for (const auto& writer : writers) tasks.push_back(writer->Run(operations));
    Run(rt::WhenAll(std::move(tasks)));
    done += operations;
    Reopen();
    if (done == kOperations / kWriters || random.Below(3) == 0)
      for (const auto& writer : writers) writer->CompareAll();
  }
}

}  // namespace
}  // namespace forebay::store
