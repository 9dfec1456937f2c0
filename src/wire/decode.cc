// SPDX-License-Identifier: Apache-2.0
// Reading distrusts what it reads: a field out of range makes the decoder fail, and what is read after that
// is zero or empty.
#include "base/codec.h"
#include "wire/message.h"

namespace forebay::wire {
namespace {

using base::Decoder;

std::string_view Text(Decoder& in, size_t limit) {
  const uint16_t length = in.U16();
  if (length > limit) in.Fail();
  return in.Raw(in.failed() ? 0 : length);
}

template <typename Enum>
Enum Small(Decoder& in, Enum last) {
  const uint8_t value = in.U8();
  if (value > static_cast<uint8_t>(last)) in.Fail();
  return in.failed() ? Enum{} : static_cast<Enum>(value);
}

bool Flag(Decoder& in) { return Small(in, uint8_t{1}) != 0; }

void Get(Decoder& in, RegionRef& region) {
  region.key = in.U64();
  region.length = in.U64();
  region.writable = Flag(in);
  if (region.key == 0 && (region.length != 0 || region.writable)) in.Fail();
}

void Get(Decoder& in, MetadataView& metadata) {
  const uint16_t count = in.U16();
  size_t total = 0;
  for (uint16_t i = 0; i < count && !in.failed(); ++i) {
    const std::string_view name = Text(in, base::kMaxUserMetadataBytes);
    const std::string_view value = Text(in, base::kMaxUserMetadataBytes);
    total += name.size() + value.size();
    // A nameless entry would let an empty pair count as nothing, and 65,535 of them as little.
    if (name.empty() || total > base::kMaxUserMetadataBytes) return in.Fail();
    metadata.emplace_back(name, value);
  }
}

void Get(Decoder& in, std::optional<uint64_t>& number) {
  const bool known = Flag(in);
  const uint64_t value = in.U64();
  if (known) number = value;
  if (!known && value != 0) in.Fail();
}

void GetName(Decoder& in, std::string_view& bucket, std::string_view& key) {
  bucket = Text(in, base::kMaxBucketNameBytes);
  key = Text(in, base::kMaxKeyBytes);
}

void GetCondition(Decoder& in, Condition& condition, std::string_view& etag) {
  condition = Small(in, Condition::kIfMatch);
  etag = Text(in, base::kMaxETagBytes);
  if ((condition == Condition::kIfMatch) == etag.empty()) in.Fail();
}

void Get(Decoder& in, GetItem& item) {
  GetName(in, item.bucket, item.key);
  item.offset = in.U64();
  item.length = in.U64();
  item.region_offset = in.U64();
  item.if_match = Text(in, base::kMaxETagBytes);
}

void Get(Decoder& in, GetItemReply& item) {
  item.code = Small(in, Code::kUnauthenticated);
  if (item.code != Code::kOk) {
    item.message = Text(in, kMaxItemErrorBytes);
    return;
  }
  item.size = in.U64();
  item.total_size = in.U64();
  item.version = in.U64();
  item.crc32c = in.U32();
  item.etag = Text(in, base::kMaxETagBytes);
  if (item.size > item.total_size) in.Fail();
}

void Get(Decoder& in, PutItem& item) {
  GetName(in, item.bucket, item.key);
  in.Raw(MutableByteView(item.operation.bytes));
  item.size = in.U64();
  item.crc32c = in.U32();
  GetCondition(in, item.condition, item.etag);
  item.source = Small(in, Source::kRegion);
  item.source_offset = in.U64();
  Get(in, item.metadata);
}

void Get(Decoder& in, StoredReply& item) {
  item.code = Small(in, Code::kUnauthenticated);
  if (item.code != Code::kOk) {
    item.message = Text(in, kMaxItemErrorBytes);
    return;
  }
  item.size = in.U64();
  item.version = in.U64();
  item.crc32c = in.U32();
  item.etag = Text(in, base::kMaxETagBytes);
}

void Get(Decoder& in, ExistsItem& item) { GetName(in, item.bucket, item.key); }

/// `smallest`: bytes of the shortest item, so that a count alone never makes us allocate more than the
/// message could fill.
template <typename Item, typename One>
void GetList(Decoder& in, std::vector<Item>& items, size_t smallest, One one) {
  const uint16_t count = in.U16();
  if (count == 0 || count > base::kMaxBatchItems || count > in.remaining() / smallest) return in.Fail();
  items.resize(count);
  for (Item& item : items) one(in, item);
}

template <typename Item>
void GetList(Decoder& in, std::vector<Item>& items, size_t smallest) {
  GetList(in, items, smallest, [](Decoder& from, Item& item) { Get(from, item); });
}

void Get(Decoder& in, ErrorReply& body) { body.message = Text(in, kMaxErrorBytes); }

void Get(Decoder& in, HelloRequest& body) { body.client = Text(in, kMaxPeerNameBytes); }

void Get(Decoder& in, HelloReply& body) {
  body.max_requests = in.U32();
  body.max_streams = in.U32();
  body.max_inline_bytes = in.U32();
  body.max_chunk_bytes = in.U32();
  body.server = Text(in, kMaxPeerNameBytes);
}

void Get(Decoder& in, GetRequest& body) {
  body.inline_allowed = Flag(in);
  Get(in, body.region);
  GetList(in, body.items, 30);
}

void Get(Decoder& in, GetVersionRequest& body) {
  body.inline_allowed = Flag(in);
  Get(in, body.region);
  GetList(in, body.items, 38, [](Decoder& from, GetItem& item) {
    Get(from, item);
    item.version = from.U64();
  });
}

void Get(Decoder& in, StatRequest& body) {
  GetName(in, body.bucket, body.key);
  body.version = in.U64();
  body.if_match = Text(in, base::kMaxETagBytes);
}

void Get(Decoder& in, ObjectReply& body) {
  body.size = in.U64();
  body.version = in.U64();
  body.crc32c = in.U32();
  body.etag = Text(in, base::kMaxETagBytes);
  body.modified_unix_ms = static_cast<int64_t>(in.U64());
  Get(in, body.metadata);
  Get(in, body.attributes);
}

void Get(Decoder& in, OpenReply& body) {
  body.handle = in.U64();
  Get(in, body.object);
}

void Get(Decoder& in, ReadRequest& body) {
  body.handle = in.U64();
  body.offset = in.U64();
  body.length = in.U64();
  body.inline_allowed = Flag(in);
  Get(in, body.region);
  body.region_offset = in.U64();
}

void Get(Decoder& in, CloseRequest& body) { body.handle = in.U64(); }

void Get(Decoder& in, GetReply& body) {
  body.inlined = Flag(in);
  GetList(in, body.items, 3);
}

void Get(Decoder& in, PutRequest& body) {
  Get(in, body.region);
  GetList(in, body.items, 46);
}

void Get(Decoder& in, StoredListReply& body) { GetList(in, body.items, 3); }

void Get(Decoder& in, ExistsRequest& body) { GetList(in, body.items, 4); }

void Get(Decoder& in, PutBeginRequest& body) {
  GetName(in, body.bucket, body.key);
  GetCondition(in, body.condition, body.etag);
  Get(in, body.size);
  Get(in, body.metadata);
  if (in.failed() || in.remaining() == 0) return;
  Get(in, body.chosen.emplace().attributes);
  body.chosen->etag = Text(in, base::kMaxETagBytes);
}

void Get(Decoder& in, OverwriteBeginRequest& body) {
  GetName(in, body.bucket, body.key);
  GetCondition(in, body.condition, body.etag);
  Get(in, body.offset);
  Get(in, body.size);
}

void Get(Decoder& in, PartBeginRequest& body) {
  GetName(in, body.bucket, body.key);
  body.upload = in.U64();
  body.number = in.U32();
  body.etag = Text(in, base::kMaxETagBytes);
  Get(in, body.size);
}

void Get(Decoder& in, PutBeginReply& body) {
  body.handle = in.U64();
  if (body.handle == 0) in.Fail();
  if (!in.failed() && in.remaining() != 0) body.replays = Flag(in);
}

void Get(Decoder& in, PutDataRequest& body) {
  body.handle = in.U64();
  body.offset = in.U64();
  body.size = in.U32();
  body.crc32c = in.U32();
  body.source = Small(in, Source::kRegion);
  Get(in, body.region);
  body.region_offset = in.U64();
  if (body.size == 0 || body.size > base::kMaxChunkBytes ||
      (body.source == Source::kRegion) != body.region.present())
    in.Fail();
}

void Get(Decoder& in, PutDataReply& body) { body.received = in.U64(); }

void Get(Decoder& in, PutCommitRequest& body) {
  body.handle = in.U64();
  body.size = in.U64();
  body.crc32c = in.U32();
  if (in.failed() || in.remaining() == 0) return;
  body.unchecked = Flag(in);
  if (!body.unchecked || body.crc32c != 0) in.Fail();  // there is one way to say it
}

void Get(Decoder& in, PutAbortRequest& body) { body.handle = in.U64(); }

void Get(Decoder&, EmptyReply&) {}

void Get(Decoder& in, CancelRequest& body) { body.request = in.U64(); }

void Get(Decoder& in, CancelReply& body) { body.was_running = Flag(in); }

template <typename Body>
constexpr std::string_view kName = "a message";
template <>
constexpr std::string_view kName<HelloRequest> = "the body of Hello";
template <>
constexpr std::string_view kName<GetRequest> = "the body of Get";
template <>
constexpr std::string_view kName<GetReply> = "the reply to Get";
template <>
constexpr std::string_view kName<GetVersionRequest> = "the body of GetVersion";
template <>
constexpr std::string_view kName<StatRequest> = "the body of Stat";
template <>
constexpr std::string_view kName<OpenRequest> = "the body of Open";
template <>
constexpr std::string_view kName<ReadRequest> = "the body of Read";
template <>
constexpr std::string_view kName<CloseRequest> = "the body of Close";
template <>
constexpr std::string_view kName<ObjectReply> = "the reply to Stat or PutCommit";
template <>
constexpr std::string_view kName<OverwriteBeginRequest> = "the body of OverwriteBegin";
template <>
constexpr std::string_view kName<PartBeginRequest> = "the body of PartBegin";
template <>
constexpr std::string_view kName<PutRequest> = "the body of Put";
template <>
constexpr std::string_view kName<ExistsRequest> = "the body of Exists";
template <>
constexpr std::string_view kName<StoredListReply> = "the reply to Put or Exists";
template <>
constexpr std::string_view kName<CancelRequest> = "the body of Cancel";
template <>
constexpr std::string_view kName<PutBeginRequest> = "the body of PutBegin";
template <>
constexpr std::string_view kName<PutDataRequest> = "the body of PutData";
template <>
constexpr std::string_view kName<PutCommitRequest> = "the body of PutCommit";
template <>
constexpr std::string_view kName<PutAbortRequest> = "the body of PutAbort";

}  // namespace

template <typename Body>
Result<Body> DecodeBody(ByteView bytes) {
  Decoder in(bytes);
  Body body;
  Get(in, body);
  if (in.failed())
    return Status::InvalidArgument("{} is malformed: a field is cut short or out of range", kName<Body>);
  if (in.remaining() != 0)
    return Status::InvalidArgument("{} is malformed: {} bytes follow its last field", kName<Body>,
                                   in.remaining());
  return body;
}

#define FB_WIRE_BODY(Body) template Result<Body> DecodeBody(ByteView);
FB_WIRE_BODY(ErrorReply)
FB_WIRE_BODY(HelloRequest)
FB_WIRE_BODY(HelloReply)
FB_WIRE_BODY(GetRequest)
FB_WIRE_BODY(GetReply)
FB_WIRE_BODY(GetVersionRequest)
FB_WIRE_BODY(StatRequest)
FB_WIRE_BODY(ObjectReply)
FB_WIRE_BODY(OpenRequest)
FB_WIRE_BODY(OpenReply)
FB_WIRE_BODY(ReadRequest)
FB_WIRE_BODY(CloseRequest)
FB_WIRE_BODY(PutRequest)
FB_WIRE_BODY(StoredListReply)
FB_WIRE_BODY(StoredReply)
FB_WIRE_BODY(ExistsRequest)
FB_WIRE_BODY(PutBeginRequest)
FB_WIRE_BODY(OverwriteBeginRequest)
FB_WIRE_BODY(PartBeginRequest)
FB_WIRE_BODY(PutBeginReply)
FB_WIRE_BODY(PutDataRequest)
FB_WIRE_BODY(PutDataReply)
FB_WIRE_BODY(PutCommitRequest)
FB_WIRE_BODY(PutAbortRequest)
FB_WIRE_BODY(EmptyReply)
FB_WIRE_BODY(CancelRequest)
FB_WIRE_BODY(CancelReply)
#undef FB_WIRE_BODY

}  // namespace forebay::wire
