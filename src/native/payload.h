// SPDX-License-Identifier: Apache-2.0
// Fetch: brings a piece of a put's payload from the message or the client's region into buffers of the store.
// Reactor-local.
#pragma once

#include <vector>

#include "base/arena.h"
#include "native/connection.h"
#include "native/request.h"
#include "store/object_store.h"

namespace forebay::native {

/// Where the payload of a put is.
struct PayloadSource {
  wire::Source kind = wire::Source::kPayload;
  wire::RegionRef region;  // with kRegion
};

store::Condition ToCondition(wire::Condition kind, std::string_view etag);

/// InvalidArgument unless [offset, offset + size) lies inside of the source.
Status CheckSource(const Request& request, const PayloadSource& source, uint64_t offset, uint64_t size);

/// `size` bytes at `offset` of the source, which CheckSource accepted. Each buffer but the last has a
/// multiple of 4096 bytes. Ends early when the request is cancelled; when it returned, nothing of the
/// client's is read any more.
rt::Task<Result<std::vector<base::Buffer>>> Fetch(Connection& connection, Request& request,
                                                  store::ObjectWriter& writer, PayloadSource source,
                                                  uint64_t offset, uint64_t size);

}  // namespace forebay::native
