// SPDX-License-Identifier: Apache-2.0
// Client: objects of a Forebay server, moved by the server straight into or out of memory that the caller
// offers. Blocking calls, and asynchronous ones for deep queues without threads. Every call ends by its
// timeout plus one second, and once it has ended no byte of its buffer changes or is read. Payload is
// verified end to end by CRC32C: kDataLoss when it is wrong. When the server or the connection to it is gone,
// a call is made again by itself, after pauses, until its time or its attempts are used up (RetryOptions);
// changes too, for each has an operation id with which the server lets it take place once. Only a Writer is
// not repeated: what was written to it is gone. Thread-safe. Regions, writers and readers end before their
// client; callbacks run on the client's own thread and must not block (the blocking calls refuse to run
// there).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "forebay/error.h"

namespace forebay {

/// Stands for "the timeout of the client's options".
constexpr std::chrono::nanoseconds kDefaultTimeout{0};

/// How a call is made again that failed with kUnavailable.
struct RetryOptions {
  unsigned max_attempts = 12;  ///< in all; 1: never again
  std::chrono::nanoseconds first_pause =
      std::chrono::milliseconds(25);  ///< doubles each time; half of it is random
  std::chrono::nanoseconds max_pause = std::chrono::seconds(2);
};

struct ClientOptions {
  std::string server = "127.0.0.1:7400";  ///< the control address, "host:port"
  std::string credentials_path;  ///< the file `credentials` of the server's directory, or a copy of it
  std::string capability_path;   ///< a file as `forebay cap issue` prints it; then no credentials are needed
  unsigned connections = 1;      ///< data connections, 1 to 64; calls are spread over them
  std::chrono::nanoseconds timeout = std::chrono::seconds(60);  ///< for calls that give none
  std::string fabric;  ///< how payload moves: "tcp", say (docs/fabric.md). Empty: the best that both sides have
  RetryOptions retry;
  /// A directory with ca.crt, tls.crt and tls.key, read once: mutual TLS with the server, whose certificate
  /// must name the host of `server`. Empty: no TLS
  std::string tls_directory;
};

struct ObjectInfo {
  std::string key;
  uint64_t version = 0;  ///< never used again, larger is later
  uint64_t size = 0;
  std::string etag;     ///< opaque; changes with every version
  uint32_t crc32c = 0;  ///< of the whole content
  std::chrono::system_clock::time_point modified;
  std::map<std::string, std::string> metadata;
  std::map<std::string, std::string> attributes;  ///< may change while the version stays: SetAttributes
};

struct GetOptions {
  uint64_t offset = 0;           ///< kOutOfRange when it is past the end; the end itself gives 0 bytes
  uint64_t length = UINT64_MAX;  ///< at most this many bytes, at most the buffer, at most to the object's end
  std::string if_match;  ///< an etag: kFailedPrecondition when the object is another version. Empty: any
  std::chrono::nanoseconds timeout = kDefaultTimeout;
  uint64_t version = 0;  ///< this one, in a bucket that keeps versions; 0: the current one
};

struct GetResult {
  uint64_t size = 0;        ///< bytes that are in the buffer
  uint64_t total_size = 0;  ///< of the object
  uint64_t version = 0;
  std::string etag;
  uint32_t crc32c = 0;  ///< of the bytes that came, verified
};

struct PutOptions {
  bool if_absent = false;  ///< kAlreadyExists when there is an object
  std::string if_match;    ///< an etag: kFailedPrecondition when the object is another version
  std::map<std::string, std::string> metadata;
  std::chrono::nanoseconds timeout = kDefaultTimeout;
  /// Of an earlier attempt (Writer::operation): when that took place, this gives its result and stores
  /// nothing. Kept by the server for 15 minutes; kFailedPrecondition afterwards, kInvalidArgument when it was
  /// another put. Empty: a new one.
  std::string operation;
};

struct PutResult {
  uint64_t size = 0;
  uint64_t version = 0;
  std::string etag;
  uint32_t crc32c = 0;
};

struct ExistsResult {
  bool found = false;  ///< the rest is empty when it is not
  uint64_t size = 0;
  uint64_t version = 0;
  std::string etag;
  uint32_t crc32c = 0;
};

struct OverwriteOptions {
  std::string if_match;  ///< an etag: kFailedPrecondition when the object is another version
  std::chrono::nanoseconds timeout = kDefaultTimeout;
  std::string operation;  ///< as in PutOptions
};

struct TruncateOptions {
  std::string if_match;
  std::chrono::nanoseconds timeout = kDefaultTimeout;
};

/// A change of attributes, all at one moment.
struct AttributeChange {
  std::map<std::string, std::string> set;  ///< added, or instead of those with the same names
  std::vector<std::string> remove;         ///< before; those that are not there are fine
  std::string if_match;                    ///< an etag; empty: any
  uint64_t version = 0;                    ///< 0: the current one
  std::chrono::nanoseconds timeout = kDefaultTimeout;
};

struct VersionInfo {
  ObjectInfo object;           ///< of a delete marker: key, version and time
  bool latest = false;         ///< the newest of its key
  bool delete_marker = false;  ///< what a delete left: a version without content that hides the others
  bool null_version = false;   ///< put while the bucket kept no versions
};

struct VersionListOptions {
  std::string prefix;
  std::string after_key;       ///< with after_version: exclusive
  uint64_t after_version = 0;  ///< 0: behind all versions of the key
  uint32_t limit = 1000;       ///< 1 to 1000
  std::chrono::nanoseconds timeout = kDefaultTimeout;
};

struct VersionPage {
  std::vector<VersionInfo> versions;  ///< ascending by key, those of one key newest first
  bool truncated = false;             ///< go on behind the last one
};

/// An upload belongs to one key.
struct UploadName {
  std::string bucket;
  std::string key;
  uint64_t id = 0;
};

struct UploadInfo {
  uint64_t id = 0;  ///< never used again, larger is later
  std::string key;
  std::chrono::system_clock::time_point created;
  std::map<std::string, std::string> metadata;  ///< of the object that it becomes
};

struct PartInfo {
  uint32_t number = 0;  ///< 1 to 10,000
  uint64_t size = 0;
  std::string etag;
  uint32_t crc32c = 0;
  std::chrono::system_clock::time_point modified;
};

/// A part to complete an upload with.
struct PartRef {
  uint32_t number = 0;
  std::string etag;  ///< empty: whatever was sent last under the number
};

struct CompleteOptions {
  bool if_absent = false;  ///< kAlreadyExists when there is an object
  std::string if_match;    ///< an etag: kFailedPrecondition when the object is another version
  std::optional<uint32_t> crc32c;  ///< of the whole content: kDataLoss when it differs, and the upload goes on
  std::chrono::nanoseconds timeout = kDefaultTimeout;
};

struct PartPage {
  std::vector<PartInfo> parts;  ///< ascending by number
  bool truncated = false;
};

struct UploadListOptions {
  std::string prefix;
  std::string after_key;   ///< with after_id: exclusive
  uint64_t after_id = 0;
  uint32_t limit = 1000;   ///< 1 to 1000
  std::chrono::nanoseconds timeout = kDefaultTimeout;
};

struct UploadPage {
  std::vector<UploadInfo> uploads;  ///< ascending by key, those of one key by id
  bool truncated = false;           ///< go on behind the last one
};

/// A run of an object's bytes.
struct Source {
  std::string bucket;
  std::string key;
  std::string if_match;  ///< an etag; empty: any
  uint64_t offset = 0;
  uint64_t length = UINT64_MAX;  ///< all that there is from the offset on, or exactly this many bytes
};

struct ComposeOptions {
  bool if_absent = false;  ///< kAlreadyExists when there is an object
  std::string if_match;    ///< an etag: kFailedPrecondition when the object is another version
  std::map<std::string, std::string> metadata;
  std::chrono::nanoseconds timeout = kDefaultTimeout;
};

struct RenameOptions {
  bool if_absent = false;  ///< kAlreadyExists when the new key is taken; otherwise that object is replaced
  std::string if_match;    ///< an etag: kFailedPrecondition when the object to rename is another version
  std::chrono::nanoseconds timeout = kDefaultTimeout;
};

struct CallOptions {
  std::chrono::nanoseconds timeout = kDefaultTimeout;
};

/// Memory that batch calls move bytes into or out of. It stays valid until the Region is destroyed, and
/// belongs to one client. Registering is free over tcp; over RDMA it pins the memory, which is why it is a
/// thing of its own. Whatever was registered, each call offers the server exactly the range that it names, in
/// one direction, until the call ends.
class Region {
 public:
  std::span<std::byte> memory() const { return memory_; }

 private:
  friend class Client;
  explicit Region(std::span<std::byte> memory) : memory_(memory) {}
  std::span<std::byte> memory_;
};

/// One object of a batch get; the result goes to [region_offset, region_offset + length) of the region.
struct GetItem {
  std::string bucket;
  std::string key;
  uint64_t region_offset = 0;
  uint64_t length = 0;
  uint64_t offset = 0;  ///< in the object
  std::string if_match;
  uint64_t version = 0;  ///< 0: the current one
};

/// One object of a batch put; its content is [region_offset, region_offset + length) of the region.
struct PutItem {
  std::string bucket;
  std::string key;
  uint64_t region_offset = 0;
  uint64_t length = 0;
  bool if_absent = false;
  std::string if_match;
  std::map<std::string, std::string> metadata;
  std::string operation;  ///< as in PutOptions
};

struct ObjectName {
  std::string bucket;
  std::string key;
};

template <typename T>
using Callback = std::move_only_function<void(std::expected<T, Error>)>;
/// One entry per item, in their order; an item's failure does not touch the others.
template <typename T>
using BatchResult = std::vector<std::expected<T, Error>>;

struct ListOptions {
  std::string prefix;
  std::string delimiter;    ///< keys that hold it after the prefix are rolled up into common_prefixes
  std::string start_after;  ///< exclusive
  uint32_t limit = 1000;    ///< 1 to 1000
  std::chrono::nanoseconds timeout = kDefaultTimeout;
};

struct ListPage {
  std::vector<ObjectInfo> objects;  ///< ascending by key bytes
  std::vector<std::string> common_prefixes;
  bool truncated = false;
  std::string next_start_after;  ///< when truncated
};

enum class BucketClass : uint8_t {
  kDurable = 0,  ///< acknowledged = survives power loss
  kCache = 1,    ///< may be evicted, never wrong
};

/// What becomes of what is put over or deleted in a bucket.
enum class Versioning : uint8_t {
  kOff = 0,
  kOn = 1,         ///< it is kept as a version
  kSuspended = 2,  ///< it was on, and what is there stays
};

struct BucketInfo {
  std::string name;
  BucketClass bucket_class = BucketClass::kDurable;
  std::chrono::system_clock::time_point created;
  Versioning versioning = Versioning::kOff;
};

struct ServerHealth {
  bool serving = false;  ///< takes requests
  bool writable = false;
  std::string reason;   ///< why not, when it is not
  std::string version;  ///< of the program
  uint64_t capacity_bytes = 0;
  uint64_t used_bytes = 0;
};

/// What a server has done since it started: differences of two of them measure a load.
/// What a server moved over one fabric since it started. In: into the server, for puts; out: to clients, for gets.
struct FabricTraffic {
  std::string fabric;
  uint64_t connections = 0;  ///< now
  uint64_t transfers_in = 0, transfers_out = 0;
  uint64_t bytes_in = 0, bytes_out = 0;
  uint64_t copied_bytes = 0;  ///< of these, by the server's processors, the kernel included; an RDMA adapter copies none
};

struct ServerStats {
  uint64_t device_bytes_read = 0;
  uint64_t device_bytes_written = 0;
  uint64_t device_flushes = 0;
  std::chrono::microseconds cpu{0};  ///< user and system time of the server's process
  uint64_t sessions = 0;
  std::vector<FabricTraffic> traffic;
};

class Writer;
class Reader;

class Client {
 public:
  /// Loads the credentials, or the capability, and opens `connections` sessions. kUnavailable when nobody listens,
  /// kUnauthenticated for another server's credentials and for a capability that is not good (expired, revoked),
  /// kInvalidArgument for a capability file that was changed, kPermissionDenied when others can read the
  /// credentials file or the TLS key, kFailedPrecondition when the fabric asked for cannot be used here or a
  /// certificate is not good.
  static std::expected<std::unique_ptr<Client>, Error> Connect(ClientOptions options);
  /// Fails what is in flight with kCancelled and waits for it.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // ---- objects ----

  /// Reads into `into`, whose bytes beyond GetResult::size are left alone; after an error its content is
  /// undefined.
  std::expected<GetResult, Error> Get(std::string_view bucket, std::string_view key,
                                      std::span<std::byte> into, const GetOptions& options = {});
  /// Stores `content` under the name, atomically: visible, and durable in a durable bucket, when this
  /// returns.
  std::expected<PutResult, Error> Put(std::string_view bucket, std::string_view key,
                                      std::span<const std::byte> content, const PutOptions& options = {});

  /// kInvalidArgument for an empty span.
  std::expected<Region, Error> RegisterRegion(std::span<std::byte> memory);
  /// 1 to 256 items in one request; kInvalidArgument when one's range is outside of the region.
  std::expected<BatchResult<GetResult>, Error> GetBatch(const Region& region, std::span<const GetItem> items,
                                                        const CallOptions& options = {});
  std::expected<BatchResult<PutResult>, Error> PutBatch(const Region& region, std::span<const PutItem> items,
                                                        const CallOptions& options = {});
  std::expected<BatchResult<ExistsResult>, Error> ExistsBatch(std::span<const ObjectName> items,
                                                              const CallOptions& options = {});

  /// A put of unknown size: a pipe, or content that does not fit memory.
  std::expected<Writer, Error> OpenWriter(std::string_view bucket, std::string_view key,
                                          const PutOptions& options = {});
  /// Sequential reading of one version, ahead of the caller; `options.offset` and `length` choose the range.
  std::expected<Reader, Error> OpenReader(std::string_view bucket, std::string_view key,
                                          const GetOptions& options = {});

  std::expected<ObjectInfo, Error> Stat(std::string_view bucket, std::string_view key,
                                        const CallOptions& options = {});
  std::expected<ListPage, Error> List(std::string_view bucket, const ListOptions& options = {});
  /// kNotFound; with `if_match`, kFailedPrecondition when the object is another version.
  std::expected<void, Error> Remove(std::string_view bucket, std::string_view key,
                                    std::string_view if_match = {}, const CallOptions& options = {});

  /// Makes an object of the bytes of 1 to 10,000 sources (as many as 1 MiB can name), one after the other, all as of one
  /// moment. Nothing is sent, and but for short runs nothing is copied: the objects share what is stored. kNotFound for a source, kOutOfRange for bytes that it does not have.
  std::expected<ObjectInfo, Error> Compose(std::string_view bucket, std::string_view key,
                                           std::span<const Source> sources, const ComposeOptions& options = {});
  /// Composes from one whole object, with its metadata; those of `options` come on top.
  std::expected<ObjectInfo, Error> Copy(const ObjectName& from, const ObjectName& to,
                                        const ComposeOptions& options = {});
  /// Gives an object another key. It keeps content, etag and metadata, and becomes a later version.
  std::expected<void, Error> Rename(std::string_view bucket, std::string_view from, std::string_view to,
                                    const RenameOptions& options = {});
  /// Renames all objects whose keys begin with `from`, at one moment; gives how many. kAlreadyExists, and nothing was
  /// renamed, when a new key is taken; kNotFound when no key begins so; kResourceExhausted for more than 100,000.
  std::expected<uint64_t, Error> RenamePrefix(std::string_view bucket, std::string_view from, std::string_view to,
                                              const CallOptions& options = {});

  // ---- parts of an object. Objects of a bucket that keeps or kept versions are put whole: kFailedPrecondition. ----

  /// Replaces the bytes from `offset` on; an object that ends before grows, and bytes that nobody wrote are zero. All at
  /// one moment: readers have the old version or the new one. The result is of the whole object. kNotFound; kAborted
  /// when others change the same bytes again and again.
  std::expected<PutResult, Error> Overwrite(std::string_view bucket, std::string_view key, uint64_t offset,
                                            std::span<const std::byte> content, const OverwriteOptions& options = {});
  /// The same behind the object's end, as it is when this takes place: none of several at once is lost.
  std::expected<PutResult, Error> Append(std::string_view bucket, std::string_view key,
                                         std::span<const std::byte> content, const OverwriteOptions& options = {});
  /// An overwrite of unknown size; without an offset, an append.
  std::expected<Writer, Error> OpenOverwriter(std::string_view bucket, std::string_view key,
                                              std::optional<uint64_t> offset, const OverwriteOptions& options = {});
  /// Cuts an object off at `size`, or makes it so long, with zeros.
  std::expected<ObjectInfo, Error> Truncate(std::string_view bucket, std::string_view key, uint64_t size,
                                            const TruncateOptions& options = {});
  std::expected<void, Error> SetAttributes(std::string_view bucket, std::string_view key,
                                           const AttributeChange& change);

  // ---- versions. Get and OpenReader read one by GetOptions::version. ----

  /// kNotFound.
  std::expected<VersionInfo, Error> StatVersion(std::string_view bucket, std::string_view key, uint64_t version,
                                                const CallOptions& options = {});
  std::expected<VersionPage, Error> ListVersions(std::string_view bucket, const VersionListOptions& options = {});
  /// Takes a version or a delete marker away for good; when it was the current one, the next newest is. kNotFound.
  std::expected<void, Error> RemoveVersion(std::string_view bucket, std::string_view key, uint64_t version,
                                           const CallOptions& options = {});

  // ---- uploads: an object in parts, which come in any order and from anywhere. It stays until it is completed or
  // given up, and counts towards the quota. kNotFound for one that was. ----

  std::expected<UploadInfo, Error> CreateUpload(std::string_view bucket, std::string_view key,
                                                const std::map<std::string, std::string>& metadata = {},
                                                const CallOptions& options = {});
  /// Puts part `number`, 1 to 10,000 and at most 5 GiB, instead of an earlier one with that number.
  std::expected<PutResult, Error> PutPart(const UploadName& upload, uint32_t number,
                                          std::span<const std::byte> content, const CallOptions& options = {});
  /// The same, of unknown size.
  std::expected<Writer, Error> OpenPart(const UploadName& upload, uint32_t number, const CallOptions& options = {});
  /// The same with a run of an object for its content, which is shared and not copied.
  std::expected<PutResult, Error> CopyPart(const UploadName& upload, uint32_t number, const Source& source,
                                           const CallOptions& options = {});
  /// Parts with numbers above `start_after`, at most 1,000.
  std::expected<PartPage, Error> ListParts(const UploadName& upload, uint32_t start_after = 0,
                                           const CallOptions& options = {});
  std::expected<UploadPage, Error> ListUploads(std::string_view bucket, const UploadListOptions& options = {});
  /// Publishes the object that the parts make, in their order. kInvalidArgument when one is not there or has another
  /// etag; the upload goes on then.
  std::expected<ObjectInfo, Error> CompleteUpload(const UploadName& upload, std::span<const PartRef> parts,
                                                  const CompleteOptions& options = {});
  std::expected<void, Error> AbortUpload(const UploadName& upload, const CallOptions& options = {});

  // ---- asynchronous forms: the callback is called exactly once, on the client's thread, also when the call
  // is refused. Memory stays valid until then. Called from a callback they start at once, without a change of
  // threads. ----

  void GetAsync(std::string_view bucket, std::string_view key, std::span<std::byte> into,
                const GetOptions& options, Callback<GetResult> done);
  void PutAsync(std::string_view bucket, std::string_view key, std::span<const std::byte> content,
                const PutOptions& options, Callback<PutResult> done);
  void GetBatchAsync(const Region& region, std::vector<GetItem> items, const CallOptions& options,
                     Callback<BatchResult<GetResult>> done);
  void PutBatchAsync(const Region& region, std::vector<PutItem> items, const CallOptions& options,
                     Callback<BatchResult<PutResult>> done);

  // ---- buckets and the server ----

  std::expected<void, Error> CreateBucket(std::string_view name,
                                          BucketClass bucket_class = BucketClass::kDurable,
                                          const CallOptions& options = {});
  /// kFailedPrecondition for versioning that was on and would be off, or suspended and never was on.
  std::expected<void, Error> SetVersioning(std::string_view name, Versioning versioning,
                                           const CallOptions& options = {});
  /// kFailedPrecondition while it holds objects.
  std::expected<void, Error> DeleteBucket(std::string_view name, const CallOptions& options = {});
  std::expected<BucketInfo, Error> GetBucket(std::string_view name, const CallOptions& options = {});
  std::expected<std::vector<BucketInfo>, Error> ListBuckets(const CallOptions& options = {});
  std::expected<ServerHealth, Error> Health(const CallOptions& options = {});
  std::expected<ServerStats, Error> Stats(const CallOptions& options = {});

  /// How payload travels, for people: "tcp to 127.0.0.1:7401".
  std::string path() const;
  /// Why that way and no faster one, for people: a sentence without its full stop.
  std::string path_reason() const;

  class Core;  // private to the implementation

 private:
  explicit Client(std::unique_ptr<Core> core);
  std::unique_ptr<Core> core_;
};

/// A put, an overwrite or a part whose size shows at its end. Content is sent in pieces while the caller makes more, several in
/// flight; nothing is visible before Commit, and nothing stays behind when it is destroyed without. One
/// thread at a time.
class Writer {
 public:
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;
  ~Writer();

  /// Appends; `content` is the caller's again when this returns. The error of an earlier piece may surface
  /// here.
  std::expected<void, Error> Write(std::span<const std::byte> content);
  /// Publishes what was written. The writer is done afterwards, whatever the outcome. After kUnavailable or
  /// kDeadlineExceeded it is not known whether it took place: write the same once more with `operation` to
  /// find out.
  std::expected<PutResult, Error> Commit();
  /// The id of the put, for PutOptions::operation of another attempt. Empty before Commit sent it: nothing
  /// took place.
  std::string operation() const;
  /// Gives the put up. Idempotent; also what the destructor does.
  void Abort();

  class State;  // private to the implementation

 private:
  friend class Client;
  explicit Writer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Reads one version from front to end, a few pieces ahead of the caller, who gets exact bytes or an error.
/// One thread at a time.
class Reader {
 public:
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();

  /// The next bytes, verified; they stay valid until the next call. Empty at the end.
  std::expected<std::span<const std::byte>, Error> Next();
  /// Of the object, not of the range.
  uint64_t total_size() const;
  const std::string& etag() const;
  uint64_t version() const;

  class State;  // private to the implementation

 private:
  friend class Client;
  explicit Reader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace forebay
