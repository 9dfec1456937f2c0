// SPDX-License-Identifier: Apache-2.0
#include "control/access_keys.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/codec.h"
#include "rt/call_on.h"

namespace forebay::control {
namespace {

constexpr std::string_view kPrefix = "access-key/";
constexpr std::string_view kIdPrefix = "FB";
/// 32 of them, so that five random bits are one; none that is taken for another.
constexpr std::string_view kIdCharacters = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789";
static_assert(kIdCharacters.size() == 32);
constexpr uint8_t kFormat = 1;

bool IsId(std::string_view id) {
  return id.size() == kAccessKeyIdBytes && id.starts_with(kIdPrefix) &&
         id.find_first_not_of(kIdCharacters, kIdPrefix.size()) == std::string_view::npos;
}

Status NoSuchKey(std::string_view id) {
  return Status::NotFound("access key `{}` does not exist; see: forebay key ls", id.substr(0, 64));
}

/// What the secret is bound to: its record and its tenant.
std::string SealContext(const AccessKey& key) {
  return fmt::format("{} of tenant {}", AccessKeyRecordKey(key.id), static_cast<uint64_t>(key.tenant));
}

}  // namespace

std::string AccessKeyRecordKey(std::string_view id) { return fmt::format("{}{}", kPrefix, id); }

Bytes EncodeAccessKey(const SealedAccessKey& record) {
  std::string out;
  base::Encoder encoder(&out);
  encoder.U8(kFormat);
  encoder.Varint(static_cast<uint64_t>(record.key.tenant));
  encoder.U64(static_cast<uint64_t>(record.key.created.time_since_epoch().count()));
  encoder.Raw(ByteView(record.sealed));
  const ByteView view = AsBytes(out);
  return {view.begin(), view.end()};
}

Result<SealedAccessKey> DecodeAccessKey(std::string_view key, ByteView value) {
  base::Decoder decoder(value);
  const uint8_t format = decoder.U8();
  if (!decoder.failed() && format > kFormat)
    return Status::FailedPrecondition(
        "the record `{}` has format {}, this program knows {}: use a newer forebay", key, format, kFormat);
  SealedAccessKey record;
  record.key.tenant = TenantId{decoder.Varint()};
  record.key.created = base::WallTime(base::Duration(static_cast<int64_t>(decoder.U64())));
  record.sealed.resize(auth::Sealer::kSealedBytes);
  decoder.Raw(MutableByteView(record.sealed));
  const bool named = key.starts_with(kPrefix) && IsId(key.substr(kPrefix.size()));
  if (decoder.failed() || decoder.remaining() != 0 || format == 0 || !named ||
      static_cast<uint64_t>(record.key.tenant) < kFirstTenant)
    return Status::DataLoss("the record `{}` is damaged: it makes no sense; run forebay fsck", key);
  record.key.id = key.substr(kPrefix.size());
  return record;
}

rt::Task<Status> AccessKeys::Load(rt::Reactor& here, const TenantRegistry& tenants) {
  FB_CO_ASSIGN(const std::vector<store::SystemRecords::Record> records,
               co_await parts_.records.List(here, std::string(kPrefix)));
  std::map<std::string, SealedAccessKey, std::less<>> keys;
  for (const store::SystemRecords::Record& stored : records) {
    FB_CO_ASSIGN(SealedAccessKey record, DecodeAccessKey(stored.key, stored.value));
    if (!tenants.Find(record.key.tenant)) {  // a crash came between the tenant's end and its keys'
      FB_CO_TRY(co_await parts_.records.Delete(here, stored.key, {}));
      continue;
    }
    std::string id = record.key.id;
    keys.emplace(std::move(id), std::move(record));
  }
  base::MutexLock lock(mutex_);
  keys_ = std::move(keys);
  co_return Status();
}

std::string AccessKeys::NewId() {
  std::array<std::byte, kAccessKeyIdBytes - kIdPrefix.size()> random;
  parts_.random.Fill(random);
  std::string id(kIdPrefix);
  for (const std::byte byte : random)
    id.push_back(kIdCharacters[static_cast<size_t>(byte) % kIdCharacters.size()]);
  return id;
}

rt::Task<Result<AccessKeyWithSecret>> AccessKeys::Create(rt::Reactor& here, TenantId tenant) {
  return rt::CallOn(here, parts_.home, [this, tenant] { return CreateInTurn(tenant); });
}

rt::Task<Result<AccessKeyWithSecret>> AccessKeys::CreateInTurn(TenantId tenant) {
  const rt::Units turn = co_await turn_.Lock();
  {
    base::MutexLock lock(mutex_);
    if (keys_.size() >= kMaxAccessKeys)
      co_return Status::ResourceExhausted(
          "there are {} access keys already, which is the limit: delete some first", kMaxAccessKeys);
  }
  AccessKeyWithSecret made{.key = {.id = NewId(), .tenant = tenant, .created = parts_.clock.WallNow()},
                           .secret = auth::Secret::Generate(parts_.random)};
  const SealedAccessKey record{.key = made.key,
                               .sealed = parts_.sealer.Seal(made.secret, SealContext(made.key))};
  FB_CO_TRY((co_await parts_.records.Put(parts_.home, AccessKeyRecordKey(made.key.id),
                                         EncodeAccessKey(record), store::Condition::IfAbsent()))
                .status());
  base::MutexLock lock(mutex_);
  keys_.emplace(made.key.id, record);
  co_return made;
}

rt::Task<Status> AccessKeys::Delete(rt::Reactor& here, std::string id) {
  return rt::CallOn(here, parts_.home, [this, id = std::move(id)] { return DeleteInTurn(id); });
}

rt::Task<Status> AccessKeys::DeleteInTurn(std::string id) {
  const rt::Units turn = co_await turn_.Lock();
  co_return co_await Erase(std::move(id));
}

rt::Task<Status> AccessKeys::DeleteOf(rt::Reactor& here, TenantId tenant) {
  return rt::CallOn(here, parts_.home, [this, tenant] { return DeleteOfInTurn(tenant); });
}

rt::Task<Status> AccessKeys::DeleteOfInTurn(TenantId tenant) {
  const rt::Units turn = co_await turn_.Lock();
  for (AccessKey& key : List(tenant)) FB_CO_TRY(co_await Erase(std::move(key.id)));
  co_return Status();
}

/// In turn.
rt::Task<Status> AccessKeys::Erase(std::string id) {
  {
    base::MutexLock lock(mutex_);
    if (!keys_.contains(id)) co_return NoSuchKey(id);
  }
  FB_CO_TRY(co_await parts_.records.Delete(parts_.home, AccessKeyRecordKey(id), {}));
  base::MutexLock lock(mutex_);
  keys_.erase(id);
  co_return Status();
}

std::vector<AccessKey> AccessKeys::List(TenantId tenant) const {
  base::MutexLock lock(mutex_);
  std::vector<AccessKey> all;
  for (const auto& [id, record] : keys_)
    if (tenant == TenantId::kNone || record.key.tenant == tenant) all.push_back(record.key);
  return all;
}

Result<AccessKeyWithSecret> AccessKeys::Find(std::string_view id) const {
  SealedAccessKey record;
  {
    base::MutexLock lock(mutex_);
    const auto found = keys_.find(id);
    if (found == keys_.end()) return NoSuchKey(id);
    record = found->second;
  }
  FB_ASSIGN(auth::Secret secret, parts_.sealer.Open(record.sealed, SealContext(record.key)));
  return AccessKeyWithSecret{.key = std::move(record.key), .secret = std::move(secret)};
}

}  // namespace forebay::control
