// SPDX-License-Identifier: Apache-2.0
// Exists: which of many names hold an object. All are asked for at once; what the store answers without
// suspending costs one frame per name.
#include <string>
#include <utility>
#include <vector>

#include "native/connection.h"
#include "rt/forked.h"

namespace forebay::native {
namespace {

struct Lookup {
  rt::WaitGroup running;
  std::vector<Result<store::ObjectInfo>> found;
};

rt::Forked Find(Lookup& lookup, Connection& connection, const Request& request, const wire::ExistsItem& item,
                size_t index) {
  const Status allowed = connection.CheckAllowed(request.header.type, item.bucket, item.key);
  if (allowed.ok()) {
    lookup.found[index] = co_await connection.services().store.Stat(request.context, std::string(item.bucket),
                                                                    std::string(item.key));
  } else {
    lookup.found[index] = allowed;
  }
  lookup.running.Done();
}

}  // namespace

rt::Task<void> HandleExists(Connection& connection, Request& request) {
  const Result<wire::ExistsRequest> ask = wire::DecodeBody<wire::ExistsRequest>(request.body);
  if (!ask.ok()) {
    (void)co_await connection.ReplyError(request.header, ask.status());
    co_return;
  }
  const Result<Admission::Place> place = co_await connection.allowance().Admit(request, {.operations = ask->items.size()}, 0);
  if (!place.ok()) {
    (void)co_await connection.ReplyError(request.header, place.status());
    co_return;
  }
  Lookup lookup{.running = rt::WaitGroup(request.context.reactor), .found = {}};
  lookup.found.resize(ask->items.size());
  lookup.running.Add(ask->items.size());
  for (size_t i = 0; i < ask->items.size(); ++i)
    Find(lookup, connection, request, ask->items[i], i);
  co_await lookup.running.Wait();

  wire::StoredListReply reply;
  reply.items.reserve(lookup.found.size());
  for (const Result<store::ObjectInfo>& found : lookup.found) {
    if (found.ok()) {
      reply.items.push_back({.size = found->size_bytes,
                             .version = found->version,
                             .crc32c = found->crc32c,
                             .etag = found->etag});
    } else {
      reply.items.push_back({.code = found.error().code(), .message = found.error().message()});
    }
  }
  (void)co_await connection.Reply(request, reply);
}

}  // namespace forebay::native
