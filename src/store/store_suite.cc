// SPDX-License-Identifier: Apache-2.0
#include "store/store_suite.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/checksum.h"
#include "base/random.h"

namespace forebay::store {

std::ostream& operator<<(std::ostream& out, const StoreBackend& backend) { return out << backend.name; }

std::string BackendName(const testing::TestParamInfo<StoreBackend>& info) { return info.param.name; }

testing::AssertionResult Is(const Status& status, Code code) {
  if (status.code() == code) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "expected " << CodeName(code) << ", got " << status.ToString();
}

std::ostream& operator<<(std::ostream& out, const TenantUsage& usage) {
  return out << fmt::format("{} objects of {} bytes in {} buckets, at most {} of {}", usage.objects,
                            usage.bytes, usage.buckets, usage.quota.max_objects, usage.quota.max_bytes);
}

std::string MakeContent(uint64_t seed, size_t size) {
  std::string content(size, '\0');
  base::SeededRandom(seed).Fill(std::as_writable_bytes(std::span(content.data(), content.size())));
  return content;
}

uint64_t TestSeed(uint64_t otherwise) {
  const char* given = std::getenv("FOREBAY_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : otherwise;
  testing::Test::RecordProperty("FOREBAY_SEED", std::to_string(seed));
  return seed;
}

rt::Task<Status> WriteContent(ObjectWriter& writer, Context context, std::string_view content, size_t step) {
  while (!content.empty()) {
    FB_CO_ASSIGN(base::Buffer buffer, co_await writer.Allocate(context, std::min(step, content.size())));
    size_t take = buffer.size();
    if (take < content.size()) take = base::RoundDown(take, base::Arena::kPage);
    EXPECT_GT(take, 0U) << "Allocate gave less than a page";
    EXPECT_LE(take, content.size()) << "Allocate gave more than was asked for";
    std::memcpy(buffer.writable().data(), content.data(), take);
    FB_CO_TRY(co_await writer.Write(context, buffer.Slice(0, take)));
    content.remove_prefix(take);
  }
  co_return Status();
}

rt::Task<Result<ObjectInfo>> PutContent(ObjectStore& store, Context context, std::string bucket,
                                        std::string key, std::string content, PutOptions options, size_t step,
                                        std::optional<uint32_t> crc32c) {
  FB_CO_ASSIGN(const std::unique_ptr<ObjectWriter> writer,
               co_await store.Put(context, std::move(bucket), std::move(key), std::move(options)));
  FB_CO_TRY(co_await WriteContent(*writer, context, content, step));
  co_return co_await writer->Commit(context, crc32c);
}

rt::Task<Result<std::string>> ReadRange(ObjectReader& reader, Context context, uint64_t offset,
                                        uint64_t length) {
  FB_CO_ASSIGN(const ReadData data, co_await reader.Read(context, offset, length));
  std::string content;
  for (const base::Buffer& buffer : data.buffers) content += AsText(buffer.view());
  EXPECT_EQ(data.size_bytes, length);
  EXPECT_EQ(content.size(), length);
  EXPECT_EQ(data.crc32c, base::Crc32c(AsBytes(content))) << "range " << offset << " + " << length;
  co_return content;
}

rt::Task<Result<std::string>> ReadContent(ObjectReader& reader, Context context, uint64_t step) {
  std::string content;
  const uint64_t size = reader.info().size_bytes;
  while (content.size() < size) {
    FB_CO_ASSIGN(const std::string part, co_await ReadRange(reader, context, content.size(),
                                                            std::min<uint64_t>(step, size - content.size())));
    if (part.empty()) co_return Status::Internal("a read of some bytes gave none");
    content += part;
  }
  co_return content;
}

rt::Task<Result<std::string>> GetContent(ObjectStore& store, Context context, std::string bucket,
                                         std::string key, Condition condition) {
  FB_CO_ASSIGN(const std::unique_ptr<ObjectReader> reader,
               co_await store.Open(context, std::move(bucket), std::move(key), std::move(condition)));
  co_return co_await ReadContent(*reader, context);
}

std::vector<std::string> ExpectedListing(const std::set<std::string>& keys, const std::string& prefix,
                                         const std::string& delimiter) {
  std::set<std::string> entries;
  for (const std::string& key : keys) {
    if (key.substr(0, prefix.size()) != prefix) continue;
    const std::string rest = key.substr(prefix.size());
    const size_t at = delimiter.empty() ? std::string::npos : rest.find(delimiter);
    entries.insert(at == std::string::npos ? key : prefix + rest.substr(0, at) + delimiter + '\0');
  }
  return {entries.begin(), entries.end()};
}

std::vector<std::string> EntriesOf(const ListPage& page) {
  std::vector<std::string> entries;
  for (const ObjectInfo& object : page.objects) entries.push_back(object.key);
  for (const std::string& prefix : page.common_prefixes) entries.push_back(prefix + '\0');
  std::ranges::sort(entries);
  return entries;
}

void StoreSuite::SetUp() {
  const std::string_view file = testing::UnitTest::GetInstance()->current_test_info()->file();
  if (Refuses(Refusal::kVersioning) && file.ends_with("versions_suite.cc"))
    GTEST_SKIP() << "this backend refuses to keep versions, by name: RefusesByNameWhatItCannotDo";
  if (file.ends_with("cache_suite.cc") && (Refuses(Refusal::kCacheClass) || Refuses(Refusal::kTenants)))
    GTEST_SKIP() << "this backend has no cache buckets, or not the tenants that these tests need";
  fixture_ = GetParam().create();
  ASSERT_NE(fixture_, nullptr);
  const Context context = MakeContext();
  ASSERT_TRUE(Is(Run(store().CreateBucket(context, {.name = kBucket})), Code::kOk));
}

Context StoreSuite::ExpiredContext() {
  return Context{.reactor = reactor(), .deadline = reactor().clock().Now() - std::chrono::milliseconds(1)};
}

// Each of these keeps the context alive for as long as the call runs.
Result<ObjectInfo> StoreSuite::Stat(const std::string& key) {
  const Context context = MakeContext();
  return Run(store().Stat(context, kBucket, key));
}

Status StoreSuite::Delete(const std::string& key, Condition condition) {
  const Context context = MakeContext();
  return Run(store().Delete(context, kBucket, key, std::move(condition)));
}

Result<ListPage> StoreSuite::List(ListOptions options) {
  const Context context = MakeContext();
  return Run(store().List(context, kBucket, std::move(options)));
}

Result<std::unique_ptr<ObjectReader>> StoreSuite::Open(const std::string& key, Condition condition) {
  const Context context = MakeContext();
  return Run(store().Open(context, kBucket, key, std::move(condition)));
}

Result<std::unique_ptr<ObjectWriter>> StoreSuite::BeginPut(const std::string& key, PutOptions options) {
  const Context context = MakeContext();
  return Run(store().Put(context, kBucket, key, std::move(options)));
}

Result<ObjectInfo> StoreSuite::Commit(ObjectWriter& writer, std::optional<uint32_t> crc32c) {
  const Context context = MakeContext();
  return Run(writer.Commit(context, crc32c));
}

testing::AssertionResult StoreSuite::Holds(const std::string& key, const std::string& content) {
  const Result<ObjectInfo> info = Stat(key);
  if (!info.ok()) return testing::AssertionFailure() << key << ": " << info.status().ToString();
  if (info->size_bytes != content.size())
    return testing::AssertionFailure() << key << " has " << info->size_bytes << " bytes, not " << content.size();
  if (info->crc32c != base::Crc32c(AsBytes(content))) return testing::AssertionFailure() << key << ": checksum";
  const Result<std::string> got = Get(key);
  if (!got.ok()) return testing::AssertionFailure() << key << ": " << got.status().ToString();
  if (*got == content) return testing::AssertionSuccess();
  const auto differs = std::ranges::mismatch(*got, content).in1 - got->begin();
  return testing::AssertionFailure() << key << " has other content from byte " << differs << " on";
}

std::vector<std::string> StoreSuite::ListAll(ListOptions options) {
  std::vector<std::string> all;
  for (int pages = 0; pages < 10'000; ++pages) {
    const Result<ListPage> page = List(options);
    if (!page.ok()) {
      ADD_FAILURE() << page.status().ToString();
      return all;
    }
    EXPECT_TRUE(std::ranges::is_sorted(page->objects, {}, &ObjectInfo::key));
    EXPECT_TRUE(std::ranges::is_sorted(page->common_prefixes));
    const std::vector<std::string> entries = EntriesOf(*page);
    EXPECT_LE(entries.size(), options.limit);
    EXPECT_TRUE(all.empty() || entries.empty() || all.back() < entries.front());
    all.insert(all.end(), entries.begin(), entries.end());
    if (!page->truncated) return all;
    EXPECT_EQ(entries.size(), options.limit) << "a page that is not full must be the last";
    options.start_after = page->next_start_after;
  }
  ADD_FAILURE() << "paging does not come to an end";
  return all;
}

}  // namespace forebay::store
