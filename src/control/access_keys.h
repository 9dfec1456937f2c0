// SPDX-License-Identifier: Apache-2.0
// AccessKeys: pairs of id and secret by which the programs of a tenant prove who they are where a protocol
// wants such (S3's SigV4). A secret is given out once, by Create; at rest it is sealed under the root secret,
// because SigV4 needs it in the plain. Records lie in SystemRecords (docs/formats/records.md) and are all in
// memory, sealed. Changes take turns on one reactor. Thread-safe: called on any reactor. What it borrows
// outlives it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "auth/seal.h"
#include "auth/secret.h"
#include "base/clock.h"
#include "base/ids.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/status.h"
#include "control/tenant_registry.h"
#include "rt/reactor.h"
#include "rt/sync.h"
#include "rt/task.h"
#include "store/system_records.h"

namespace forebay::control {

constexpr size_t kMaxAccessKeys = 20'000;
/// "FB" and 18 digits and capital letters.
constexpr size_t kAccessKeyIdBytes = 20;

struct AccessKey {
  std::string id{};
  TenantId tenant = TenantId::kNone;
  base::WallTime created{};
  friend bool operator==(const AccessKey&, const AccessKey&) = default;
};

struct AccessKeyWithSecret {
  AccessKey key{};
  auth::Secret secret;
};

struct SealedAccessKey {
  AccessKey key{};
  Bytes sealed{};
  friend bool operator==(const SealedAccessKey&, const SealedAccessKey&) = default;
};

std::string AccessKeyRecordKey(std::string_view id);
Bytes EncodeAccessKey(const SealedAccessKey& record);
/// `key` names the record in messages and says the id. DataLoss, FailedPrecondition (newer).
Result<SealedAccessKey> DecodeAccessKey(std::string_view key, ByteView value);

class AccessKeys {
 public:
  struct Parts {
    store::SystemRecords& records;
    const auth::Sealer& sealer;
    const base::Clock& clock;
    base::Random& random;
    rt::Reactor& home;  // where changes take turns
  };

  explicit AccessKeys(Parts parts) : parts_(parts), turn_(parts.home) {}

  /// Reads the records, and removes those of tenants that do not exist any more. Before everything else, and
  /// after the tenants were loaded.
  rt::Task<Status> Load(rt::Reactor& here, const TenantRegistry& tenants);

  /// The only time that the secret is to be had. ResourceExhausted (kMaxAccessKeys).
  rt::Task<Result<AccessKeyWithSecret>> Create(rt::Reactor& here, TenantId tenant);
  /// NotFound.
  rt::Task<Status> Delete(rt::Reactor& here, std::string id);
  /// All of a tenant.
  rt::Task<Status> DeleteOf(rt::Reactor& here, TenantId tenant);

  /// Ascending by id; of one tenant, or of all for kNone.
  std::vector<AccessKey> List(TenantId tenant) const FB_EXCLUDES(mutex_);
  /// For whoever verifies a proof. NotFound; DataLoss when the secret does not open.
  Result<AccessKeyWithSecret> Find(std::string_view id) const FB_EXCLUDES(mutex_);

 private:
  rt::Task<Result<AccessKeyWithSecret>> CreateInTurn(TenantId tenant);
  rt::Task<Status> DeleteInTurn(std::string id);
  rt::Task<Status> DeleteOfInTurn(TenantId tenant);
  rt::Task<Status> Erase(std::string id);
  std::string NewId();

  const Parts parts_;
  rt::Mutex turn_;  // of home
  mutable base::Mutex mutex_;
  std::map<std::string, SealedAccessKey, std::less<>> keys_ FB_GUARDED_BY(mutex_);
};

}  // namespace forebay::control
