// SPDX-License-Identifier: Apache-2.0
// Writer: the caller's thread fills pieces while earlier ones are on their way.
#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/mutex.h"
#include "client/core.h"
#include "client/object_requests.h"

namespace forebay {
namespace {

constexpr size_t kPieces = 4;
constexpr std::chrono::seconds kAbortWithin{1};

}  // namespace

class Writer::State {
 public:
  /// Opens the stream on a session, under the operation if there is one; gives its handle.
  using Begun = std::function<rt::Task<Result<uint64_t>>(client::DataSession&, OperationId, base::TimePoint)>;

  /// With `tells_all` the stream's commit is answered as those of object_requests.h are.
  State(Client::Core& core, base::Duration timeout, bool tells_all)
      : core_(core), timeout_(timeout), tells_all_(tells_all) {}
  ~State() { Abort(); }

  /// A writer on the stream that `begin` opens.
  static std::expected<Writer, Error> Open(Client::Core& core, const Begun& begin, bool tells_all,
                                           std::chrono::nanoseconds timeout, const std::string& operation);
  /// The whole of a stream of content that is in memory; made again with its id while no server answers.
  static std::expected<PutResult, Error> PutWhole(Client::Core& core, const Begun& begin,
                                                  std::span<const std::byte> content,
                                                  std::chrono::nanoseconds timeout, const std::string& operation);

  Status Begin(const Begun& begin, const std::string& operation);
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
  rt::Task<Result<PutResult>> CommitOnSession(base::TimePoint deadline);
  /// Waits until no piece is on its way; the first failure.
  Status Settle();
  /// A lost connection takes the content with it: says so, unless the caller still has it.
  Status Explain(const Status& status) const;
  /// Lets the session go.
  void Release();

  Client::Core& core_;
  const base::Duration timeout_;
  const bool tells_all_;
  bool repeated_ = false;  // by PutWhole
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

Status Writer::State::Begin(const Begun& begin, const std::string& operation) {
  const base::TimePoint deadline = core_.DeadlineFor(timeout_);
  if (!operation.empty()) {
    FB_ASSIGN(operation_, core_.ids().Parse(operation));
  }
  const Result<uint64_t> begun = core_.Block([&] {
    return core_.pool().With(deadline, true, [&](client::DataSession& session) -> rt::Task<Result<uint64_t>> {
      FB_CO_ASSIGN(rt::Gate::Holder hold, session.Hold());
      FB_CO_ASSIGN(handle_, co_await begin(session, operation_, deadline));
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
  Result<PutResult> result = core_.Block([&] { return CommitOnSession(deadline); });
  Release();
  return result.ok() ? std::move(result) : Explain(result.error());
}

rt::Task<Result<PutResult>> Writer::State::CommitOnSession(base::TimePoint deadline) {
  if (!tells_all_)
    co_return co_await client::CommitStream(*session_, handle_, size_, crc32c_, operation_, deadline);
  FB_CO_ASSIGN(store::ObjectInfo object,
               co_await client::FinishStream(*session_, handle_, size_, crc32c_, operation_, deadline));
  co_return PutResult{.size = object.size_bytes,
                      .version = object.version,
                      .etag = std::move(object.etag),
                      .crc32c = object.crc32c};
}

void Writer::State::Abort() {
  if (!open_) return;
  (void)Settle();
  // A server that does not hear of it gives the put up by itself.
  (void)core_.Block([&] { return client::AbortStream(*session_, handle_, core_.DeadlineFor(kAbortWithin)); });
  Release();
}

Status Writer::State::Explain(const Status& status) const {
  if (status.code() != Code::kUnavailable || repeated_) return status;
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

namespace {

/// The handle of a stream; what it says about replays is of no use to one who has the content anyway.
rt::Task<Result<uint64_t>> HandleOf(rt::Task<Result<client::Stream>> begun) {
  FB_CO_ASSIGN(const client::Stream stream, co_await std::move(begun));
  co_return stream.handle;
}

store::OverwriteOptions OptionsOf(const OverwriteOptions& options, std::optional<uint64_t> offset) {
  store::OverwriteOptions ask{.offset = offset};
  if (!options.if_match.empty()) ask.condition = store::Condition::IfMatch(options.if_match);
  return ask;
}

Writer::State::Begun OverwriteOf(ObjectName name, std::optional<uint64_t> offset, const OverwriteOptions& options) {
  return [name = std::move(name), ask = OptionsOf(options, offset)](client::DataSession& session, OperationId operation,
                                                                    base::TimePoint deadline) {
    return HandleOf(client::BeginOverwrite(session, {name.bucket, name.key}, ask, operation, deadline));
  };
}

Writer::State::Begun PartOf(const UploadName& upload, uint32_t number) {
  return [name = store::UploadName{upload.bucket, upload.key, upload.id}, number](
             client::DataSession& session, OperationId operation, base::TimePoint deadline) {
    // The options are kept in the task's frame.
    return [](client::DataSession& on, const store::UploadName& of, uint32_t part, OperationId id,
              base::TimePoint until) -> rt::Task<Result<uint64_t>> {
      const store::PutOptions options;
      co_return co_await HandleOf(client::BeginPart(on, of, part, options, id, until));
    }(session, name, number, operation, deadline);
  };
}

}  // namespace

std::expected<PutResult, Error> Writer::State::PutWhole(Client::Core& core, const Begun& begin,
                                                        std::span<const std::byte> content,
                                                        std::chrono::nanoseconds timeout,
                                                        const std::string& operation) {
  const Result<OperationId> id = core.ids().Parse(operation);
  if (!id.ok()) return std::unexpected(core.ErrorOf(id.status()));
  const std::string text = id->IsNone() ? std::string() : id->ToString();
  return core.Expected(core.Ask(timeout, !id->IsNone(), [&](base::Duration left) -> Result<PutResult> {
    State state(core, left, true);
    state.repeated_ = true;
    FB_TRY(state.Begin(begin, text));
    FB_TRY(state.Write(content));
    return state.Commit();
  }));
}

std::expected<Writer, Error> Writer::State::Open(Client::Core& core, const Begun& begin, bool tells_all,
                                                 std::chrono::nanoseconds timeout, const std::string& operation) {
  auto state = std::make_unique<State>(core, core.TimeFor(timeout), tells_all);
  const Status begun = state->Begin(begin, operation);
  if (!begun.ok()) return std::unexpected(core.ErrorOf(begun));
  return Writer(std::move(state));
}

std::expected<Writer, Error> Client::OpenWriter(std::string_view bucket, std::string_view key,
                                                const PutOptions& options) {
  const ObjectName name{std::string(bucket), std::string(key)};
  const auto begin = [&](client::DataSession& session, OperationId operation, base::TimePoint deadline) {
    return client::BeginStream(session, name, options, operation, deadline);
  };
  return Writer::State::Open(*core_, begin, false, options.timeout, options.operation);
}

std::expected<Writer, Error> Client::OpenOverwriter(std::string_view bucket, std::string_view key,
                                                    std::optional<uint64_t> offset, const OverwriteOptions& options) {
  return Writer::State::Open(*core_, OverwriteOf({std::string(bucket), std::string(key)}, offset, options), true,
                             options.timeout, options.operation);
}

std::expected<Writer, Error> Client::OpenPart(const UploadName& upload, uint32_t number, const CallOptions& options) {
  return Writer::State::Open(*core_, PartOf(upload, number), true, options.timeout, {});
}

std::expected<PutResult, Error> Client::Overwrite(std::string_view bucket, std::string_view key, uint64_t offset,
                                                  std::span<const std::byte> content,
                                                  const OverwriteOptions& options) {
  return Writer::State::PutWhole(*core_, OverwriteOf({std::string(bucket), std::string(key)}, offset, options), content,
                                 options.timeout, options.operation);
}

std::expected<PutResult, Error> Client::Append(std::string_view bucket, std::string_view key,
                                               std::span<const std::byte> content, const OverwriteOptions& options) {
  return Writer::State::PutWhole(*core_, OverwriteOf({std::string(bucket), std::string(key)}, std::nullopt, options),
                                 content, options.timeout, options.operation);
}

std::expected<PutResult, Error> Client::PutPart(const UploadName& upload, uint32_t number,
                                                std::span<const std::byte> content, const CallOptions& options) {
  return Writer::State::PutWhole(*core_, PartOf(upload, number), content, options.timeout, {});
}

}  // namespace forebay
