// SPDX-License-Identifier: Apache-2.0
// The data plane's messages, wire version 1: a fixed header, a body of its type, and payload that rides
// along. Used by native (server) and client. The grammar and an example in hex are in
// docs/formats/data-plane.md. Decoding takes hostile bytes: every field is checked against base/limits.h
// before it is used, and strings are views into the message, which must outlive the decoded body. Signing is
// auth's: this folder only knows where the MAC stands. Thread-safe: values and pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/ids.h"
#include "base/limits.h"
#include "base/status.h"

namespace forebay::wire {

constexpr uint32_t kMagic = 0x31594246;  // "FBY1" in memory order
constexpr uint8_t kVersion = 1;
constexpr size_t kHeaderBytes = 96;
constexpr size_t kMacBytes = 16;
constexpr size_t kMacOffset = kHeaderBytes - kMacBytes;
constexpr uint16_t kFlagReply = 1;
/// Of the error message of a request; longer ones are cut.
constexpr size_t kMaxErrorBytes = 1024;
/// Of one item's, so that a reply of kMaxBatchItems errors fits a message.
constexpr size_t kMaxItemErrorBytes = 512;
/// Of the name a peer gives itself in Hello.
constexpr size_t kMaxPeerNameBytes = 64;

enum class Type : uint8_t {
  kHello = 1,
  kGet = 2,
  kPut = 3,
  kExists = 4,
  kCancel = 5,
  kPutBegin = 6,
  kPutData = 7,
  kPutCommit = 8,
  kPutAbort = 9,
  kStat = 10,
  kGetVersion = 11,
  kOverwriteBegin = 12,
  kPartBegin = 13,
  kOpen = 14,
  kRead = 15,
  kClose = 16,
};
/// False for a number that this version has no type for.
constexpr bool IsKnown(Type type) { return type >= Type::kHello && type <= Type::kClose; }
constexpr std::string_view TypeName(Type type) {
  switch (type) {
    case Type::kHello:
      return "Hello";
    case Type::kGet:
      return "Get";
    case Type::kPut:
      return "Put";
    case Type::kExists:
      return "Exists";
    case Type::kCancel:
      return "Cancel";
    case Type::kPutBegin:
      return "PutBegin";
    case Type::kPutData:
      return "PutData";
    case Type::kPutCommit:
      return "PutCommit";
    case Type::kPutAbort:
      return "PutAbort";
    case Type::kStat:
      return "Stat";
    case Type::kGetVersion:
      return "GetVersion";
    case Type::kOverwriteBegin:
      return "OverwriteBegin";
    case Type::kPartBegin:
      return "PartBegin";
    case Type::kOpen:
      return "Open";
    case Type::kRead:
      return "Read";
    case Type::kClose:
      return "Close";
  }
  return "unknown";
}

/// What the fixed header says, without the parts that follow from it.
struct Header {
  Type type = Type::kHello;  // any number: the receiver answers those it does not know
  bool reply = false;
  Code status = Code::kOk;  // of a reply; an error's body is ErrorReply
  uint64_t session = 0;
  uint64_t counter = 0;  // 1, 2, 3 ... in each direction
  TenantId tenant = TenantId::kNone;
  OperationId operation;
  uint64_t deadline_us = 0;  // time left when it was sent; 0 = none
  uint64_t request = 0;      // chosen by the client, the same in the reply
  friend bool operator==(const Header&, const Header&) = default;
};

/// A message taken apart. Views into its bytes.
struct MessageView {
  Header header;
  ByteView body;
  ByteView payload;
};

/// Checks the fixed header and the lengths. InvalidArgument when the bytes are no message of this version.
Result<MessageView> DecodeMessage(ByteView message);
/// The 16 bytes of the MAC; `message` has at least a header.
MutableByteView MacOf(MutableByteView message);
/// The bytes that the MAC is made of, once MacOf is zero: header and body, not the payload (its CRC32C is in
/// the body).
inline ByteView SignedPart(ByteView message, size_t payload_bytes) {
  return message.first(message.size() - payload_bytes);
}

/// A region of the sender's memory that the receiver may use one way; key 0 is "none".
struct RegionRef {
  uint64_t key = 0;
  uint64_t length = 0;
  bool writable = false;  // the receiver writes into it (get); otherwise it reads from it (put)
  bool present() const { return key != 0; }
  friend bool operator==(const RegionRef&, const RegionRef&) = default;
};

enum class Condition : uint8_t { kNone = 0, kIfAbsent = 1, kIfMatch = 2 };

/// Where the bytes of a put are.
enum class Source : uint8_t { kPayload = 0, kRegion = 1 };

using MetadataView = std::vector<std::pair<std::string_view, std::string_view>>;

struct ErrorReply {
  std::string_view message;
};

struct HelloRequest {
  std::string_view client;  // a name for the server's log
};
struct HelloReply {
  uint32_t max_requests = 0;  // in flight at once on this connection
  uint32_t max_streams = 0;   // puts of unknown size at once
  uint32_t max_inline_bytes = 0;
  uint32_t max_chunk_bytes = 0;
  std::string_view server;
};

struct GetItem {
  std::string_view bucket;
  std::string_view key;
  uint64_t offset = 0;
  uint64_t length = 0;  // at most; cut at the object's end
  uint64_t region_offset = 0;
  std::string_view if_match;  // empty: any version
  uint64_t version = 0;       // of GetVersion only; 0: the current one
};
struct GetRequest {
  bool inline_allowed = false;  // all results may ride in the reply, when they fit kMaxInlineBytes together
  RegionRef region;
  std::vector<GetItem> items;
};
/// Its items name versions; otherwise as Get, and so is the reply.
struct GetVersionRequest : GetRequest {};
struct GetItemReply {
  Code code = Code::kOk;
  std::string_view message;  // with an error; the rest is then absent
  uint64_t size = 0;         // bytes delivered
  uint64_t total_size = 0;
  uint64_t version = 0;
  uint32_t crc32c = 0;  // of the bytes delivered
  std::string_view etag;
};
struct GetReply {
  bool inlined = false;  // the payload holds the bytes of all ok items, one after the other
  std::vector<GetItemReply> items;
};

struct PutItem {
  std::string_view bucket;
  std::string_view key;
  OperationId operation;
  uint64_t size = 0;
  uint32_t crc32c = 0;
  Condition condition = Condition::kNone;
  std::string_view etag;  // with kIfMatch
  Source source = Source::kPayload;
  uint64_t source_offset = 0;  // in the payload or the region
  MetadataView metadata;
};
struct PutRequest {
  RegionRef region;
  std::vector<PutItem> items;
};
struct StoredReply {
  Code code = Code::kOk;
  std::string_view message;  // with an error; the rest is then absent
  uint64_t size = 0;
  uint64_t version = 0;
  uint32_t crc32c = 0;
  std::string_view etag;
};
/// Of Put and of Exists: what is stored under each name (Exists: NotFound when nothing is).
struct StoredListReply {
  std::vector<StoredReply> items;
};

struct ExistsItem {
  std::string_view bucket;
  std::string_view key;
};
struct ExistsRequest {
  std::vector<ExistsItem> items;
};

struct StatRequest {
  std::string_view bucket;
  std::string_view key;
  uint64_t version = 0;       // 0: the current one
  std::string_view if_match;  // empty: any
};
/// All that is known of an object: of Stat, and of the commit of a stream that was begun so that it says more.
struct ObjectReply {
  uint64_t size = 0;
  uint64_t version = 0;
  uint32_t crc32c = 0;
  std::string_view etag;
  int64_t modified_unix_ms = 0;
  MetadataView metadata;
  MetadataView attributes;
};

/// As Stat, and the server keeps the version readable on this connection.
struct OpenRequest : StatRequest {};
struct OpenReply {
  uint64_t handle = 0;  // 0: the server keeps as many as it may, and this one is read by its number
  ObjectReply object;
};
/// A run of an open version; answered as a Get of one item.
struct ReadRequest {
  uint64_t handle = 0;
  uint64_t offset = 0;
  uint64_t length = 0;  // at most; cut at the object's end
  bool inline_allowed = false;
  RegionRef region;
  uint64_t region_offset = 0;
};
struct CloseRequest {
  uint64_t handle = 0;
};

/// What a frontend chooses of an object beside its metadata.
struct ChosenView {
  MetadataView attributes;
  std::string_view etag;  // empty: the store's own
};
struct PutBeginRequest {
  std::string_view bucket;
  std::string_view key;
  Condition condition = Condition::kNone;
  std::string_view etag;
  std::optional<uint64_t> size;  // when it is known
  MetadataView metadata;
  std::optional<ChosenView> chosen{};  // with it the replies to this and to PutCommit say more
};
struct OverwriteBeginRequest {
  std::string_view bucket;
  std::string_view key;
  Condition condition = Condition::kNone;
  std::string_view etag;
  std::optional<uint64_t> offset;  // empty: append
  std::optional<uint64_t> size;    // of the content, when it is known
};
struct PartBeginRequest {
  std::string_view bucket;
  std::string_view key;
  uint64_t upload = 0;
  uint32_t number = 0;
  std::string_view etag;  // that the part gets; empty: the store's own
  std::optional<uint64_t> size;
};
/// Of the three ways to begin a stream.
struct PutBeginReply {
  uint64_t handle = 0;  // never 0
  // Whether the operation took place before, so that no content is needed. Not in the reply to a plain PutBegin.
  std::optional<bool> replays{};
};
struct PutDataRequest {
  uint64_t handle = 0;
  uint64_t offset = 0;  // of the piece in the object: pieces come in order
  uint32_t size = 0;    // 1 to kMaxChunkBytes; a multiple of 4096 unless it is the last piece
  uint32_t crc32c = 0;
  Source source = Source::kPayload;
  RegionRef region;  // with kRegion
  uint64_t region_offset = 0;
};
struct PutDataReply {
  uint64_t received = 0;  // bytes of the object that the server has
};
struct PutCommitRequest {
  uint64_t handle = 0;
  uint64_t size = 0;
  uint32_t crc32c = 0;
  bool unchecked = false;  // there is no checksum, because nothing was sent: the stream replays
};
struct PutAbortRequest {
  uint64_t handle = 0;
};
struct EmptyReply {};

struct CancelRequest {
  uint64_t request = 0;
};
struct CancelReply {
  bool was_running = false;
};

/// Header (MAC zero) and body, for `payload_bytes` of payload that the caller appends or sends from where it
/// lies. Bodies within the limits of this file always encode; what exceeds kMaxMessageBytes is for the caller
/// to see in the size.
template <typename Body>
Bytes EncodeHead(const Header& header, const Body& body, size_t payload_bytes);
/// The same with the payload copied behind it.
template <typename Body>
Bytes EncodeMessage(const Header& header, const Body& body, ByteView payload = {});
/// InvalidArgument naming the type when a field is cut short, out of range, or bytes are left over.
template <typename Body>
Result<Body> DecodeBody(ByteView body);

}  // namespace forebay::wire
