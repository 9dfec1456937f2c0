// SPDX-License-Identifier: Apache-2.0
// How long it takes to complete a large upload, and that no content moves: parts of one size in a shuffled order, some
// sent twice, over a store directory that is made for it and removed; then the whole object is read and compared. For
// people: `engine_uploads_bench DIRECTORY [PARTS [PART_BYTES]]`, by default 10,000 parts of 5 MiB + 1 byte, which needs
// 52 GiB of room.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/arena.h"
#include "base/checksum.h"
#include "base/log.h"
#include "base/random.h"
#include "engine/store_directory.h"
#include "rt/when_all.h"

namespace forebay::engine {
namespace {

constexpr size_t kDepth = 8;
constexpr const char* kBucket = "bench";

template <typename T>
T Must(Result<T> result) {
  if (!result.ok()) {
    fmt::print(stderr, "engine_uploads_bench: {}\n", result.status().ToString());
    std::exit(1);
  }
  return *std::move(result);
}
void Must(const Status& status) { (void)Must(status.ok() ? Result<int>(0) : Result<int>(status)); }

class Seconds {
 public:
  double count() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

 private:
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

class Bench {
 public:
  Bench(std::string directory, uint32_t parts, uint64_t part_bytes)
      : path_(std::move(directory)), parts_(parts), part_bytes_(part_bytes), pattern_(part_bytes + 4096, '\0') {
    random_.Fill(std::as_writable_bytes(std::span(pattern_)));
    const uint64_t room = (parts_ + parts_ / 100 + 16) * base::RoundUp(part_bytes_, 4096) + base::kGiB;
    store_ = Must(StoreDirectory::Create(path_, {.size_bytes = base::RoundUp(room, base::kMiB)},
                                         {.arena = *arena_, .clock = clock_, .random = secure_, .log = *log_}, {}));
  }
  ~Bench() {
    reactor_->BlockOn(engine().Drain(*reactor_));
    store_.reset();
    std::filesystem::remove_all(path_);
  }

  void Run() {
    const store::Context context = Here();
    Must(reactor_->BlockOn(engine().CreateBucket(context, {.name = kBucket})));
    const auto begun = Must(reactor_->BlockOn(engine().CreateUpload(context, kBucket, "object", {})));
    upload_ = {.bucket = kBucket, .key = "object", .id = begun.id};
    SendAll();
    Complete();
    Compare();
  }

 private:
  Engine& engine() { return store_->engine(); }
  store::Context Here() { return {.reactor = *reactor_}; }
  /// The content of a part: each begins elsewhere in the pattern.
  std::span<const char> Content(uint32_t number) const { return std::span(pattern_).subspan(number % 4096, part_bytes_); }

  rt::Task<Status> Send(uint32_t number) {
    const store::Context context = Here();
    FB_CO_ASSIGN(const std::unique_ptr<store::ObjectWriter> writer,
                 co_await engine().PutPart(context, upload_, number, {.size_bytes = part_bytes_}));
    const std::span<const char> content = Content(number);
    for (size_t at = 0; at < content.size();) {
      FB_CO_ASSIGN(base::Buffer buffer, co_await writer->Allocate(context, std::min(content.size() - at, base::kMiB)));
      std::memcpy(buffer.writable().data(), content.data() + at, buffer.size());
      at += buffer.size();
      FB_CO_TRY(co_await writer->Write(context, std::move(buffer)));
    }
    co_return (co_await writer->Commit(context, std::nullopt)).status();
  }

  rt::Task<Status> SendSome(std::vector<uint32_t>& order) {
    while (!order.empty()) {
      const uint32_t number = order.back();
      order.pop_back();
      FB_CO_TRY(co_await Send(number));
    }
    co_return Status();
  }

  void SendAll() {
    std::vector<uint32_t> order;
    for (uint32_t number = 1; number <= parts_; ++number) {
      order.push_back(number);
      if (number % 100 == 0) order.push_back(number);  // once more
    }
    for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random_.Below(i)]);
    const Seconds seconds;
    std::vector<rt::Task<Status>> senders;
    for (size_t i = 0; i < kDepth; ++i) senders.push_back(SendSome(order));
    for (const Status& status : reactor_->BlockOn(rt::WhenAll(std::move(senders)))) Must(status);
    const double bytes = static_cast<double>(parts_) * static_cast<double>(part_bytes_);
    fmt::print("sent      {} parts of {} bytes, {:.1f} GiB, in {:.1f} s: {:.0f} MiB/s\n", parts_, part_bytes_,
               bytes / base::kGiB, seconds.count(), bytes / base::kMiB / seconds.count());
  }

  void Complete() {
    std::vector<store::PartRef> parts;
    for (uint32_t number = 1; number <= parts_; ++number) parts.push_back({.number = number});
    const store::StoreUsage before = engine().usage();
    const store::Context context = Here();
    const Seconds seconds;
    const auto object = Must(reactor_->BlockOn(engine().CompleteUpload(context, upload_, std::move(parts), {})));
    const double took = seconds.count();
    const store::StoreUsage after = engine().usage();
    fmt::print("completed in {:.2f} s: {} bytes, {} bytes read and {} written on the device\n", took, object.size_bytes,
               after.device_bytes_read - before.device_bytes_read,
               after.device_bytes_written - before.device_bytes_written);
  }

  void Compare() {
    const store::Context context = Here();
    const auto reader = Must(reactor_->BlockOn(engine().Open(context, kBucket, "object", {})));
    const Seconds seconds;
    uint32_t crc32c = base::kCrc32cEmpty;
    for (uint64_t at = 0; at < reader->info().size_bytes;) {
      const uint64_t in_part = at % part_bytes_;
      const uint64_t take = std::min<uint64_t>(base::kMaxChunkBytes, part_bytes_ - in_part);
      const store::ReadData data = Must(reactor_->BlockOn(reader->Read(context, at, take)));
      const std::span<const char> expected =
          Content(static_cast<uint32_t>(at / part_bytes_) + 1).subspan(in_part, take);
      size_t offset = 0;
      for (const base::Buffer& buffer : data.buffers) {
        if (std::memcmp(buffer.data(), expected.data() + offset, buffer.size()) != 0)
          Must(Status::DataLoss("the object differs at {}", at + offset));
        crc32c = base::Crc32cExtend(crc32c, buffer.view());
        offset += buffer.size();
      }
      at += take;
    }
    if (crc32c != reader->info().crc32c) Must(Status::DataLoss("the checksum of the object is not that of its bytes"));
    fmt::print("compared  all of it in {:.1f} s: equal, and the checksum is right\n", seconds.count());
  }

  const std::string path_;
  const uint32_t parts_;
  const uint64_t part_bytes_;
  base::SeededRandom random_{42};
  std::vector<char> pattern_;
  base::SystemClock clock_;
  base::SecureRandom secure_;
  const std::unique_ptr<base::Log> log_ = base::Log::Discard();
  const std::unique_ptr<base::Arena> arena_ = Must(base::Arena::Create(256 * base::kMiB));
  const std::unique_ptr<rt::Reactor> reactor_ = Must(rt::Reactor::Create());
  std::unique_ptr<StoreDirectory> store_;
  store::UploadName upload_;
};

}  // namespace
}  // namespace forebay::engine

int main(int argc, char** argv) {
  if (argc < 2 || argc > 4) {
    fmt::print(stderr, "usage: engine_uploads_bench DIRECTORY [PARTS [PART_BYTES]]; the directory is made and removed\n");
    return 2;
  }
  const uint64_t parts = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : forebay::base::kMaxParts;
  const uint64_t part_bytes = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 5 * forebay::base::kMiB + 1;
  if (parts == 0 || parts > forebay::base::kMaxParts || part_bytes == 0 || part_bytes > forebay::base::kMaxPartBytes) {
    fmt::print(stderr, "engine_uploads_bench: 1 to {} parts of 1 to {} bytes\n", forebay::base::kMaxParts,
               forebay::base::kMaxPartBytes);
    return 2;
  }
  forebay::engine::Bench(argv[1], static_cast<uint32_t>(parts), part_bytes).Run();
  return 0;
}
