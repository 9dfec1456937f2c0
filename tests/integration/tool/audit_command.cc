// SPDX-License-Identifier: Apache-2.0
// audit: lists a bucket and reads every object listed. Says for each one:
//   right KEY           its content is that of MixedContent
//   wrong KEY WHY       it is not, and no error said so
//   failed KEY ERROR    the get failed
// and at the end `listed COUNT`, or `list-failed ERROR` when the listing broke off.
#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "content.h"
#include "tool.h"

namespace forebay::integration {
namespace {

constexpr size_t kReaders = 4;

std::expected<std::vector<ObjectInfo>, Error> ListAll(Client& client, const std::string& bucket, const std::string& prefix) {
  std::vector<ObjectInfo> objects;
  ListOptions options{.prefix = prefix};
  for (;;) {
    auto page = client.List(bucket, options);
    if (!page) return std::unexpected(page.error());
    std::ranges::move(page->objects, std::back_inserter(objects));
    if (!page->truncated) return objects;
    options.start_after = page->next_start_after;
  }
}

void AuditOne(Client& client, const std::string& bucket, const ObjectInfo& object, uint64_t seed) {
  const std::vector<std::byte> expected = MixedContent(seed, object.key);
  if (object.size != expected.size())
    return Say("wrong {} it is listed with {} bytes instead of {}", object.key, object.size, expected.size());
  std::vector<std::byte> content(object.size);
  const auto got = client.Get(bucket, object.key, content);
  if (!got) return Say("failed {} {}", object.key, Describe(got.error()));
  if (got->size != expected.size())
    return Say("wrong {} {} bytes came instead of {}", object.key, got->size, expected.size());
  const auto difference = std::ranges::mismatch(content, expected).in1 - content.begin();
  if (static_cast<size_t>(difference) < content.size()) return Say("wrong {} it differs from byte {}", object.key, difference);
  Say("right {}", object.key);
}

}  // namespace

int RunAudit(const Options& options) {
  const std::string bucket = options.Text("bucket");
  const uint64_t seed = options.Number("seed");
  const auto client = Connect(options, kReaders);
  const auto objects = ListAll(*client, bucket, options.Text("prefix", ""));
  if (!objects) {
    Say("list-failed {}", Describe(objects.error()));
    return 0;
  }
  std::atomic<size_t> next = 0;
  std::vector<std::thread> readers;
  for (size_t i = 0; i < kReaders; ++i) {
    readers.emplace_back([&] {
      for (size_t index = next++; index < objects->size(); index = next++) AuditOne(*client, bucket, (*objects)[index], seed);
    });
  }
  for (std::thread& reader : readers) reader.join();
  Say("listed {}", objects->size());
  return 0;
}

}  // namespace forebay::integration
