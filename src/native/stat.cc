// SPDX-License-Identifier: Apache-2.0
// Stat: all that is known of one object or version, in one round trip; Open: the same, and it stays readable until Close.
#include <memory>
#include <string>
#include <utility>

#include "native/connection.h"
#include "native/object_reply.h"

namespace forebay::native {
namespace {

rt::Task<Result<store::ObjectInfo>> Find(Connection& connection, Request& request) {
  FB_CO_ASSIGN(const wire::StatRequest ask, wire::DecodeBody<wire::StatRequest>(request.body));
  FB_CO_TRY(connection.CheckAllowed(request.header.type, ask.bucket, ask.key));
  FB_CO_TRY((co_await connection.allowance().Admit(request, {.operations = 1}, 0)).status());
  store::ObjectStore& store = connection.services().store;
  store::ObjectInfo object;
  if (ask.version == 0) {
    FB_CO_ASSIGN(object, co_await store.Stat(request.context, std::string(ask.bucket), std::string(ask.key)));
  } else {
    FB_CO_ASSIGN(store::VersionInfo found, co_await store.StatVersion(request.context, std::string(ask.bucket),
                                                                      std::string(ask.key), ask.version));
    if (found.delete_marker) co_return store::NoSuchVersion(ask.bucket, ask.key, ask.version);
    object = std::move(found.object);
  }
  FB_CO_TRY(CheckETag(ask.bucket, ask.if_match, object));
  co_return object;
}

rt::Task<Result<std::shared_ptr<OpenVersion>>> OpenOne(Connection& connection, Request& request) {
  FB_CO_ASSIGN(const wire::OpenRequest ask, wire::DecodeBody<wire::OpenRequest>(request.body));
  FB_CO_TRY(connection.CheckAllowed(request.header.type, ask.bucket, ask.key));
  FB_CO_TRY((co_await connection.allowance().Admit(request, {.operations = 1}, 0)).status());
  auto version = std::make_shared<OpenVersion>();
  version->bucket = ask.bucket;
  FB_CO_ASSIGN(version->reader, co_await OpenReader(connection.services().store, request.context, ask.bucket, ask.key,
                                                    ask.version, ask.if_match));
  FB_CO_TRY(request.Stopped());
  co_return version;
}

}  // namespace

Status CheckETag(std::string_view bucket, std::string_view if_match, const store::ObjectInfo& object) {
  if (if_match.empty() || if_match == object.etag) return {};
  return Status::FailedPrecondition("`{}/{}` has the ETag `{}`, not `{}`", bucket, object.key, object.etag, if_match);
}

rt::Task<void> HandleOpen(Connection& connection, Request& request) {
  const Result<std::shared_ptr<OpenVersion>> version = co_await OpenOne(connection, request);
  if (!version.ok()) {
    (void)co_await connection.ReplyError(request.header, version.status());
    co_return;
  }
  const wire::OpenReply reply{.handle = connection.readers().Add(*version),
                              .object = ToReply((*version)->reader->info())};
  (void)co_await connection.Reply(request, reply);
}

rt::Task<void> HandleClose(Connection& connection, Request& request) {
  const Result<wire::CloseRequest> ask = wire::DecodeBody<wire::CloseRequest>(request.body);
  if (!ask.ok()) {
    (void)co_await connection.ReplyError(request.header, ask.status());
    co_return;
  }
  connection.readers().Close(ask->handle);
  (void)co_await connection.Reply(request, wire::EmptyReply{});
}

rt::Task<void> HandleStat(Connection& connection, Request& request) {
  const Result<store::ObjectInfo> object = co_await Find(connection, request);
  if (object.ok())
    (void)co_await connection.Reply(request, ToReply(*object));
  else
    (void)co_await connection.ReplyError(request.header, object.status());
}

}  // namespace forebay::native
