// SPDX-License-Identifier: Apache-2.0
// The operations of the installed API on one data session: they turn items into requests, offer exactly the
// range of memory that the items name, in one direction, and verify what comes back. A server that answers
// nonsense loses the connection. Reactor-local. Arguments are the caller's until the task is done.
#pragma once

#include <span>
#include <vector>

#include "base/clock.h"
#include "base/ids.h"
#include "client/data_session.h"
#include "client/operation_ids.h"
#include "forebay/client.h"

namespace forebay::client {

Error ToError(const Status& status);
Status ToStatus(const Error& error);

template <typename Body>
Result<Body> Decode(DataSession& session, const Reply& reply) {
  Result<Body> body = wire::DecodeBody<Body>(reply.body);
  if (!body.ok()) return session.Distrust(body.status());
  return body;
}

/// Items' ranges are of `memory`; InvalidArgument when one lies outside, or for no or too many items.
rt::Task<Result<BatchResult<GetResult>>> GetItems(DataSession& session, std::span<const GetItem> items,
                                                  MutableByteView memory, base::TimePoint deadline);

/// What a put needs beside its item: made once, kept over retries.
struct PutTicket {
  OperationId operation;
  uint32_t crc32c = 0;
};
/// Reads every byte that is put. InvalidArgument as above.
Result<std::vector<PutTicket>> TicketsFor(std::span<const PutItem> items, ByteView memory,
                                          const OperationIds& ids);
rt::Task<Result<BatchResult<PutResult>>> PutItems(DataSession& session, std::span<const PutItem> items,
                                                  std::span<const PutTicket> tickets, ByteView memory,
                                                  base::TimePoint deadline);

rt::Task<Result<BatchResult<ExistsResult>>> ExistsItems(DataSession& session,
                                                        std::span<const ObjectName> items,
                                                        base::TimePoint deadline);

// ---- a put of unknown size ----

/// The handle of the new stream, good on this session only. `operation` is that of an earlier attempt, or
/// none.
rt::Task<Result<uint64_t>> BeginStream(DataSession& session, const ObjectName& name,
                                       const PutOptions& options, OperationId operation,
                                       base::TimePoint deadline);
/// Pieces are sent in the order of these calls' first steps, which must be that of their offsets.
rt::Task<Status> SendPiece(DataSession& session, uint64_t handle, uint64_t offset, ByteView piece,
                           uint32_t crc32c, base::TimePoint deadline);
rt::Task<Result<PutResult>> CommitStream(DataSession& session, uint64_t handle, uint64_t size,
                                         uint32_t crc32c, OperationId operation, base::TimePoint deadline);
rt::Task<Status> AbortStream(DataSession& session, uint64_t handle, base::TimePoint deadline);

}  // namespace forebay::client
