// SPDX-License-Identifier: Apache-2.0
// The behaviour suite of ObjectStore: every backend passes the same tests, StoreSuite.*, in *_suite.cc beside
// this file. A backend's test program links the target `store_suite` (forebay_test(... DEPS my_backend
// store_suite)) and says:
//
//   INSTANTIATE_TEST_SUITE_P(Memory, StoreSuite, testing::Values(StoreBackend{"memory", MakeMemoryFixture}),
//   BackendName);
//
// The store under test needs room for some 64 MiB of content and arena memory for 8 MiB of readers and
// writers. Reactor-local: the helpers block the test's own thread on the fixture's reactor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/status.h"
#include "rt/reactor.h"
#include "rt/reactor_thread.h"
#include "rt/task.h"
#include "store/object_store.h"

namespace forebay::store {

/// One empty store of the backend under test, and the reactor of the test's thread. Made anew for each test.
class StoreFixture {
 public:
  virtual ~StoreFixture() = default;
  virtual ObjectStore& store() = 0;
  virtual rt::Reactor& reactor() = 0;
  /// Closes the store and opens it again on the same content; called without readers and writers. False, with
  /// nothing done, when the backend has no such thing. A failure is reported with ADD_FAILURE.
  virtual bool Reopen() { return false; }
  /// Moves the store's clock on. False, with nothing done, when it is the machine's.
  virtual bool PassTime(base::Duration /*time*/) { return false; }
};

/// What a backend may refuse: by name, with Unimplemented and the way out.
enum class Refusal : uint8_t {
  kVersioning,    // buckets that keep versions
  kCacheClass,
  kRenamePrefix,  // of prefixes other than those that are one whole directory
  kTenants,       // contexts of several tenants, their quotas, and the system's own bucket
  kUsage,         // StoreUsage: it has no devices of its own
};

struct StoreBackend {
  std::string name;
  std::function<std::unique_ptr<StoreFixture>()> create;
  std::set<Refusal> refuses{};
};
std::ostream& operator<<(std::ostream& out, const StoreBackend& backend);
/// The last argument of INSTANTIATE_TEST_SUITE_P.
std::string BackendName(const testing::TestParamInfo<StoreBackend>& info);

/// Whether `status` has `code`; says the whole status when not.
testing::AssertionResult Is(const Status& status, Code code);
template <typename T>
testing::AssertionResult Is(const Result<T>& result, Code code) {
  return Is(result.status(), code);
}

std::ostream& operator<<(std::ostream& out, const TenantUsage& usage);

/// `size` bytes that depend on the seed.
std::string MakeContent(uint64_t seed, size_t size);
/// FOREBAY_SEED, or `otherwise`; recorded as a property of the running test.
uint64_t TestSeed(uint64_t otherwise);

/// Writes `content` through `writer` in buffers of at most `step` bytes.
rt::Task<Status> WriteContent(ObjectWriter& writer, Context context, std::string_view content, size_t step);
/// A whole put; `crc32c` goes to Commit.
rt::Task<Result<ObjectInfo>> PutContent(ObjectStore& store, Context context, std::string bucket,
                                        std::string key, std::string content, PutOptions options = {},
                                        size_t step = 65536, std::optional<uint32_t> crc32c = std::nullopt);
/// One Read, checked: its size and checksum are those of its bytes.
rt::Task<Result<std::string>> ReadRange(ObjectReader& reader, Context context, uint64_t offset,
                                        uint64_t length);
/// Everything, by reads of at most `step` bytes.
rt::Task<Result<std::string>> ReadContent(ObjectReader& reader, Context context,
                                          uint64_t step = base::kMaxChunkBytes);
rt::Task<Result<std::string>> GetContent(ObjectStore& store, Context context, std::string bucket,
                                         std::string key, Condition condition = {});

/// What a listing must give over all its pages, straight from the definition: keys, and common prefixes
/// marked with a trailing NUL, which no key holds.
std::vector<std::string> ExpectedListing(const std::set<std::string>& keys, const std::string& prefix,
                                         const std::string& delimiter);
/// The entries of one page in the same form.
std::vector<std::string> EntriesOf(const ListPage& page);

/// First in a test of what a backend may refuse.
#define FB_SKIP_IF_REFUSED(refusal) \
  if (Refuses(refusal)) GTEST_SKIP() << "the backend refuses " #refusal

class StoreSuite : public testing::TestWithParam<StoreBackend> {
 public:
  /// The bucket that is there at the start of each test.
  static constexpr const char* kBucket = "suite";

  ObjectStore& store() { return fixture_->store(); }
  rt::Reactor& reactor() { return fixture_->reactor(); }
  bool Reopen() { return fixture_->Reopen(); }
  bool PassTime(base::Duration time) { return fixture_->PassTime(time); }
  static bool Refuses(Refusal refusal) { return GetParam().refuses.contains(refusal); }
  Context MakeContext() { return Context{.reactor = reactor()}; }
  Context ExpiredContext();

  template <typename T>
  T Run(rt::Task<T> task) {
    return reactor().BlockOn(std::move(task));
  }
  Result<ObjectInfo> Put(const std::string& key, std::string content, PutOptions options = {},
                         size_t step = 65536) {
    return Run(
        PutContent(store(), MakeContext(), kBucket, key, std::move(content), std::move(options), step));
  }
  Result<std::string> Get(const std::string& key, Condition condition = {}) {
    return Run(GetContent(store(), MakeContext(), kBucket, key, std::move(condition)));
  }
  Result<ObjectInfo> Stat(const std::string& key);
  Status Delete(const std::string& key, Condition condition = {});
  Result<ListPage> List(ListOptions options);
  Result<std::unique_ptr<ObjectReader>> Open(const std::string& key, Condition condition = {});
  Result<std::unique_ptr<ObjectWriter>> BeginPut(const std::string& key, PutOptions options = {});
  Status Write(ObjectWriter& writer, std::string_view content) {
    return Run(WriteContent(writer, MakeContext(), content, 65536));
  }
  Result<ObjectInfo> Commit(ObjectWriter& writer, std::optional<uint32_t> crc32c = std::nullopt);
  Result<std::string> Read(ObjectReader& reader, uint64_t offset, uint64_t length) {
    return Run(ReadRange(reader, MakeContext(), offset, length));
  }
  /// Whether the object is exactly `content`, by every way of looking.
  testing::AssertionResult Holds(const std::string& key, const std::string& content);
  /// All entries, page by page of `options.limit`; checks the order and the size of each page.
  std::vector<std::string> ListAll(ListOptions options);

 protected:
  void SetUp() override;

  /// For tests on several reactors: they outlive the store, whose threads post to them.
  std::vector<std::unique_ptr<rt::ReactorThread>> threads_;

 private:
  std::unique_ptr<StoreFixture> fixture_;
};

}  // namespace forebay::store
