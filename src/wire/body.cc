// SPDX-License-Identifier: Apache-2.0
// One function per body walks its fields in wire order; run over a Counter it gives the size, over a Writer the bytes.
// Reading is written apart, since it must distrust what it reads.
#include <algorithm>
#include <cstring>

#include "base/codec.h"
#include "wire/header_layout.h"
#include "wire/message.h"

namespace forebay::wire {
namespace {

class Counter {
 public:
  template <std::unsigned_integral T>
  void Fixed(T) {
    size_ += sizeof(T);
  }
  void Raw(ByteView bytes) { size_ += bytes.size(); }
  void Text(std::string_view text) { size_ += 2 + text.size(); }
  size_t size() const { return size_; }

 private:
  size_t size_ = 0;
};

class Writer {
 public:
  /// `out` has room for all that will be written.
  explicit Writer(std::byte* out) : out_(out) {}
  template <std::unsigned_integral T>
  void Fixed(T value) {  // little-endian hosts only, see header.cc
    std::memcpy(out_, &value, sizeof(T));
    out_ += sizeof(T);
  }
  void Raw(ByteView bytes) {
    if (!bytes.empty()) std::memcpy(out_, bytes.data(), bytes.size());
    out_ += bytes.size();
  }
  void Text(std::string_view text) {
    Fixed(static_cast<uint16_t>(text.size()));
    Raw(AsBytes(text));
  }

 private:
  std::byte* out_;
};

/// At most `limit` bytes, without half a character at the end.
std::string_view Cut(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text;
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xc0) == 0x80) --limit;
  return text.substr(0, limit);
}

// ---- writing ----

template <typename Sink>
void Put(Sink& sink, const RegionRef& region) {
  sink.Fixed(region.key);
  sink.Fixed(region.length);
  sink.Fixed(static_cast<uint8_t>(region.writable));
}

template <typename Sink>
void Put(Sink& sink, const MetadataView& metadata) {
  sink.Fixed(static_cast<uint16_t>(metadata.size()));
  for (const auto& [name, value] : metadata) {
    sink.Text(name);
    sink.Text(value);
  }
}

template <typename Sink>
void Put(Sink& sink, const GetItem& item) {
  sink.Text(item.bucket);
  sink.Text(item.key);
  sink.Fixed(item.offset);
  sink.Fixed(item.length);
  sink.Fixed(item.region_offset);
  sink.Text(item.if_match);
}

template <typename Sink>
void Put(Sink& sink, const GetItemReply& item) {
  sink.Fixed(static_cast<uint8_t>(item.code));
  if (item.code != Code::kOk) return sink.Text(Cut(item.message, kMaxItemErrorBytes));
  sink.Fixed(item.size);
  sink.Fixed(item.total_size);
  sink.Fixed(item.version);
  sink.Fixed(item.crc32c);
  sink.Text(item.etag);
}

template <typename Sink>
void Put(Sink& sink, const PutItem& item) {
  sink.Text(item.bucket);
  sink.Text(item.key);
  sink.Raw(item.operation.bytes);
  sink.Fixed(item.size);
  sink.Fixed(item.crc32c);
  sink.Fixed(static_cast<uint8_t>(item.condition));
  sink.Text(item.etag);
  sink.Fixed(static_cast<uint8_t>(item.source));
  sink.Fixed(item.source_offset);
  Put(sink, item.metadata);
}

template <typename Sink>
void Put(Sink& sink, const StoredReply& item) {
  sink.Fixed(static_cast<uint8_t>(item.code));
  if (item.code != Code::kOk) return sink.Text(Cut(item.message, kMaxItemErrorBytes));
  sink.Fixed(item.size);
  sink.Fixed(item.version);
  sink.Fixed(item.crc32c);
  sink.Text(item.etag);
}

template <typename Sink>
void Put(Sink& sink, const ExistsItem& item) {
  sink.Text(item.bucket);
  sink.Text(item.key);
}

template <typename Sink, typename Item>
void PutList(Sink& sink, const std::vector<Item>& items) {
  sink.Fixed(static_cast<uint16_t>(items.size()));
  for (const Item& item : items) Put(sink, item);
}

template <typename Sink>
void Put(Sink& sink, const ErrorReply& body) {
  sink.Text(Cut(body.message, kMaxErrorBytes));
}

template <typename Sink>
void Put(Sink& sink, const HelloRequest& body) {
  sink.Text(body.client);
}

template <typename Sink>
void Put(Sink& sink, const HelloReply& body) {
  sink.Fixed(body.max_requests);
  sink.Fixed(body.max_streams);
  sink.Fixed(body.max_inline_bytes);
  sink.Fixed(body.max_chunk_bytes);
  sink.Text(body.server);
}

template <typename Sink>
void Put(Sink& sink, const GetRequest& body) {
  sink.Fixed(static_cast<uint8_t>(body.inline_allowed));
  Put(sink, body.region);
  PutList(sink, body.items);
}

template <typename Sink>
void Put(Sink& sink, const GetReply& body) {
  sink.Fixed(static_cast<uint8_t>(body.inlined));
  PutList(sink, body.items);
}

template <typename Sink>
void Put(Sink& sink, const PutRequest& body) {
  Put(sink, body.region);
  PutList(sink, body.items);
}

template <typename Sink>
void Put(Sink& sink, const StoredListReply& body) {
  PutList(sink, body.items);
}

template <typename Sink>
void Put(Sink& sink, const ExistsRequest& body) {
  PutList(sink, body.items);
}

template <typename Sink>
void Put(Sink& sink, const PutBeginRequest& body) {
  sink.Text(body.bucket);
  sink.Text(body.key);
  sink.Fixed(static_cast<uint8_t>(body.condition));
  sink.Text(body.etag);
  sink.Fixed(static_cast<uint8_t>(body.size.has_value()));
  sink.Fixed(body.size.value_or(0));
  Put(sink, body.metadata);
}

template <typename Sink>
void Put(Sink& sink, const PutBeginReply& body) {
  sink.Fixed(body.handle);
}

template <typename Sink>
void Put(Sink& sink, const PutDataRequest& body) {
  sink.Fixed(body.handle);
  sink.Fixed(body.offset);
  sink.Fixed(body.size);
  sink.Fixed(body.crc32c);
  sink.Fixed(static_cast<uint8_t>(body.source));
  Put(sink, body.region);
  sink.Fixed(body.region_offset);
}

template <typename Sink>
void Put(Sink& sink, const PutDataReply& body) {
  sink.Fixed(body.received);
}

template <typename Sink>
void Put(Sink& sink, const PutCommitRequest& body) {
  sink.Fixed(body.handle);
  sink.Fixed(body.size);
  sink.Fixed(body.crc32c);
}

template <typename Sink>
void Put(Sink& sink, const PutAbortRequest& body) {
  sink.Fixed(body.handle);
}

template <typename Sink>
void Put(Sink&, const EmptyReply&) {}

template <typename Sink>
void Put(Sink& sink, const CancelRequest& body) {
  sink.Fixed(body.request);
}

template <typename Sink>
void Put(Sink& sink, const CancelReply& body) {
  sink.Fixed(static_cast<uint8_t>(body.was_running));
}

// ---- reading: a field out of range makes the decoder fail; what is read after that is zero or empty ----

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

/// `smallest`: bytes of the shortest item, so that a count alone never makes us allocate more than the message could fill.
template <typename Item>
void GetList(Decoder& in, std::vector<Item>& items, size_t smallest) {
  const uint16_t count = in.U16();
  if (count == 0 || count > base::kMaxBatchItems || count > in.remaining() / smallest) return in.Fail();
  items.resize(count);
  for (Item& item : items) Get(in, item);
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
  const bool known = Flag(in);
  const uint64_t size = in.U64();
  if (known) body.size = size;
  if (!known && size != 0) in.Fail();
  Get(in, body.metadata);
}

void Get(Decoder& in, PutBeginReply& body) {
  body.handle = in.U64();
  if (body.handle == 0) in.Fail();
}

void Get(Decoder& in, PutDataRequest& body) {
  body.handle = in.U64();
  body.offset = in.U64();
  body.size = in.U32();
  body.crc32c = in.U32();
  body.source = Small(in, Source::kRegion);
  Get(in, body.region);
  body.region_offset = in.U64();
  if (body.size == 0 || body.size > base::kMaxChunkBytes || (body.source == Source::kRegion) != body.region.present())
    in.Fail();
}

void Get(Decoder& in, PutDataReply& body) { body.received = in.U64(); }

void Get(Decoder& in, PutCommitRequest& body) {
  body.handle = in.U64();
  body.size = in.U64();
  body.crc32c = in.U32();
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

template <typename Body>
Bytes Encode(const Header& header, const Body& body, size_t payload_bytes, size_t room) {
  Counter counter;
  Put(counter, body);
  Bytes message;
  message.reserve(kHeaderBytes + counter.size() + room);
  message.resize(kHeaderBytes + counter.size());
  PutHeader(header, counter.size(), payload_bytes, message);
  Writer writer(message.data() + kHeaderBytes);
  Put(writer, body);
  return message;
}

}  // namespace

template <typename Body>
Bytes EncodeHead(const Header& header, const Body& body, size_t payload_bytes) {
  return Encode(header, body, payload_bytes, 0);
}

template <typename Body>
Bytes EncodeMessage(const Header& header, const Body& body, ByteView payload) {
  Bytes message = Encode(header, body, payload.size(), payload.size());
  message.insert(message.end(), payload.begin(), payload.end());
  return message;
}

template <typename Body>
Result<Body> DecodeBody(ByteView bytes) {
  Decoder in(bytes);
  Body body;
  Get(in, body);
  if (in.failed()) return Status::InvalidArgument("{} is malformed: a field is cut short or out of range", kName<Body>);
  if (in.remaining() != 0)
    return Status::InvalidArgument("{} is malformed: {} bytes follow its last field", kName<Body>, in.remaining());
  return body;
}

#define FB_WIRE_BODY(Body)                                          \
  template Bytes EncodeHead(const Header&, const Body&, size_t);    \
  template Bytes EncodeMessage(const Header&, const Body&, ByteView); \
  template Result<Body> DecodeBody(ByteView);
FB_WIRE_BODY(ErrorReply)
FB_WIRE_BODY(HelloRequest)
FB_WIRE_BODY(HelloReply)
FB_WIRE_BODY(GetRequest)
FB_WIRE_BODY(GetReply)
FB_WIRE_BODY(PutRequest)
FB_WIRE_BODY(StoredListReply)
FB_WIRE_BODY(StoredReply)
FB_WIRE_BODY(ExistsRequest)
FB_WIRE_BODY(PutBeginRequest)
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
