// SPDX-License-Identifier: Apache-2.0
// Get: a batch of ranged reads into one region of the client's memory, or into the reply.
//
// First every item is opened, and read at once when it is small, within a place that the request took at its start: hot
// objects cost no suspension. Then the pieces, small items whole and then large ones in chunks, go to the client in order,
// neighbours in the region together in one transfer, while later chunks are being read: disk and wire overlap within the
// request's window of bytes. Each chunk asks for a place of its own, so what a request holds is what is on its way.
#include <algorithm>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "native/connection.h"
#include "rt/forked.h"

namespace forebay::native {
namespace {

/// An item of at most this size is read while it is opened, and shares a transfer with its neighbours.
constexpr uint64_t kSmallBytes = 64 * base::kKiB;

/// The answer to one item, as it grows.
struct Item {
  const wire::GetItem* ask = nullptr;
  std::unique_ptr<store::ObjectReader> reader;
  Status status;
  uint64_t size = 0;     // bytes to deliver
  uint64_t planned = 0;  // of them, in pieces so far
  uint64_t taken = 0;    // of them, read and checksummed, in order
  uint32_t crc32c = base::kCrc32cEmpty;
  std::optional<store::ReadData> whole;  // of a small item
};

/// A run of bytes of one item, on its way from the store to the client.
struct Piece {
  Item* item;
  uint64_t offset;  // in what the item delivers
  uint64_t length;
  Admission::Place place{};
  bool ready = false;
  Result<store::ReadData> data = store::ReadData{};
};

class GetRun {
 public:
  /// `pinned`, unless null, is what the one item reads.
  GetRun(Connection& connection, Request& request, wire::GetRequest ask, std::shared_ptr<OpenVersion> pinned = nullptr)
      : pinned_(std::move(pinned)),
        connection_(connection),
        request_(request),
        ask_(std::move(ask)),
        order_(request.context.reactor),
        progress_(request.context.reactor) {}

  rt::Task<void> Run();

 private:
  Status Check();
  rt::Task<Status> Begin();
  rt::Task<void> Open();
  rt::Task<Result<std::unique_ptr<store::ObjectReader>>> OpenItemsReader(const wire::GetItem& ask);
  rt::Forked OpenItem(Item& item);
  bool FitsInline() const;
  rt::Task<Status> Transfer();
  void PlanWhole();
  void PlanReads();
  rt::Forked ReadPiece(Piece& piece);
  rt::Task<Result<store::ReadData>> ReadInPlace(Piece& piece);
  bool WriteReady();
  bool Take(Piece& piece, std::vector<base::Buffer>& out);
  rt::Forked WriteRun(uint64_t region_offset, uint64_t length, std::vector<base::Buffer> data, Admission::Place place);
  rt::Task<Status> Reply(bool inlined);

  const std::shared_ptr<OpenVersion> pinned_;  // shared with the connection's table
  Connection& connection_;
  Request& request_;
  const wire::GetRequest ask_;
  std::vector<Item> items_;
  uint64_t asked_bytes_ = 0;
  uint64_t small_bytes_ = 0;  // of them, in items that are small whatever their objects are
  Allowance::TransferPlace transfer_;
  Admission::Place place_;   // of what is read while it is opened
  rt::Mutex order_;          // chunks ask for their places one after the other: none waits for one that comes after it
  uint64_t held_bytes_ = 0;  // read or being read, and not yet delivered
  std::deque<Piece> pieces_;
  size_t next_item_ = 0;  // whose pieces are planned next
  size_t running_ = 0;    // forks
  rt::Event progress_;    // a fork ended
  Status failed_;         // of the whole request
};

Status GetRun::Check() {
  if (!ask_.region.present() && !ask_.inline_allowed)
    return Status::InvalidArgument("a Get names no region and does not allow inline results");
  if (ask_.region.present() && !ask_.region.writable)
    return Status::InvalidArgument("the region of a Get must be writable for the server");
  // Without a region the results must fit the reply; any other length is bounded by the region, so the sum
  // cannot wrap before it passes what a request may hold at once, where it stops to matter.
  const uint64_t room = ask_.region.present() ? ask_.region.length : base::kMaxInlineBytes;
  for (const wire::GetItem& item : ask_.items) {
    const uint64_t offset = ask_.region.present() ? item.region_offset : 0;
    if (!base::RangeFits(offset, item.length, room))
      return Status::InvalidArgument("{} bytes at {} of a region of {} for `{}/{}`", item.length, offset,
                                     room, item.bucket, item.key);
    asked_bytes_ = asked_bytes_ > UINT64_MAX - item.length ? UINT64_MAX : asked_bytes_ + item.length;
    small_bytes_ += std::min(item.length, kSmallBytes);
  }
  if (!ask_.region.present() && asked_bytes_ > base::kMaxInlineBytes)
    return Status::InvalidArgument("a Get of {} bytes without a region; at most {} fit a reply", asked_bytes_,
                                   base::kMaxInlineBytes);
  return {};
}

/// Takes what the request needs before it opens anything.
rt::Task<Status> GetRun::Begin() {
  Allowance& allowance = connection_.allowance();
  FB_CO_ASSIGN(transfer_, co_await allowance.BeginTransfer(request_));
  const size_t most = allowance.contended() ? allowance.chunk_bytes() : connection_.services().request_window_bytes;
  const size_t bytes = std::min<uint64_t>(small_bytes_, most);
  place_ = allowance.TryAdmit(ask_.items.size(), bytes);
  if (!place_) {
    FB_CO_ASSIGN(place_, co_await allowance.Admit(request_, {.operations = ask_.items.size()}, bytes));
  }
  co_return Status();
}

rt::Task<void> GetRun::Run() {
  Status begun = Check();
  if (begun.ok()) begun = co_await Begin();
  if (!begun.ok()) {
    (void)co_await connection_.ReplyError(request_.header, begun);
    co_return;
  }
  co_await Open();
  place_.Shrink(held_bytes_);
  connection_.allowance().Owe(held_bytes_);
  const bool inlined = FitsInline();
  if (!inlined) failed_ = co_await Transfer();
  if (failed_.ok()) {
    (void)co_await Reply(inlined);
  } else {
    (void)co_await connection_.ReplyError(request_.header, failed_);
  }
}

// ---- opening ----

rt::Task<void> GetRun::Open() {
  items_.resize(ask_.items.size());
  for (size_t i = 0; i < items_.size(); ++i) {
    items_[i].ask = &ask_.items[i];
    ++running_;
    OpenItem(items_[i]);
  }
  while (running_ != 0) {
    co_await progress_.Wait();
    progress_.Reset();
  }
}

/// Reads what is open already.
class PinnedReader final : public store::ObjectReader {
 public:
  explicit PinnedReader(std::shared_ptr<OpenVersion> version) : version_(std::move(version)) {}
  const store::ObjectInfo& info() const override { return version_->reader->info(); }
  rt::Task<Result<store::ReadData>> Read(const store::Context& context, uint64_t offset, uint64_t length) override {
    return version_->reader->Read(context, offset, length);
  }

 private:
  const std::shared_ptr<OpenVersion> version_;  // shared with the connection's table
};

rt::Task<Result<std::unique_ptr<store::ObjectReader>>> GetRun::OpenItemsReader(const wire::GetItem& ask) {
  if (pinned_ != nullptr) co_return std::make_unique<PinnedReader>(pinned_);
  co_return co_await OpenReader(connection_.services().store, request_.context, ask.bucket, ask.key, ask.version,
                                ask.if_match);
}

rt::Forked GetRun::OpenItem(Item& item) {
  const wire::GetItem& ask = *item.ask;
  item.status = connection_.CheckAllowed(request_.header.type, ask.bucket, ask.key);
  if (!item.status.ok()) {
    --running_;
    progress_.Set();
    co_return;
  }
  auto reader = co_await OpenItemsReader(ask);
  if (!reader.ok()) {
    item.status = reader.status();
  } else if (const uint64_t total = (*reader)->info().size_bytes; ask.offset > total) {
    item.status = Status::OutOfRange("`{}/{}` has {} bytes; {} is behind its end", ask.bucket, ask.key, total,
                                     ask.offset);
  } else {
    item.reader = *std::move(reader);
    item.size = std::min(ask.length, total - ask.offset);
    if (item.size != 0 && item.size <= kSmallBytes && held_bytes_ + item.size <= place_.bytes()) {
      held_bytes_ += item.size;
      auto data = co_await item.reader->Read(request_.context, ask.offset, item.size);
      if (data.ok()) {
        item.whole = *std::move(data);
      } else {
        item.status = data.status();
        held_bytes_ -= item.size;
      }
    }
  }
  --running_;
  progress_.Set();
}

bool GetRun::FitsInline() const {
  if (!ask_.inline_allowed) return false;
  uint64_t total = 0;
  for (const Item& item : items_) {
    if (!item.status.ok()) continue;
    if (item.size != 0 && !item.whole.has_value()) return false;
    total += item.size;  // at most kSmallBytes each
  }
  return total <= base::kMaxInlineBytes;
}

// ---- moving ----

rt::Task<Status> GetRun::Transfer() {
  PlanWhole();
  for (;;) {
    if (failed_.ok()) failed_ = request_.Stopped();
    if (failed_.ok()) {
      do PlanReads();
      while (WriteReady());
    }
    const bool done = pieces_.empty() && next_item_ == items_.size();
    if (running_ == 0 && (done || !failed_.ok())) break;
    co_await progress_.Wait();
    progress_.Reset();
  }
  co_return failed_;
}

/// Puts what was read while it was opened before everything else: it is delivered, and its place is given back, whatever the
/// chunks wait for.
void GetRun::PlanWhole() {
  for (Item& item : items_) {
    if (!item.status.ok() || !item.whole.has_value()) continue;
    Piece& piece = pieces_.emplace_back(&item, 0, item.size);
    piece.place = place_.Split(item.size);
    piece.data = *std::move(item.whole);
    piece.ready = true;
    item.planned = item.size;
  }
}

/// Starts reads, in order, as far as the window allows.
void GetRun::PlanReads() {
  while (next_item_ < items_.size()) {
    Item& item = items_[next_item_];
    if (!item.status.ok() || item.planned == item.size) {
      ++next_item_;
      continue;
    }
    const uint64_t length = std::min<uint64_t>(item.size - item.planned, connection_.allowance().chunk_bytes());
    if (held_bytes_ != 0 && held_bytes_ + length > connection_.services().request_window_bytes) return;
    held_bytes_ += length;
    Piece& piece = pieces_.emplace_back(&item, item.planned, length);
    item.planned += length;
    ++running_;
    ReadPiece(piece);
  }
}

rt::Task<Result<store::ReadData>> GetRun::ReadInPlace(Piece& piece) {
  Allowance& allowance = connection_.allowance();
  {
    const rt::Units turn = co_await order_.Lock();
    piece.place = allowance.TryAdmit(0, piece.length);
    if (!piece.place) {
      FB_CO_ASSIGN(piece.place, co_await allowance.Admit(request_, {.bytes = piece.length}, piece.length));
    }
  }
  co_return co_await piece.item->reader->Read(request_.context, piece.item->ask->offset + piece.offset, piece.length);
}

rt::Forked GetRun::ReadPiece(Piece& piece) {
  piece.data = co_await ReadInPlace(piece);
  piece.ready = true;
  --running_;
  progress_.Set();
}

/// Takes the finished pieces at the front that lie side by side in the region and starts one transfer of
/// them. False when the first one is not finished; after true there may be more, or room to read more.
bool GetRun::WriteReady() {
  if (pieces_.empty() || !pieces_.front().ready) return false;
  std::vector<base::Buffer> data;
  uint64_t start = 0;
  uint64_t length = 0;
  const Allowance& allowance = connection_.allowance();
  const size_t most = allowance.contended() ? allowance.chunk_bytes() : base::kMaxTransferBytes;
  Admission::Place place;
  while (!pieces_.empty() && pieces_.front().ready) {
    Piece& piece = pieces_.front();
    const uint64_t at = piece.item->ask->region_offset + piece.offset;
    // What of a large item goes together is the same each time: the fabric may keep it for the next one who asks.
    const bool begins = piece.offset != 0 && piece.offset % most == 0;
    if (length != 0 && (begins || at != start + length || length + piece.length > most)) break;
    if (Take(piece, data)) {
      if (length == 0) start = at;
      length += piece.length;
      place.Merge(std::move(piece.place));
    }
    pieces_.pop_front();
  }
  if (length == 0) return true;  // all of them failed
  ++running_;
  WriteRun(start, length, std::move(data), std::move(place));
  return true;
}

/// Moves the piece's buffers to `out` and extends the item's checksum. False when the item has failed.
bool GetRun::Take(Piece& piece, std::vector<base::Buffer>& out) {
  Item& item = *piece.item;
  if (item.status.ok() && !piece.data.ok()) item.status = piece.data.status();
  if (item.status.ok() && piece.data->size_bytes != piece.length)
    item.status = Status::Internal("the store gave {} of {} bytes of `{}/{}`", piece.data->size_bytes,
                                   piece.length, item.ask->bucket, item.ask->key);
  if (!item.status.ok()) {
    held_bytes_ -= piece.length;
    return false;
  }
  item.crc32c = item.taken == 0 ? piece.data->crc32c
                                : base::Crc32cCombine(item.crc32c, piece.data->crc32c, piece.length);
  item.taken += piece.length;
  if (out.empty())
    out = std::move(piece.data->buffers);
  else
    std::ranges::move(piece.data->buffers, std::back_inserter(out));
  return true;
}

rt::Forked GetRun::WriteRun(uint64_t region_offset, uint64_t length, std::vector<base::Buffer> data,
                            Admission::Place place) {
  request_.transfers.Add();
  const fabric::RegionToken region{
      .key = ask_.region.key, .length = ask_.region.length, .direction = fabric::Direction::kPeerWrites};
  const Status written = co_await connection_.endpoint().Write(region, region_offset, std::move(data),
                                                               request_.context.deadline);
  request_.transfers.Done();
  if (failed_.ok()) failed_ = written;
  held_bytes_ -= length;
  place.Shrink(0);
  --running_;
  progress_.Set();
}

// ---- answering ----

rt::Task<Status> GetRun::Reply(bool inlined) {
  wire::GetReply reply;
  reply.inlined = inlined;
  reply.items.reserve(items_.size());
  std::vector<base::Buffer> payload;
  for (Item& item : items_) {
    if (inlined && item.whole.has_value()) {
      item.crc32c = item.whole->crc32c;
      std::ranges::move(item.whole->buffers, std::back_inserter(payload));
    }
    if (!item.status.ok()) {
      reply.items.push_back({.code = item.status.code(), .message = item.status.message()});
      continue;
    }
    const store::ObjectInfo& info = item.reader->info();
    reply.items.push_back({.size = item.size,
                           .total_size = info.size_bytes,
                           .version = info.version,
                           .crc32c = item.crc32c,
                           .etag = info.etag});
  }
  return connection_.Reply(request_, reply, std::move(payload));
}

}  // namespace

namespace {
Result<wire::GetRequest> DecodeGet(const Request& request) {
  if (request.header.type == wire::Type::kGet) return wire::DecodeBody<wire::GetRequest>(request.body);
  FB_ASSIGN(wire::GetVersionRequest versions, wire::DecodeBody<wire::GetVersionRequest>(request.body));
  return wire::GetRequest(std::move(versions));
}
}  // namespace

rt::Task<void> HandleGet(Connection& connection, Request& request) {
  Result<wire::GetRequest> ask = DecodeGet(request);
  if (!ask.ok()) {
    (void)co_await connection.ReplyError(request.header, ask.status());
    co_return;
  }
  GetRun run(connection, request, *std::move(ask));
  co_await run.Run();
}

rt::Task<Result<std::unique_ptr<store::ObjectReader>>> OpenReader(store::ObjectStore& store,
                                                                  const store::Context& context,
                                                                  std::string_view bucket, std::string_view key,
                                                                  uint64_t version, std::string_view if_match) {
  if (version != 0) {
    FB_CO_ASSIGN(auto reader, co_await store.OpenVersion(context, std::string(bucket), std::string(key), version));
    FB_CO_TRY(CheckETag(bucket, if_match, reader->info()));
    co_return reader;
  }
  auto condition = if_match.empty() ? store::Condition::None() : store::Condition::IfMatch(std::string(if_match));
  co_return co_await store.Open(context, std::string(bucket), std::string(key), std::move(condition));
}

rt::Task<void> HandleRead(Connection& connection, Request& request) {
  const Result<wire::ReadRequest> ask = wire::DecodeBody<wire::ReadRequest>(request.body);
  if (!ask.ok()) {
    (void)co_await connection.ReplyError(request.header, ask.status());
    co_return;
  }
  const std::shared_ptr<OpenVersion> version = connection.readers().Find(ask->handle);
  if (version == nullptr) {
    (void)co_await connection.ReplyError(
        request.header, Status::NotFound("no version {} is open on this connection; it was closed, or let go for being "
                                         "idle",
                                         ask->handle));
    co_return;
  }
  wire::GetRequest get{.inline_allowed = ask->inline_allowed, .region = ask->region, .items = {}};
  get.items.push_back({.bucket = version->bucket,
                       .key = version->reader->info().key,
                       .offset = ask->offset,
                       .length = ask->length,
                       .region_offset = ask->region_offset});
  GetRun run(connection, request, std::move(get), version);
  co_await run.Run();
}

}  // namespace forebay::native
