// SPDX-License-Identifier: Apache-2.0
// Writer: the caller's thread fills pieces while earlier ones are on their way.
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/mutex.h"
#include "client/core.h"

namespace forebay {
namespace {

constexpr size_t kPieces = 4;
constexpr std::chrono::seconds kAbortWithin{1};

}  // namespace

class Writer::State {
 public:
  State(Client::Core& core, base::Duration timeout) : core_(core), timeout_(timeout) {}
  ~State() { Abort(); }

  Status Begin(const ObjectName& name, const PutOptions& options);
  Status Write(std::span<const std::byte> content);
  Result<PutResult> Commit();
  void Abort();
  std::string operation() const { return committed_ && !operation_.IsNone() ? operation_.ToString() : std::string(); }

 private:
  struct Piece {
    Bytes memory;
    size_t filled = 0;
    bool busy = false;  // on its way
  };

  Result<Piece*> Current();
  void Submit(Piece& piece);
  rt::Task<void> Send(Piece& piece, uint64_t offset, uint32_t crc32c);
  void Sent(Piece& piece, const Status& status);
  /// Waits until no piece is on its way; the first failure.
  Status Settle();
  /// A lost connection takes the content with it: says so.
  static Status Explain(const Status& status);
  /// Lets the session go.
  void Release();

  Client::Core& core_;
  const base::Duration timeout_;
  // Of the session, on the reactor. The hold keeps it alive until Release.
  client::DataSession* session_ = nullptr;
  std::optional<rt::Gate::Holder> hold_;
  uint64_t handle_ = 0;
  OperationId operation_;  // of an earlier attempt, or made by Commit
  // Of the caller's thread.
  Piece* current_ = nullptr;
  uint64_t size_ = 0;  // submitted
  uint32_t crc32c_ = base::kCrc32cEmpty;
  bool open_ = false;
  bool committed_ = false;  // Commit was sent
  // Shared by both.
  base::Mutex mutex_;
  base::ConditionVariable changed_;
  Piece pieces_[kPieces] FB_GUARDED_BY(mutex_);
  Status status_ FB_GUARDED_BY(mutex_);
};

Status Writer::State::Begin(const ObjectName& name, const PutOptions& options) {
  const base::TimePoint deadline = core_.DeadlineFor(timeout_);
  if (!options.operation.empty()) {
    FB_ASSIGN(operation_, core_.ids().Parse(options.operation));
  }
  const Result<uint64_t> begun = core_.Block([&] {
    return core_.pool().With(deadline, true, [&](client::DataSession& session) -> rt::Task<Result<uint64_t>> {
      FB_CO_ASSIGN(rt::Gate::Holder hold, session.Hold());
      FB_CO_ASSIGN(handle_, co_await client::BeginStream(session, name, options, operation_, deadline));
      session_ = &session;
      hold_ = std::move(hold);
      co_return handle_;
    });
  });
  open_ = begun.ok();
  return begun.status();
}

Status Writer::State::Write(std::span<const std::byte> content) {
  FB_TRY(core_.CheckMayBlock());
  if (!open_) return Status::FailedPrecondition("the put has ended; open another writer");
  while (!content.empty()) {
    FB_ASSIGN(Piece* const piece, Current());
    const size_t size = std::min(content.size(), piece->memory.size() - piece->filled);
    std::memcpy(piece->memory.data() + piece->filled, content.data(), size);
    piece->filled += size;
    content = content.subspan(size);
    if (piece->filled == piece->memory.size()) Submit(*piece);
  }
  return {};
}

/// The piece to fill: waits for one that is not on its way.
Result<Writer::State::Piece*> Writer::State::Current() {
  if (current_ != nullptr) return current_;
  const base::MutexLock lock(mutex_);
  for (;;) {
    if (!status_.ok()) return Explain(status_);
    for (Piece& piece : pieces_) {
      if (piece.busy) continue;
      piece.memory.resize(base::kMaxChunkBytes);
      piece.filled = 0;
      current_ = &piece;
      return current_;
    }
    changed_.Wait(mutex_);
  }
}

void Writer::State::Submit(Piece& piece) {
  const uint64_t offset = size_;
  const uint32_t crc32c = base::Crc32c(ByteView(piece.memory).first(piece.filled));
  crc32c_ = base::Crc32cCombine(crc32c_, crc32c, piece.filled);
  size_ += piece.filled;
  current_ = nullptr;
  {
    const base::MutexLock lock(mutex_);
    piece.busy = true;
  }
  core_.Start([this, &piece, offset, crc32c] { return Send(piece, offset, crc32c); },
              [this, &piece] { Sent(piece, Status::Unavailable("the client is going away")); });
}

rt::Task<void> Writer::State::Send(Piece& piece, uint64_t offset, uint32_t crc32c) {
  const Status status =
      co_await client::SendPiece(*session_, handle_, offset, ByteView(piece.memory).first(piece.filled),
                                 crc32c, core_.DeadlineFor(timeout_));
  Sent(piece, status);
}

void Writer::State::Sent(Piece& piece, const Status& status) {
  const base::MutexLock lock(mutex_);
  piece.busy = false;
  if (status_.ok()) status_ = status;
  changed_.NotifyAll();
}

Status Writer::State::Settle() {
  const base::MutexLock lock(mutex_);
  while (std::ranges::any_of(pieces_, &Piece::busy)) changed_.Wait(mutex_);
  return status_;
}

Result<PutResult> Writer::State::Commit() {
  if (!open_) return Status::FailedPrecondition("the put has ended; open another writer");
  if (current_ != nullptr && current_->filled != 0) Submit(*current_);
  const Status sent = Settle();
  if (!sent.ok()) {
    Abort();
    return Explain(sent);
  }
  const base::TimePoint deadline = core_.DeadlineFor(timeout_);
  // Made this late, the id is young however long the content took.
  if (operation_.IsNone()) operation_ = core_.ids().New();
  committed_ = true;
  Result<PutResult> result = core_.Block(
      [&] { return client::CommitStream(*session_, handle_, size_, crc32c_, operation_, deadline); });
  Release();
  return result.ok() ? std::move(result) : Explain(result.error());
}

void Writer::State::Abort() {
  if (!open_) return;
  (void)Settle();
  // A server that does not hear of it gives the put up by itself.
  (void)core_.Block([&] { return client::AbortStream(*session_, handle_, core_.DeadlineFor(kAbortWithin)); });
  Release();
}

Status Writer::State::Explain(const Status& status) {
  if (status.code() != Code::kUnavailable) return status;
  return Status::Unavailable(
      "{}; what was written to a stream cannot be sent again by itself: write it once more",
      status.message());
}

void Writer::State::Release() {
  open_ = false;
  rt::RunOn(core_.reactor(), [this]() -> rt::Task<void> {
    hold_.reset();
    co_return;
  });
}

Writer::Writer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&&) noexcept = default;
Writer::~Writer() = default;

std::expected<void, Error> Writer::Write(std::span<const std::byte> content) {
  const Status status = state_->Write(content);
  if (!status.ok()) return std::unexpected(client::ToError(status));
  return {};
}

std::expected<PutResult, Error> Writer::Commit() {
  Result<PutResult> result = state_->Commit();
  if (!result.ok()) return std::unexpected(client::ToError(result.status()));
  return *std::move(result);
}

void Writer::Abort() { state_->Abort(); }
std::string Writer::operation() const { return state_->operation(); }

std::expected<Writer, Error> Client::OpenWriter(std::string_view bucket, std::string_view key,
                                                const PutOptions& options) {
  auto state = std::make_unique<Writer::State>(*core_, core_->TimeFor(options.timeout));
  const Status begun = state->Begin({std::string(bucket), std::string(key)}, options);
  if (!begun.ok()) return std::unexpected(core_->ErrorOf(begun));
  return Writer(std::move(state));
}

}  // namespace forebay
