// SPDX-License-Identifier: Apache-2.0
#include "native/payload.h"

#include <cstring>
#include <utility>

namespace forebay::native {

store::Condition ToCondition(wire::Condition kind, std::string_view etag) {
  switch (kind) {
    case wire::Condition::kIfAbsent:
      return store::Condition::IfAbsent();
    case wire::Condition::kIfMatch:
      return store::Condition::IfMatch(std::string(etag));
    case wire::Condition::kNone:
      break;
  }
  return store::Condition::None();
}

Status CheckSource(const Request& request, const PayloadSource& source, uint64_t offset, uint64_t size) {
  if (source.kind == wire::Source::kPayload) {
    if (base::RangeFits(offset, size, request.payload.size())) return {};
    return Status::InvalidArgument("{} bytes at {} of a payload of {}", size, offset, request.payload.size());
  }
  if (!source.region.present())
    return Status::InvalidArgument("an item's bytes are in a region, but none is named");
  if (source.region.writable)
    return Status::InvalidArgument("the region of a put must be readable for the server");
  if (base::RangeFits(offset, size, source.region.length)) return {};
  return Status::InvalidArgument("{} bytes at {} of a region of {}", size, offset, source.region.length);
}

rt::Task<Result<std::vector<base::Buffer>>> Fetch(Connection& connection, Request& request,
                                                  store::ObjectWriter& writer, PayloadSource source,
                                                  uint64_t offset, uint64_t size) {
  std::vector<base::Buffer> buffers;
  for (uint64_t got = 0; got < size;) {
    FB_CO_ASSIGN(base::Buffer buffer, co_await writer.Allocate(request.context, size - got));
    if (buffer.size() < size - got)  // a store short of memory gives less than was asked for
      buffer = buffer.Slice(0, base::RoundDown(buffer.size(), base::Arena::kPage));
    if (buffer.empty()) co_return Status::Internal("the store gave no whole page of memory");
    FB_CO_TRY(request.Stopped());
    if (source.kind == wire::Source::kPayload) {
      std::memcpy(buffer.writable().data(), request.payload.data() + offset + got, buffer.size());
    } else {
      const fabric::RegionToken region{.key = source.region.key,
                                       .length = source.region.length,
                                       .direction = fabric::Direction::kPeerReads};
      request.transfers.Add();
      const Status read = co_await connection.endpoint().Read(region, offset + got, buffer.writable(),
                                                              request.context.deadline);
      request.transfers.Done();
      FB_CO_TRY(read);
    }
    got += buffer.size();
    buffers.push_back(std::move(buffer));
  }
  co_return buffers;
}

}  // namespace forebay::native
