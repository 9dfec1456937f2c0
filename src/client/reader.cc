// SPDX-License-Identifier: Apache-2.0
// Reader: ranged gets of one version, a few pieces ahead of the caller.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "client/core.h"

namespace forebay {
namespace {

constexpr size_t kPieces = 4;
constexpr uint64_t kPieceBytes = 2 * base::kMiB;

}  // namespace

class Reader::State {
 public:
  State(Client::Core& core, GetItem item, base::Duration timeout)
      : core_(core), item_(std::move(item)), timeout_(timeout), asked_(item_.length), next_(item_.offset) {}
  ~State();

  Status Begin();
  Result<std::span<const std::byte>> Next();

  uint64_t total = 0;
  uint64_t version = 0;

 private:
  struct Piece {
    Bytes memory;
    bool busy = false;
    GetItem item;
    std::expected<GetResult, Error> result = GetResult{};
  };
  friend class Reader;

  void Fetch(Piece& piece) FB_REQUIRES(mutex_);
  void Fetched(Piece& piece, std::expected<GetResult, Error> result);

  Client::Core& core_;
  GetItem item_;  // the name; if_match is the version's etag once it is known
  const base::Duration timeout_;
  const uint64_t asked_;
  uint64_t next_;  // offset of the next piece to ask for
  uint64_t end_ = 0;
  size_t front_ = 0;  // the piece that the caller gets next
  bool handed_out_ = false;
  Status status_;  // the first failure, which stays
  base::Mutex mutex_;
  base::ConditionVariable changed_;
  Piece pieces_[kPieces] FB_GUARDED_BY(mutex_);
};

Status Reader::State::Begin() {
  FB_TRY(core_.CheckMayBlock());
  base::MutexLock lock(mutex_);
  end_ = asked_ > UINT64_MAX - next_ ? UINT64_MAX : next_ + asked_;
  const uint64_t start = next_;
  // Also for an empty range, so that a missing object or a range behind the end shows here.
  Piece& first = pieces_[0];
  Fetch(first);
  while (first.busy) changed_.Wait(mutex_);
  if (!first.result) return client::ToStatus(first.result.error());
  total = first.result->total_size;
  version = first.result->version;
  item_.if_match = first.result->etag;
  end_ = std::min(end_, total);
  next_ = start + first.result->size;
  for (size_t i = 1; i < kPieces && next_ < end_; ++i) Fetch(pieces_[i]);
  return {};
}

/// Asks for the next piece. The length may pass the end, which is not known before the first answer.
void Reader::State::Fetch(Piece& piece) {
  const uint64_t length = std::min(kPieceBytes, end_ - next_);
  piece.memory.resize(length);
  piece.item = item_;
  piece.item.region_offset = 0;
  piece.item.offset = next_;
  piece.item.length = length;
  next_ += length;
  piece.busy = true;
  core_.Start(
      [this, &piece]() -> rt::Task<void> {
        auto results = co_await core_.Get({&piece.item, 1}, piece.memory, core_.DeadlineFor(timeout_));
        Fetched(piece, Single<GetResult>(core_.Expected(std::move(results))));
      },
      [this, &piece] {
        Fetched(piece, std::unexpected(Error{Code::kCancelled, "the client is going away"}));
      });
}

void Reader::State::Fetched(Piece& piece, std::expected<GetResult, Error> result) {
  const base::MutexLock lock(mutex_);
  piece.result = std::move(result);
  piece.busy = false;
  changed_.NotifyAll();
}

Result<std::span<const std::byte>> Reader::State::Next() {
  FB_TRY(core_.CheckMayBlock());
  const base::MutexLock lock(mutex_);
  if (std::exchange(handed_out_, false)) {  // the caller is through with it
    Piece& used = pieces_[front_];
    used.result = GetResult{};
    if (next_ < end_ && status_.ok()) Fetch(used);
    front_ = (front_ + 1) % kPieces;
  }
  FB_TRY(status_);
  Piece& piece = pieces_[front_];
  while (piece.busy) changed_.Wait(mutex_);
  if (!piece.result) {
    status_ = client::ToStatus(piece.result.error());
    return status_;
  }
  const uint64_t size = piece.result->size;
  if (size == 0) return std::span<const std::byte>();
  if (piece.item.offset + size < end_ && size != piece.item.length) {
    status_ = Status::DataLoss("{} bytes of `{}/{}` at {} came instead of {}", size, item_.bucket, item_.key,
                               piece.item.offset, piece.item.length);
    return status_;
  }
  handed_out_ = true;
  return ByteView(piece.memory).first(size);
}

Reader::State::~State() {
  const base::MutexLock lock(mutex_);
  while (std::ranges::any_of(pieces_, &Piece::busy)) changed_.Wait(mutex_);
}

Reader::Reader(std::unique_ptr<State> state) : state_(std::move(state)) {}
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;

std::expected<std::span<const std::byte>, Error> Reader::Next() {
  const auto bytes = state_->Next();
  if (!bytes.ok()) return std::unexpected(client::ToError(bytes.status()));
  return *bytes;
}

uint64_t Reader::total_size() const { return state_->total; }
const std::string& Reader::etag() const { return state_->item_.if_match; }
uint64_t Reader::version() const { return state_->version; }

std::expected<Reader, Error> Client::OpenReader(std::string_view bucket, std::string_view key,
                                                const GetOptions& options) {
  GetItem item{.bucket = std::string(bucket),
               .key = std::string(key),
               .region_offset = 0,
               .length = options.length,
               .offset = options.offset,
               .if_match = options.if_match,
               .version = options.version};
  auto state = std::make_unique<Reader::State>(*core_, std::move(item), core_->TimeFor(options.timeout));
  const Status begun = state->Begin();
  if (!begun.ok()) return std::unexpected(core_->ErrorOf(begun));
  return Reader(std::move(state));
}

}  // namespace forebay
