// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "base/check.h"
#include "wire/message.h"
#include "wire/message_fuzz.h"

namespace forebay::wire {
namespace {

/// The codec is a bijection on what it accepts: decoding and encoding gives the message back, but for the
/// MAC.
template <typename Body>
bool Check(const MessageView& message, ByteView input) {
  const auto body = DecodeBody<Body>(message.body);
  if (!body.ok()) return false;
  Bytes again = EncodeMessage(message.header, *body, message.payload);
  std::ranges::copy(input.subspan(kMacOffset, kMacBytes), MacOf(again).begin());
  FB_CHECK(std::ranges::equal(again, input));
  return true;
}

bool CheckReply(const MessageView& message, ByteView input) {
  if (message.header.status != Code::kOk) return Check<ErrorReply>(message, input);
  switch (message.header.type) {
    case Type::kHello:
      return Check<HelloReply>(message, input);
    case Type::kGet:
    case Type::kGetVersion:
    case Type::kRead:
      return Check<GetReply>(message, input);
    case Type::kPut:
    case Type::kExists:
      return Check<StoredListReply>(message, input);
    case Type::kCancel:
      return Check<CancelReply>(message, input);
    case Type::kPutBegin:
    case Type::kOverwriteBegin:
    case Type::kPartBegin:
      return Check<PutBeginReply>(message, input);
    case Type::kPutData:
      return Check<PutDataReply>(message, input);
    case Type::kPutCommit:
      return Check<StoredReply>(message, input) || Check<ObjectReply>(message, input);
    case Type::kPutAbort:
    case Type::kClose:
      return Check<EmptyReply>(message, input);
    case Type::kOpen:
      return Check<OpenReply>(message, input);
    case Type::kStat:
      return Check<ObjectReply>(message, input);
  }
  return false;
}

bool CheckRequest(const MessageView& message, ByteView input) {
  switch (message.header.type) {
    case Type::kHello:
      return Check<HelloRequest>(message, input);
    case Type::kGet:
      return Check<GetRequest>(message, input);
    case Type::kPut:
      return Check<PutRequest>(message, input);
    case Type::kExists:
      return Check<ExistsRequest>(message, input);
    case Type::kCancel:
      return Check<CancelRequest>(message, input);
    case Type::kPutBegin:
      return Check<PutBeginRequest>(message, input);
    case Type::kPutData:
      return Check<PutDataRequest>(message, input);
    case Type::kPutCommit:
      return Check<PutCommitRequest>(message, input);
    case Type::kPutAbort:
      return Check<PutAbortRequest>(message, input);
    case Type::kStat:
      return Check<StatRequest>(message, input);
    case Type::kGetVersion:
      return Check<GetVersionRequest>(message, input);
    case Type::kOverwriteBegin:
      return Check<OverwriteBeginRequest>(message, input);
    case Type::kPartBegin:
      return Check<PartBeginRequest>(message, input);
    case Type::kOpen:
      return Check<OpenRequest>(message, input);
    case Type::kRead:
      return Check<ReadRequest>(message, input);
    case Type::kClose:
      return Check<CloseRequest>(message, input);
  }
  return false;
}

}  // namespace

bool FuzzOne(ByteView input) {
  const auto message = DecodeMessage(input);
  if (!message.ok()) return false;
  return message->header.reply ? CheckReply(*message, input) : CheckRequest(*message, input);
}

std::vector<Bytes> FuzzCorpus() {
  std::vector<Bytes> corpus;
  Header header{.session = 1, .counter = 1, .tenant = TenantId::kRoot, .deadline_us = 1000, .request = 1};
  const auto add = [&](Type type, bool reply, Code status, const auto& body, std::string_view payload = {}) {
    header.type = type;
    header.reply = reply;
    header.status = status;
    corpus.push_back(EncodeMessage(header, body, AsBytes(payload)));
  };
  const RegionRef region{.key = 5, .length = 1 << 20, .writable = true};
  const RegionRef source{.key = 6, .length = 1 << 20};
  const StoredReply stored{.size = 5, .version = 2, .crc32c = 9, .etag = "e"};
  const StoredReply missing{.code = Code::kNotFound, .message = "none"};

  add(Type::kHello, false, Code::kOk, HelloRequest{"client"});
  add(Type::kHello, true, Code::kOk, HelloReply{256, 16, 8192, 1 << 20, "server"});
  add(Type::kGet, false, Code::kOk,
      GetRequest{
          true,
          region,
          {{.bucket = "abc", .key = "k", .length = 9}, {.bucket = "abc", .key = "l", .if_match = "e"}}});
  add(Type::kGet, true, Code::kOk,
      GetReply{true,
               {{.size = 2, .total_size = 9, .version = 1, .crc32c = 4, .etag = "e"},
                {.code = Code::kNotFound, .message = "none"}}},
      "xy");
  add(Type::kPut, false, Code::kOk,
      PutRequest{source,
                 {{.bucket = "abc", .key = "k", .size = 5, .condition = Condition::kIfAbsent},
                  {.bucket = "abc",
                   .key = "l",
                   .condition = Condition::kIfMatch,
                   .etag = "e",
                   .source = Source::kRegion,
                   .metadata = {{"a", "b"}}}}},
      "hello");
  add(Type::kPut, true, Code::kOk, StoredListReply{{stored, missing}});
  add(Type::kExists, false, Code::kOk, ExistsRequest{{{"abc", "k"}, {"abc", "l"}}});
  add(Type::kExists, true, Code::kOk, StoredListReply{{missing, stored}});
  add(Type::kCancel, false, Code::kOk, CancelRequest{7});
  add(Type::kCancel, true, Code::kOk, CancelReply{true});
  add(Type::kPutBegin, false, Code::kOk,
      PutBeginRequest{.bucket = "abc", .key = "k", .size = 7, .metadata = {{"a", "b"}, {"c", ""}}});
  add(Type::kPutBegin, true, Code::kOk, PutBeginReply{3});
  add(Type::kPutData, false, Code::kOk, PutDataRequest{.handle = 3, .size = 4, .crc32c = 1}, "data");
  add(Type::kPutData, false, Code::kOk,
      PutDataRequest{.handle = 3, .size = 4096, .crc32c = 1, .source = Source::kRegion, .region = source});
  add(Type::kPutData, true, Code::kOk, PutDataReply{4});
  add(Type::kPutCommit, false, Code::kOk, PutCommitRequest{3, 4, 1});
  add(Type::kPutCommit, true, Code::kOk, stored);
  add(Type::kPutAbort, false, Code::kOk, PutAbortRequest{3});
  add(Type::kPutAbort, true, Code::kOk, EmptyReply{});
  const ObjectReply object{.size = 5,
                           .version = 2,
                           .crc32c = 9,
                           .etag = "e",
                           .modified_unix_ms = -1,
                           .metadata = {{"a", "b"}},
                           .attributes = {{"s3.c", ""}}};
  add(Type::kPutBegin, false, Code::kOk,
      PutBeginRequest{.bucket = "abc", .key = "k", .chosen = ChosenView{.attributes = {{"a", "b"}}, .etag = "e"}});
  add(Type::kPutBegin, true, Code::kOk, PutBeginReply{3, true});
  add(Type::kPutCommit, false, Code::kOk, PutCommitRequest{3, 4, 0, true});
  add(Type::kPutCommit, true, Code::kOk, object);
  add(Type::kStat, false, Code::kOk, StatRequest{.bucket = "abc", .key = "k", .version = 7, .if_match = "e"});
  add(Type::kStat, true, Code::kOk, object);
  GetVersionRequest versions;
  versions.region = region;
  versions.items = {{.bucket = "abc", .key = "k", .length = 9, .version = 8}, {.bucket = "abc", .key = "l"}};
  add(Type::kGetVersion, false, Code::kOk, versions);
  add(Type::kOverwriteBegin, false, Code::kOk,
      OverwriteBeginRequest{.bucket = "abc", .key = "k", .offset = 0, .size = {}});
  add(Type::kOverwriteBegin, false, Code::kOk,
      OverwriteBeginRequest{.bucket = "abc", .key = "k", .condition = Condition::kIfMatch, .etag = "e", .size = 7});
  add(Type::kOverwriteBegin, true, Code::kOk, PutBeginReply{3, false});
  add(Type::kPartBegin, false, Code::kOk,
      PartBeginRequest{.bucket = "abc", .key = "k", .upload = 9, .number = 4, .etag = "e", .size = 1});
  OpenRequest open;
  open.bucket = "abc";
  open.key = "k";
  add(Type::kOpen, false, Code::kOk, open);
  add(Type::kOpen, true, Code::kOk, OpenReply{4, object});
  add(Type::kRead, false, Code::kOk,
      ReadRequest{.handle = 4, .offset = 4096, .length = 9, .inline_allowed = true, .region = region});
  add(Type::kRead, true, Code::kOk, GetReply{true, {{.size = 2, .total_size = 9, .version = 1, .crc32c = 4}}}, "xy");
  add(Type::kClose, false, Code::kOk, CloseRequest{4});
  add(Type::kClose, true, Code::kOk, EmptyReply{});
  add(Type::kGet, true, Code::kUnavailable, ErrorReply{"draining"});
  return corpus;
}

}  // namespace forebay::wire
