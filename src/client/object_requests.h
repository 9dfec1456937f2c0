// SPDX-License-Identifier: Apache-2.0
// Requests of the data plane in the store's own terms, on one data session: what an object is, and the streams that put,
// overwrite, or send a part, whose replies say all that the store says. A server that answers nonsense loses the
// connection. Reactor-local. Arguments are the caller's until the task is done.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/clock.h"
#include "base/ids.h"
#include "client/data_session.h"
#include "store/object_store.h"

namespace forebay::client {

/// Which object or version; version 0 is the current one, an empty `if_match` any.
struct ObjectRef {
  std::string_view bucket;
  std::string_view key;
  uint64_t version = 0;
  std::string_view if_match{};
};
rt::Task<Result<store::ObjectInfo>> StatObject(DataSession& session, ObjectRef object, base::TimePoint deadline);

/// A version that its session's server keeps readable, whatever becomes of its name.
struct OpenedObject {
  uint64_t handle = 0;  // 0: it has no room for one more; read by number
  store::ObjectInfo info;
};
rt::Task<Result<OpenedObject>> OpenObject(DataSession& session, ObjectRef object, base::TimePoint deadline);
/// Fills `memory` from `offset` on and gives the checksum of that. NotFound when the server let it go; DataLoss when it has
/// not so many bytes there.
rt::Task<Result<uint32_t>> ReadObject(DataSession& session, const OpenedObject& object, uint64_t offset,
                                      MutableByteView memory, base::TimePoint deadline);
rt::Task<Status> CloseObject(DataSession& session, uint64_t handle, base::TimePoint deadline);

/// Good on its session only. Its pieces go with SendPiece (operations.h), its end is FinishStream or AbortStream.
struct Stream {
  uint64_t handle = 0;
  bool replays = false;  // it took place before: no content is needed
};
// `operation` names the change, or is none: then that of FinishStream does.

rt::Task<Result<Stream>> BeginPut(DataSession& session, ObjectRef object, const store::PutOptions& options,
                                  OperationId operation, base::TimePoint deadline);
/// The condition is none or if-match.
rt::Task<Result<Stream>> BeginOverwrite(DataSession& session, ObjectRef object,
                                        const store::OverwriteOptions& options, OperationId operation,
                                        base::TimePoint deadline);
/// Of `options` the size and the etag.
rt::Task<Result<Stream>> BeginPart(DataSession& session, const store::UploadName& upload, uint32_t number,
                                   const store::PutOptions& options, OperationId operation, base::TimePoint deadline);
/// Without `crc32c` only a stream that replays and got nothing. The key of the object is empty.
rt::Task<Result<store::ObjectInfo>> FinishStream(DataSession& session, uint64_t handle, uint64_t size,
                                                 std::optional<uint32_t> crc32c, OperationId operation,
                                                 base::TimePoint deadline);

}  // namespace forebay::client
