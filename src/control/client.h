// SPDX-License-Identifier: Apache-2.0
// ControlClient: the control plane seen from a client. Plain blocking calls, each signed and with its own
// time limit; a coroutine calls them through rt::Offload. The channel connects at the first call and again
// after a failure. Thread-safe.
#pragma once

#include <chrono>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "auth/capability.h"
#include "auth/rpc_auth.h"
#include "auth/secret.h"
#include "auth/tls_files.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/random.h"
#include "base/status.h"
#include "control/access_keys.h"
#include "control/backups.h"
#include "control/capability_authority.h"
#include "control/data_plane.h"
#include "control/scrubs.h"
#include "control/tenant_registry.h"
#include "store/object_store.h"

namespace forebay::control {

/// A session opened, with the key derived here.
struct ClientSession {
  uint64_t id = 0;
  TenantId tenant = TenantId::kNone;
  auth::Secret key;
  std::vector<DataEndpoint> data_endpoints;  // as the server names them
  base::Duration expires_in{};
  uint64_t operation_time_ms =
      0;  // now, on the clock that operation ids are made by; 0: the server keeps no results
  uint32_t max_batch_items = 0;
  uint32_t max_message_bytes = 0;
  uint32_t max_inline_bytes = 0;
  uint32_t max_chunk_bytes = 0;
};

struct ServerHealth {
  bool ready = false;
  bool read_only = false;
  std::string reason;
  std::string version;
};

struct ServerStats {
  uint64_t capacity_bytes = 0;
  uint64_t used_bytes = 0;
  uint64_t sessions = 0;
  uint64_t calls_in_progress = 0;
  base::Duration uptime{};
  uint64_t device_bytes_read = 0;
  uint64_t device_bytes_written = 0;
  uint64_t device_flushes = 0;
  uint64_t cpu_us = 0;  // of the server's process
  std::vector<FabricTraffic> traffic;
};

struct ServerSpace {
  store::StoreSpace space;
  std::string read_only_reason;  // empty while writes are taken
};

struct BucketPage {
  std::vector<store::BucketInfo> buckets;
  bool truncated = false;
};

struct ControlClientOptions {
  std::string server = "127.0.0.1:7400";                   ///< "host:port"
  base::Duration call_timeout = std::chrono::seconds(30);  ///< for calls that name no other
  /// With it, TLS: this client's certificate and whom it believes. Null: none. Shared, so that options can be
  /// copied.
  std::shared_ptr<const auth::TlsFiles> tls = nullptr;
};

class ControlClient {
 public:
  using Options = ControlClientOptions;

  /// `clock` and `random` are borrowed for the client's life; `random` must be thread-safe. InvalidArgument
  /// when `server` is not "host:port". Does not connect yet.
  static Result<std::unique_ptr<ControlClient>> Create(Options options, auth::Identity identity,
                                                       const base::Clock& clock, base::Random& random);
  ~ControlClient();

  // Each call blocks for at most `timeout` (zero: the options' call_timeout). Errors are the server's, code
  // and message (wire/control.proto says which); Unavailable, naming the address and the way out, when no
  // server answers there.

  Result<ClientSession> OpenSession(base::Duration timeout = {});
  Status CloseSession(uint64_t session_id, base::Duration timeout = {});

  /// `operation` names the change: keep it over retries, none() for none. `tenant`: the owner, by name or
  /// number; empty for one's own. `ttl`: of a cache bucket; 0: nothing expires.
  Status CreateBucket(const std::string& name, store::BucketClass bucket_class, const OperationId& operation,
                      base::Duration timeout = {}, const std::string& tenant = {},
                      store::Versioning versioning = store::Versioning::kOff, std::chrono::milliseconds ttl = {});
  Status DeleteBucket(const std::string& name, const OperationId& operation, base::Duration timeout = {});
  Status UpdateBucket(const std::string& name, const store::BucketSettings& settings, const OperationId& operation,
                      base::Duration timeout = {});
  Result<store::BucketInfo> GetBucket(const std::string& name, base::Duration timeout = {});
  /// One page, ascending; go on with the last name as `start_after` while it is truncated.
  Result<BucketPage> ListBuckets(const std::string& start_after = {}, uint32_t limit = 0,
                                 base::Duration timeout = {});

  Result<store::ListPage> List(const std::string& bucket, const store::ListOptions& options,
                               base::Duration timeout = {});
  Result<store::ObjectInfo> Stat(const std::string& bucket, const std::string& key,
                                 base::Duration timeout = {});
  /// `if_match`: an ETag, or empty for whatever is there.
  Status Delete(const std::string& bucket, const std::string& key, const std::string& if_match,
                const OperationId& operation, base::Duration timeout = {});

  /// As ObjectStore::Compose.
  Result<store::ObjectInfo> Compose(const std::string& bucket, const std::string& key,
                                    const std::vector<store::Source>& sources, const store::PutOptions& options,
                                    const OperationId& operation, base::Duration timeout = {});
  Status Rename(const std::string& bucket, const std::string& from, const std::string& to,
                const store::RenameOptions& options, const OperationId& operation, base::Duration timeout = {});
  /// How many objects there were.
  Result<uint64_t> RenamePrefix(const std::string& bucket, const std::string& from, const std::string& to,
                                const OperationId& operation, base::Duration timeout = {});

  // As their namesakes of ObjectStore.

  Result<store::ObjectInfo> Truncate(const std::string& bucket, const std::string& key, uint64_t size_bytes,
                                     const std::string& if_match, const OperationId& operation,
                                     base::Duration timeout = {});
  Status SetAttributes(const std::string& bucket, const std::string& key, uint64_t version,
                       const store::AttributeChange& change, const OperationId& operation,
                       base::Duration timeout = {});
  Result<store::VersionPage> ListVersions(const std::string& bucket, const store::VersionListOptions& options,
                                          base::Duration timeout = {});
  Result<store::VersionInfo> StatVersion(const std::string& bucket, const std::string& key, uint64_t version,
                                         base::Duration timeout = {});
  Status DeleteVersion(const std::string& bucket, const std::string& key, uint64_t version,
                       const OperationId& operation, base::Duration timeout = {});
  /// For `time` from now on; 0 ends the pin.
  Status Pin(const std::string& bucket, const std::string& key, std::chrono::milliseconds time,
             base::Duration timeout = {});

  Result<store::UploadInfo> CreateUpload(const std::string& bucket, const std::string& key,
                                         const store::UserMetadata& metadata, const OperationId& operation,
                                         base::Duration timeout = {});
  Result<store::ObjectInfo> CopyPart(const store::UploadName& upload, uint32_t number, const store::Source& source,
                                     const OperationId& operation, base::Duration timeout = {});
  Result<store::PartPage> ListParts(const store::UploadName& upload, uint32_t start_after, uint32_t limit,
                                    base::Duration timeout = {});
  Result<store::UploadPage> ListUploads(const std::string& bucket, const store::UploadListOptions& options,
                                        base::Duration timeout = {});
  Result<store::ObjectInfo> CompleteUpload(const store::UploadName& upload, const std::vector<store::PartRef>& parts,
                                           const store::CompleteOptions& options, const OperationId& operation,
                                           base::Duration timeout = {});
  Status AbortUpload(const store::UploadName& upload, const OperationId& operation, base::Duration timeout = {});

  /// The chain of a new capability whose private key belongs to `terms.holder`.
  Result<auth::Capability> IssueCapability(const IssueTerms& terms, base::Duration timeout = {});
  /// All that have not expired, ascending by id; as many calls as that takes.
  Result<std::vector<IssuedCapability>> ListCapabilities(base::Duration timeout = {});
  /// Each gives the number of sessions that ended by it.
  Result<uint64_t> RevokeCapability(const auth::CapabilityId& id, base::Duration timeout = {});
  Result<uint64_t> RevokeTenant(TenantId tenant, base::Duration timeout = {});
  Result<uint64_t> RotateKey(bool drop_old, base::Duration timeout = {});
  // `tenant` is a name, or a number in decimal.
  Result<Tenant> CreateTenant(const std::string& name, const TenantChange& limits,
                              base::Duration timeout = {});
  /// All of them, page by page; each page may take `timeout`.
  Result<std::vector<Tenant>> ListTenants(base::Duration timeout = {});
  Result<Tenant> GetTenant(const std::string& tenant, base::Duration timeout = {});
  Result<Tenant> SetTenant(const std::string& tenant, const TenantChange& limits,
                           base::Duration timeout = {});
  Status DeleteTenant(const std::string& tenant, base::Duration timeout = {});

  struct CreatedKey {
    AccessKey key;
    std::string secret;  // as a program gives it: 64 hexadecimal digits
  };
  Result<CreatedKey> CreateKey(const std::string& tenant, base::Duration timeout = {});
  /// All of them, page by page; of all tenants when `tenant` is empty.
  Result<std::vector<AccessKey>> ListKeys(const std::string& tenant, base::Duration timeout = {});
  Status DeleteKey(const std::string& id, base::Duration timeout = {});

  /// Needs no credentials.
  Result<ServerHealth> Health(base::Duration timeout = {});
  Result<ServerStats> Stats(base::Duration timeout = {});
  Result<ServerSpace> Space(base::Duration timeout = {});

  /// Puts another device in the place of a side of a mirror that is lost; Space says how far it is.
  Status ReplaceDevice(const std::string& lost, const std::string& replacement, base::Duration timeout = {});
  /// Another device for the store, with a mirror unless that is empty; 0: as large as the others.
  Status AddDevice(const std::string& path, const std::string& mirror, uint64_t size_bytes, base::Duration timeout = {});
  /// Begins to empty a device, or with `stop` lets it stay; Space says how far it is.
  Status DrainDevice(const std::string& path, bool stop, base::Duration timeout = {});
  Status RemoveDevice(const std::string& path, base::Duration timeout = {});
  /// Begins a backup into a new directory on the server's machine; its number. `bytes_per_second` 0: no limit.
  Result<uint64_t> StartBackup(const std::string& directory, uint64_t bytes_per_second, base::Duration timeout = {});
  /// How far it is, or what it failed with. Ask again and again: one that nobody asks for is given up.
  Result<BackupState> GetBackup(uint64_t id, base::Duration timeout = {});

  /// Goes on with a scrub that was stopped, or begins one; `anew`: begins one in any case. 0 bytes: no limit.
  Status StartScrub(uint64_t bytes_per_second, bool anew, base::Duration timeout = {});
  /// Of the scrub in progress, or the last one.
  Result<ScrubReport> GetScrub(base::Duration timeout = {});
  Status StopScrub(base::Duration timeout = {});

 private:
  class Impl;
  explicit ControlClient(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace forebay::control
