// SPDX-License-Identifier: Apache-2.0
// write: a stream of puts and deletes from several threads until the server is gone. Says what was acknowledged:
//   put KEY          the put of KEY was acknowledged
//   deleting KEY     a delete of KEY is about to be sent: from here on KEY may be there or not
//   deleted KEY      and was acknowledged
//   stopped ERROR    a writer met an error, and is done
#include <atomic>
#include <thread>
#include <vector>

#include "content.h"
#include "tool.h"

namespace forebay::integration {
namespace {

constexpr size_t kPieceBytes = 256 * 1024;

struct Load {
  Client& client;
  std::string bucket;
  std::string prefix;
  uint64_t seed;
};

std::expected<void, Error> PutInPieces(const Load& load, const std::string& key, std::span<const std::byte> content) {
  auto writer = load.client.OpenWriter(load.bucket, key);
  if (!writer) return std::unexpected(writer.error());
  while (!content.empty()) {
    const size_t size = std::min(kPieceBytes, content.size());
    if (auto written = writer->Write(content.first(size)); !written) return written;
    content = content.subspan(size);
  }
  if (auto committed = writer->Commit(); !committed) return std::unexpected(committed.error());
  return {};
}

std::expected<void, Error> PutOne(const Load& load, const std::string& key) {
  const std::vector<std::byte> content = MixedContent(load.seed, key);
  if (content.size() > kPieceBytes && Mix(load.seed, key) % 2 == 0) return PutInPieces(load, key, content);
  if (auto put = load.client.Put(load.bucket, key, content); !put) return std::unexpected(put.error());
  return {};
}

void WriteUntilStopped(const Load& load, unsigned writer) {
  for (uint64_t number = 0;; ++number) {
    const auto name = [&](uint64_t n) { return fmt::format("{}/{:02}/{:06}", load.prefix, writer, n); };
    if (auto put = PutOne(load, name(number)); !put) return Say("stopped {}", Describe(put.error()));
    Say("put {}", name(number));
    if (number % 5 != 4) continue;
    const std::string victim = name(number - 2);
    Say("deleting {}", victim);
    if (auto removed = load.client.Remove(load.bucket, victim); !removed)
      return Say("stopped {}", Describe(removed.error()));
    Say("deleted {}", victim);
  }
}

}  // namespace

int RunWrite(const Options& options) {
  const auto writers = static_cast<unsigned>(options.Number("writers"));
  const auto client = Connect(options, writers, std::chrono::seconds(20));
  const Load load{*client, options.Text("bucket"), options.Text("prefix"), options.Number("seed")};
  std::vector<std::thread> threads;
  for (unsigned writer = 0; writer < writers; ++writer) threads.emplace_back([&load, writer] { WriteUntilStopped(load, writer); });
  for (std::thread& thread : threads) thread.join();
  return 0;
}

}  // namespace forebay::integration
