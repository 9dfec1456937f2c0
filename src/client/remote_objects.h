// SPDX-License-Identifier: Apache-2.0
// The readers and writers of a RemoteStore. A reader reads one version, which the server holds open for its connection, or,
// when that was lost or let it go, by its number; a writer is a stream of one data
// connection, with a few pieces on their way, and ends with that connection. Reactor-local. Private to src/client.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/arena.h"
#include "base/checksum.h"
#include "client/object_requests.h"
#include "client/remote_link.h"
#include "rt/sync.h"
#include "store/object_store.h"

namespace forebay::client {

/// A version that is open on a session.
struct HeldObject {
  DataSession* session = nullptr;  // as long as `hold` is held
  std::optional<rt::Gate::Holder> hold;
  OpenedObject opened;
};

class RemoteReader final : public store::ObjectReader {
 public:
  /// Link and arena are borrowed from the store. `held` may have no handle.
  RemoteReader(RemoteLink& link, base::Arena& arena, std::string bucket, std::shared_ptr<HeldObject> held)
      : link_(link),
        arena_(arena),
        bucket_(std::move(bucket)),
        info_(held->opened.info),
        held_(held->opened.handle != 0 ? std::move(held) : nullptr) {}
  /// Closes it on the server, in the background.
  ~RemoteReader() override;

  const store::ObjectInfo& info() const override { return info_; }
  rt::Task<Result<store::ReadData>> Read(const store::Context& context, uint64_t offset, uint64_t length) override;

 private:
  rt::Task<Result<uint32_t>> Fill(const store::Context& context, uint64_t offset, MutableByteView memory);
  rt::Task<Result<uint32_t>> FillByNumber(const store::Context& context, uint64_t offset, MutableByteView memory);

  RemoteLink& link_;
  base::Arena& arena_;
  const std::string bucket_;
  const store::ObjectInfo info_;
  std::shared_ptr<HeldObject> held_;  // shared with reads in progress; null: by number
};

/// What a writer shares with its pieces that are on their way, which may outlive it.
struct OpenStream {
  explicit OpenStream(rt::Reactor& reactor) : progress(reactor) {}
  DataSession* session = nullptr;  // as long as `hold` is held
  std::optional<rt::Gate::Holder> hold;
  rt::Units place;  // among the session's streams
  Stream stream;
  Status status;         // the first failure of a piece
  size_t in_flight = 0;  // pieces
  rt::Event progress;    // pulsed when one of the above changed
};

class RemoteWriter final : public store::ObjectWriter {
 public:
  /// `stream` has begun. `key` is the result's.
  RemoteWriter(RemoteLink& link, base::Arena& arena, std::string key, std::shared_ptr<OpenStream> stream)
      : link_(link), arena_(arena), key_(std::move(key)), stream_(std::move(stream)) {}
  /// Gives the stream up, in the background, unless it was committed.
  ~RemoteWriter() override;

  rt::Task<Result<base::Buffer>> Allocate(const store::Context& context, size_t size) override;
  rt::Task<Status> Write(const store::Context& context, base::Buffer data) override;
  rt::Task<Result<store::ObjectInfo>> Commit(const store::Context& context, std::optional<uint32_t> crc32c) override;
  bool replays() const override { return replays_; }

 private:
  RemoteLink& link_;
  base::Arena& arena_;
  const std::string key_;
  std::shared_ptr<OpenStream> stream_;  // shared with the pieces on their way; null once it was committed
  const bool replays_ = stream_->stream.replays;
  uint64_t size_ = 0;
  uint32_t crc32c_ = base::kCrc32cEmpty;
  bool ragged_ = false;  // a piece that must be the last
};

}  // namespace forebay::client
