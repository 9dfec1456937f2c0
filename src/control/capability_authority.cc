// SPDX-License-Identifier: Apache-2.0
#include "control/capability_authority.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/codec.h"

namespace forebay::control {

namespace {

// The records: their keys, and what they hold.
constexpr std::string_view kIssued = "capability/issued/";    // <id>: the chain
constexpr std::string_view kRevoked = "capability/revoked/";  // <tenant>/<id>: unix ms when it may be forgotten
constexpr std::string_view kEpochs = "capability/epoch/";     // <tenant>: the epoch
constexpr std::string_view kTime = "capability/time";         // unix ms

constexpr std::chrono::minutes kRememberTimeEvery(1);

int64_t UnixMs(base::WallTime time) {
  return std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
}
base::WallTime FromUnixMs(uint64_t ms) {
  constexpr uint64_t kMost = 9'000'000'000'000;  // the year 2255: nanoseconds in 64 bits end in 2262
  return base::WallTime(std::chrono::milliseconds(std::min(ms, kMost)));
}

Bytes NumberRecord(uint64_t value) {
  std::string text;
  base::Encoder(&text).U64(value);
  const ByteView bytes = AsBytes(text);
  return {bytes.begin(), bytes.end()};
}

Result<uint64_t> NumberIn(const store::SystemRecords::Record& record) {
  base::Decoder in{ByteView(record.value)};
  const uint64_t value = in.U64();
  FB_TRY(in.Finish("system record " + record.key));
  return value;
}

Status Damaged(std::string_view key) { return Status::DataLoss("system record {} has a name that means nothing", key); }

bool ParseTenant(std::string_view text, TenantId* tenant) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  *tenant = TenantId{number};
  return error == std::errc() && end == text.data() + text.size();
}

std::string RevokedKey(TenantId tenant, const auth::CapabilityId& id) {
  return fmt::format("{}{}/{}", kRevoked, static_cast<uint64_t>(tenant), base::ToHex(id));
}

bool SeesAll(const auth::Grant& by) { return by.tenant == TenantId::kRoot; }

}  // namespace

rt::Task<Status> CapabilityAuthority::Load(rt::Reactor& reactor) {
  FB_CO_ASSIGN(const auto time, co_await parts_.records.Get(reactor, std::string(kTime)));
  if (time.has_value()) {
    FB_CO_ASSIGN(const uint64_t ms, NumberIn(*time));
    parts_.clock.Advance(FromUnixMs(ms));
  }
  FB_CO_TRY(co_await LoadEpochs(reactor));
  FB_CO_TRY(co_await LoadRevocations(reactor));
  FB_CO_ASSIGN(const auto issued, co_await parts_.records.List(reactor, std::string(kIssued)));
  issued_ = issued.size();
  co_return Status();
}

rt::Task<Status> CapabilityAuthority::LoadEpochs(rt::Reactor& reactor) {
  FB_CO_ASSIGN(const auto records, co_await parts_.records.List(reactor, std::string(kEpochs)));
  for (const store::SystemRecords::Record& record : records) {
    TenantId tenant{};
    if (!ParseTenant(std::string_view(record.key).substr(kEpochs.size()), &tenant)) co_return Damaged(record.key);
    FB_CO_ASSIGN(const uint64_t epoch, NumberIn(record));
    revocations_.SetEpoch(tenant, epoch);
  }
  co_return Status();
}

rt::Task<Status> CapabilityAuthority::LoadRevocations(rt::Reactor& reactor) {
  const base::WallTime now = parts_.clock.WallNow();
  FB_CO_ASSIGN(const auto records, co_await parts_.records.List(reactor, std::string(kRevoked)));
  for (const store::SystemRecords::Record& record : records) {
    const std::string_view rest = std::string_view(record.key).substr(kRevoked.size());
    const size_t slash = rest.find('/');
    TenantId tenant{};
    auth::CapabilityId id;
    if (slash == std::string_view::npos || !ParseTenant(rest.substr(0, slash), &tenant) ||
        !base::FromHex(rest.substr(slash + 1), id))
      co_return Damaged(record.key);
    FB_CO_ASSIGN(const uint64_t until, NumberIn(record));
    if (FromUnixMs(until) < now) {
      // What it revoked has expired. A failure leaves it for the next start.
      (void)co_await parts_.records.Delete(reactor, record.key, store::Condition::None());
    } else {
      FB_CO_TRY(revocations_.Revoke(tenant, id, FromUnixMs(until)));
    }
  }
  co_return Status();
}

Result<auth::Grant> CapabilityAuthority::Check(const auth::Capability& capability) const {
  return auth::CheckCapability(capability, parts_.keys, revocations_, parts_.clock.WallNow());
}

Status CapabilityAuthority::CheckGrant(const auth::Grant& grant) const {
  if (!grant.from_capability()) return {};
  if (!parts_.keys.Holds(grant.issuer))
    return Status::Unauthenticated("the key that signed {} was dropped; issue a new one", grant.name);
  if (grant.expires <= parts_.clock.WallNow())
    return Status::Unauthenticated("{} has expired; ask for a new one", grant.name);
  return revocations_.Check(grant);
}

rt::Task<Result<auth::Capability>> CapabilityAuthority::Issue(rt::Reactor& reactor, const auth::Grant& by,
                                                              IssueTerms terms) {
  if (terms.ttl <= base::Duration::zero() || terms.ttl > auth::kMaxCapabilityLifetime)
    co_return Status::InvalidArgument("a capability lasts from 1 ms to {} days", auth::kMaxCapabilityLifetime.count());
  auth::CapabilityBlock block;
  parts_.random.Fill(block.id);
  block.issuer = parts_.keys.current();
  block.holder = terms.holder;
  block.tenant = terms.tenant;
  block.epoch = revocations_.EpochOf(terms.tenant);
  block.rights = terms.rights;
  block.issued = parts_.clock.WallNow();
  block.expires = block.issued + terms.ttl;
  block.rates = terms.rates.Within(by.rates);
  block.bucket = std::move(terms.bucket);
  block.prefix = std::move(terms.prefix);

  Result<auth::Signature> signature = auth::Signature{};
  const Result<auth::Capability> made = auth::Capability::Issue(block, [&](ByteView text) {
    signature = parts_.keys.SignWith(block.issuer, text);
    return signature.ok() ? *signature : auth::Signature{};
  });
  FB_CO_TRY(made.status());
  FB_CO_TRY(signature.status());  // the key was dropped this moment
  FB_CO_TRY(by.CheckCovers(made->ToGrant()));
  FB_CO_TRY(co_await MakeRoom(reactor));
  FB_CO_TRY(co_await RememberTime(reactor));
  const Bytes chain(made->encoded().begin(), made->encoded().end());
  FB_CO_TRY((co_await parts_.records.Put(reactor, std::string(kIssued) + base::ToHex(block.id), chain,
                                         store::Condition::IfAbsent()))
                .status());
  issued_ += 1;
  // Who was revoked meanwhile takes nothing away with it.
  if (const Status good = CheckGrant(by); !good.ok()) {
    (void)co_await Revoke(reactor, auth::Grant::Root("server"), block.id);
    co_return good;
  }
  co_return *made;
}

/// Forgets what has expired when the table is full. Races make it a few too many at most.
rt::Task<Status> CapabilityAuthority::MakeRoom(rt::Reactor& reactor) {
  if (issued_ < kMaxIssuedCapabilities) co_return Status();
  FB_CO_ASSIGN(const auto records, co_await parts_.records.List(reactor, std::string(kIssued)));
  size_t left = records.size();
  for (const store::SystemRecords::Record& record : records) {
    const Result<auth::Capability> read = auth::Capability::Decode(record.value);
    if (read.ok() && read->blocks().front().expires > parts_.clock.WallNow()) continue;
    const Status deleted = co_await parts_.records.Delete(reactor, record.key, store::Condition::None());
    if (!deleted.ok() && deleted.code() != Code::kNotFound) co_return deleted;  // another one made room, too
    --left;
  }
  issued_ = left;
  if (left >= kMaxIssuedCapabilities)
    co_return Status::ResourceExhausted(
        "{} capabilities are issued and have not expired, which is the limit; narrow one instead, which needs no server",
        left);
  co_return Status();
}

rt::Task<Result<std::vector<IssuedCapability>>> CapabilityAuthority::List(rt::Reactor& reactor,
                                                                          const auth::Grant& by) {
  FB_CO_ASSIGN(const auto records, co_await parts_.records.List(reactor, std::string(kIssued)));
  std::vector<IssuedCapability> listed;
  for (const store::SystemRecords::Record& record : records) {
    const Result<auth::Capability> read = auth::Capability::Decode(record.value);
    if (!read.ok()) co_return read.status().WithContext("system record " + record.key);
    const auth::CapabilityBlock& block = read->blocks().front();
    if (block.expires <= parts_.clock.WallNow() || (!SeesAll(by) && block.tenant != by.tenant)) continue;
    const bool good = revocations_.Check(read->ToGrant()).ok() && parts_.keys.Holds(block.issuer);
    listed.push_back({.block = block, .revoked = !good});
  }
  co_return listed;
}

rt::Task<Result<size_t>> CapabilityAuthority::Revoke(rt::Reactor& reactor, const auth::Grant& by,
                                                     auth::CapabilityId id) {
  const base::WallTime now = parts_.clock.WallNow();
  // Narrowed ones are not known here, so the latest that anything with this id can live.
  const base::WallTime until = now + auth::kMaxCapabilityLifetime + auth::kMaxCapabilitySkew;
  FB_CO_TRY(revocations_.Revoke(by.tenant, id, until));
  const size_t ended = EndRevoked();
  const Result<std::string> kept =
      co_await parts_.records.Put(reactor, RevokedKey(by.tenant, id),
                                  NumberRecord(static_cast<uint64_t>(UnixMs(until))), store::Condition::None());
  if (!kept.ok())
    co_return kept.status().WithContext("the capability is revoked, but only until the server restarts, since this failed");
  co_return ended;
}

rt::Task<Result<CapabilityAuthority::RevokedTenant>> CapabilityAuthority::RevokeTenant(rt::Reactor& reactor,
                                                                                       const auth::Grant& by,
                                                                                       TenantId tenant) {
  if (tenant != by.tenant && !SeesAll(by))
    co_return Status::PermissionDenied("{} is of tenant {} and may not revoke what is of tenant {}", by.name,
                                       static_cast<uint64_t>(by.tenant), static_cast<uint64_t>(tenant));
  RevokedTenant revoked{.epoch = revocations_.RaiseEpoch(tenant)};
  revoked.sessions_ended = EndRevoked();
  const Status kept = co_await StoreEpoch(reactor, tenant);
  if (!kept.ok())
    co_return kept.WithContext("all are revoked, but only until the server restarts, since this failed");
  co_return revoked;
}

/// Until what is recorded is at least the epoch of now, whoever raises it at the same time.
rt::Task<Status> CapabilityAuthority::StoreEpoch(rt::Reactor& reactor, TenantId tenant) {
  const std::string key = fmt::format("{}{}", kEpochs, static_cast<uint64_t>(tenant));
  constexpr int kAttempts = 100;
  Status status;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    FB_CO_ASSIGN(const auto record, co_await parts_.records.Get(reactor, key));
    const uint64_t epoch = revocations_.EpochOf(tenant);
    if (record.has_value()) {
      FB_CO_ASSIGN(const uint64_t recorded, NumberIn(*record));
      if (recorded >= epoch) co_return Status();
    }
    status = (co_await parts_.records.Put(
                  reactor, key, NumberRecord(epoch),
                  record.has_value() ? store::Condition::IfMatch(record->etag) : store::Condition::IfAbsent()))
                 .status();
    const bool lost = status.code() == Code::kFailedPrecondition || status.code() == Code::kAlreadyExists;
    if (!status.ok() && !lost) co_return status;
  }
  co_return status;
}

rt::Task<Result<size_t>> CapabilityAuthority::RotateKey(rt::Reactor& reactor, bool drop_old) {
  FB_CO_TRY(co_await rt::Offload(reactor, threads_, [this, drop_old] { return parts_.keys.Rotate(drop_old); }));
  co_return parts_.sessions.Revoke([this](const auth::Grant& grant) {
    return grant.from_capability() && !parts_.keys.Holds(grant.issuer);
  });
}

rt::Task<Status> CapabilityAuthority::RememberTime(rt::Reactor& reactor, bool now) {
  const int64_t now_ms = UnixMs(parts_.clock.WallNow());
  int64_t last = remembered_ms_.load();
  if (!now && now_ms < last + std::chrono::milliseconds(kRememberTimeEvery).count()) co_return Status();
  if (!remembered_ms_.compare_exchange_strong(last, now_ms)) co_return Status();  // somebody else does
  const Result<std::string> kept = co_await parts_.records.Put(
      reactor, std::string(kTime), NumberRecord(static_cast<uint64_t>(now_ms)), store::Condition::None());
  if (!kept.ok()) remembered_ms_.compare_exchange_strong(last = now_ms, 0);  // the next use tries again
  co_return kept.status();
}

}  // namespace forebay::control
