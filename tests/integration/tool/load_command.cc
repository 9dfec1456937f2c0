// SPDX-License-Identifier: Apache-2.0
// load: stores --count objects of --size bytes, in batches, from several threads; their names are --prefix and nine digits.
// check: lists them all, page by page, and reads --gets random ones. Ends with status 1 at the first difference.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "content.h"
#include "tool.h"

namespace forebay::integration {
namespace {

constexpr uint64_t kThreads = 4;
constexpr uint64_t kMaxItems = 256;
constexpr uint64_t kMaxBatchBytes = 4 << 20;

struct Objects {
  std::string bucket;
  std::string prefix;
  uint64_t count;
  uint64_t size;
  uint64_t seed;

  explicit Objects(const Options& options)
      : bucket(options.Text("bucket")),
        prefix(options.Text("prefix", "")),
        count(options.Number("count")),
        size(options.Number("size")),
        seed(options.Number("seed")) {}

  std::string Key(uint64_t number) const { return fmt::format("{}{:09}", prefix, number); }
  uint64_t BatchItems() const { return std::clamp<uint64_t>(kMaxBatchBytes / std::max<uint64_t>(size, 1), 1, kMaxItems); }
};

/// Memory for a batch, offered as one region.
struct Batch {
  Batch(Client& client, const Objects& objects) : memory(std::max<uint64_t>(objects.BatchItems() * objects.size, 1)) {
    auto registered = client.RegisterRegion(memory);
    if (!registered) Die("register: " + Describe(registered.error()));
    region.emplace(*registered);
  }
  std::vector<std::byte> memory;
  std::optional<Region> region;
};

void StoreBatch(Client& client, const Objects& objects, Batch& batch, uint64_t first) {
  const uint64_t end = std::min(first + objects.BatchItems(), objects.count);
  std::vector<PutItem> items;
  for (uint64_t number = first; number < end; ++number) {
    const uint64_t at = (number - first) * objects.size;
    items.push_back({.bucket = objects.bucket, .key = objects.Key(number), .region_offset = at, .length = objects.size});
    FillContent(objects.seed, items.back().key, std::span(batch.memory).subspan(at, objects.size));
  }
  const auto results = client.PutBatch(*batch.region, items);
  if (!results) Die("put: " + Describe(results.error()));
  for (const auto& result : *results)
    if (!result) Die("put: " + Describe(result.error()));
}

void GetRandomBatch(Client& client, const Objects& objects, Batch& batch, uint64_t round) {
  std::vector<GetItem> items;
  for (uint64_t i = 0; i < objects.BatchItems(); ++i) {
    const uint64_t number = Mix(objects.seed + i, fmt::format("random {}", round)) % objects.count;
    items.push_back({.bucket = objects.bucket, .key = objects.Key(number), .region_offset = i * objects.size, .length = objects.size});
  }
  std::ranges::fill(batch.memory, std::byte{0});
  const auto results = client.GetBatch(*batch.region, items);
  if (!results) Die("get: " + Describe(results.error()));
  std::vector<std::byte> expected(objects.size);
  for (size_t i = 0; i < items.size(); ++i) {
    const auto& result = (*results)[i];
    if (!result) Die("get " + items[i].key + ": " + Describe(result.error()));
    FillContent(objects.seed, items[i].key, expected);
    if (result->size != objects.size || std::memcmp(expected.data(), batch.memory.data() + items[i].region_offset, objects.size) != 0)
      Die("the content of " + items[i].key + " is wrong");
  }
}

/// Runs `step` for 0, stride, 2 x stride ... below `end` on several threads, each with a batch of its own.
template <typename Step>
void InParallel(Client& client, const Objects& objects, uint64_t end, uint64_t stride, Step step) {
  std::atomic<uint64_t> next = 0;
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      Batch batch(client, objects);
      for (uint64_t at = next.fetch_add(stride); at < end; at = next.fetch_add(stride)) step(batch, at);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void CheckListing(Client& client, const Objects& objects) {
  uint64_t listed = 0;
  ListOptions options{.prefix = objects.prefix};
  for (;;) {
    const auto page = client.List(objects.bucket, options);
    if (!page) Die("list: " + Describe(page.error()));
    for (const ObjectInfo& object : page->objects) {
      if (object.key != objects.Key(listed)) Die("the listing shows " + object.key + " instead of " + objects.Key(listed));
      if (object.size != objects.size) Die("the listing shows a wrong size of " + object.key);
      ++listed;
    }
    if (!page->truncated) break;
    if (page->objects.size() != options.limit) Die("a page is short and says that there is more");
    options.start_after = page->next_start_after;
  }
  if (listed != objects.count) Die(fmt::format("{} objects are listed instead of {}", listed, objects.count));
}

}  // namespace

int RunLoad(const Options& options) {
  const Objects objects(options);
  const auto client = Connect(options, kThreads);
  InParallel(*client, objects, objects.count, objects.BatchItems(),
             [&](Batch& batch, uint64_t first) { StoreBatch(*client, objects, batch, first); });
  Say("loaded {}", objects.count);
  return 0;
}

int RunCheck(const Options& options) {
  const Objects objects(options);
  const auto client = Connect(options, kThreads);
  CheckListing(*client, objects);
  InParallel(*client, objects, options.Number("gets"), objects.BatchItems(),
             [&](Batch& batch, uint64_t round) { GetRandomBatch(*client, objects, batch, round); });
  Say("checked {}", objects.count);
  return 0;
}

}  // namespace forebay::integration
