// SPDX-License-Identifier: Apache-2.0
// One function per body walks its fields in wire order; run over a Counter it gives the size, over a Writer
// the bytes.
#include <cstring>

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
void Put(Sink& sink, const std::optional<uint64_t>& number) {
  sink.Fixed(static_cast<uint8_t>(number.has_value()));
  sink.Fixed(number.value_or(0));
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
void Put(Sink& sink, const GetVersionRequest& body) {
  sink.Fixed(static_cast<uint8_t>(body.inline_allowed));
  Put(sink, body.region);
  sink.Fixed(static_cast<uint16_t>(body.items.size()));
  for (const GetItem& item : body.items) {
    Put(sink, item);
    sink.Fixed(item.version);
  }
}

template <typename Sink>
void Put(Sink& sink, const StatRequest& body) {
  sink.Text(body.bucket);
  sink.Text(body.key);
  sink.Fixed(body.version);
  sink.Text(body.if_match);
}

template <typename Sink>
void Put(Sink& sink, const ObjectReply& body) {
  sink.Fixed(body.size);
  sink.Fixed(body.version);
  sink.Fixed(body.crc32c);
  sink.Text(body.etag);
  sink.Fixed(static_cast<uint64_t>(body.modified_unix_ms));
  Put(sink, body.metadata);
  Put(sink, body.attributes);
}

template <typename Sink>
void Put(Sink& sink, const OpenReply& body) {
  sink.Fixed(body.handle);
  Put(sink, body.object);
}

template <typename Sink>
void Put(Sink& sink, const ReadRequest& body) {
  sink.Fixed(body.handle);
  sink.Fixed(body.offset);
  sink.Fixed(body.length);
  sink.Fixed(static_cast<uint8_t>(body.inline_allowed));
  Put(sink, body.region);
  sink.Fixed(body.region_offset);
}

template <typename Sink>
void Put(Sink& sink, const CloseRequest& body) {
  sink.Fixed(body.handle);
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
  Put(sink, body.size);
  Put(sink, body.metadata);
  if (!body.chosen) return;
  Put(sink, body.chosen->attributes);
  sink.Text(body.chosen->etag);
}

template <typename Sink>
void Put(Sink& sink, const OverwriteBeginRequest& body) {
  sink.Text(body.bucket);
  sink.Text(body.key);
  sink.Fixed(static_cast<uint8_t>(body.condition));
  sink.Text(body.etag);
  Put(sink, body.offset);
  Put(sink, body.size);
}

template <typename Sink>
void Put(Sink& sink, const PartBeginRequest& body) {
  sink.Text(body.bucket);
  sink.Text(body.key);
  sink.Fixed(body.upload);
  sink.Fixed(body.number);
  sink.Text(body.etag);
  Put(sink, body.size);
}

template <typename Sink>
void Put(Sink& sink, const PutBeginReply& body) {
  sink.Fixed(body.handle);
  if (body.replays) sink.Fixed(static_cast<uint8_t>(*body.replays));
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
  if (body.unchecked) sink.Fixed(uint8_t{1});
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

#define FB_WIRE_BODY(Body)                                       \
  template Bytes EncodeHead(const Header&, const Body&, size_t); \
  template Bytes EncodeMessage(const Header&, const Body&, ByteView);
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
