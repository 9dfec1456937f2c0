// SPDX-License-Identifier: Apache-2.0
// The policy: one table that says for each operation of each plane which right it needs, and on what. What has no row is
// denied; what is added without a row does not compile: the data plane's types are checked here, the
// control plane's methods where they are registered (PolicyOf). Immutable: a constant table.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>

#include "auth/rights.h"
#include "base/status.h"

namespace forebay::auth {

/// What a grant must cover for an operation.
enum class Scope : uint8_t {
  kNothing,  // it touches nothing that is anyone's, or what it names was checked before (an open stream)
  kServer,   // the whole server: the root tenant's, without a bucket
  kTenant,   // all buckets of a tenant
  kBucket,   // the whole bucket that the request names
  kKey,      // the object that it names; each of a batch
  kPrefix,   // all keys with the prefix that it names
};

struct PolicyRow {
  // "/forebay.control.v1.Buckets/List", or "data/Get" on the data plane; "also/..." is what a method needs besides its own
  // row, on something else that its request names.
  std::string_view operation;
  Right right;
  Scope scope;
};

/// Ascending by operation.
inline constexpr PolicyRow kPolicy[] = {
    {"/forebay.control.v1.Admin/AddDevice", Right::kAdmin, Scope::kServer},
    {"/forebay.control.v1.Admin/DrainDevice", Right::kAdmin, Scope::kServer},
    {"/forebay.control.v1.Admin/GetBackup", Right::kAdmin, Scope::kServer},
    {"/forebay.control.v1.Admin/GetScrub", Right::kAdmin, Scope::kServer},
    {"/forebay.control.v1.Admin/Health", Right::kPublic, Scope::kNothing},
    {"/forebay.control.v1.Admin/RemoveDevice", Right::kAdmin, Scope::kServer},
    {"/forebay.control.v1.Admin/ReplaceDevice", Right::kAdmin, Scope::kServer},
    {"/forebay.control.v1.Admin/Space", Right::kAdmin, Scope::kServer},
    {"/forebay.control.v1.Admin/StartBackup", Right::kAdmin, Scope::kServer},
    {"/forebay.control.v1.Admin/StartScrub", Right::kAdmin, Scope::kServer},
    {"/forebay.control.v1.Admin/Stats", Right::kAdmin, Scope::kServer},
    {"/forebay.control.v1.Admin/StopScrub", Right::kAdmin, Scope::kServer},
    {"/forebay.control.v1.Buckets/Create", Right::kAdmin, Scope::kBucket},
    {"/forebay.control.v1.Buckets/Delete", Right::kAdmin, Scope::kBucket},
    {"/forebay.control.v1.Buckets/Get", Right::kGet, Scope::kBucket},
    {"/forebay.control.v1.Buckets/List", Right::kList, Scope::kTenant},
    {"/forebay.control.v1.Buckets/Update", Right::kAdmin, Scope::kBucket},
    {"/forebay.control.v1.Capabilities/Issue", Right::kAdmin, Scope::kPrefix},
    {"/forebay.control.v1.Capabilities/List", Right::kAdmin, Scope::kTenant},
    {"/forebay.control.v1.Capabilities/Revoke", Right::kAdmin, Scope::kTenant},
    {"/forebay.control.v1.Capabilities/RevokeTenant", Right::kAdmin, Scope::kTenant},
    {"/forebay.control.v1.Capabilities/RotateKey", Right::kAdmin, Scope::kServer},
    {"/forebay.control.v1.Keys/Create", Right::kAdmin, Scope::kServer},
    {"/forebay.control.v1.Keys/Delete", Right::kAdmin, Scope::kServer},
    {"/forebay.control.v1.Keys/List", Right::kAdmin, Scope::kServer},
    {"/forebay.control.v1.Namespace/Compose", Right::kPut, Scope::kKey},
    {"/forebay.control.v1.Namespace/Delete", Right::kDelete, Scope::kKey},
    {"/forebay.control.v1.Namespace/DeleteVersion", Right::kDelete, Scope::kKey},
    {"/forebay.control.v1.Namespace/List", Right::kList, Scope::kPrefix},
    {"/forebay.control.v1.Namespace/ListVersions", Right::kList, Scope::kPrefix},
    {"/forebay.control.v1.Namespace/Pin", Right::kPut, Scope::kKey},
    {"/forebay.control.v1.Namespace/Rename", Right::kDelete, Scope::kKey},
    {"/forebay.control.v1.Namespace/RenamePrefix", Right::kDelete, Scope::kPrefix},
    {"/forebay.control.v1.Namespace/SetAttributes", Right::kPut, Scope::kKey},
    {"/forebay.control.v1.Namespace/Stat", Right::kGet, Scope::kKey},
    {"/forebay.control.v1.Namespace/StatVersion", Right::kGet, Scope::kKey},
    {"/forebay.control.v1.Namespace/Truncate", Right::kPut, Scope::kKey},
    {"/forebay.control.v1.Sessions/Close", Right::kSession, Scope::kNothing},
    {"/forebay.control.v1.Sessions/Open", Right::kSession, Scope::kNothing},
    {"/forebay.control.v1.Tenants/Create", Right::kAdmin, Scope::kServer},
    {"/forebay.control.v1.Tenants/Delete", Right::kAdmin, Scope::kServer},
    {"/forebay.control.v1.Tenants/Get", Right::kAdmin, Scope::kServer},
    {"/forebay.control.v1.Tenants/List", Right::kAdmin, Scope::kServer},
    {"/forebay.control.v1.Tenants/Set", Right::kAdmin, Scope::kServer},
    {"/forebay.control.v1.Uploads/Abort", Right::kPut, Scope::kKey},
    {"/forebay.control.v1.Uploads/Complete", Right::kPut, Scope::kKey},
    {"/forebay.control.v1.Uploads/CopyPart", Right::kPut, Scope::kKey},
    {"/forebay.control.v1.Uploads/Create", Right::kPut, Scope::kKey},
    {"/forebay.control.v1.Uploads/List", Right::kList, Scope::kPrefix},
    {"/forebay.control.v1.Uploads/ListParts", Right::kPut, Scope::kKey},
    {"also/Namespace/Compose/source", Right::kGet, Scope::kKey},
    {"also/Namespace/Rename/from", Right::kGet, Scope::kKey},
    {"also/Namespace/Rename/to", Right::kPut, Scope::kKey},
    {"also/Namespace/RenamePrefix/from", Right::kGet, Scope::kPrefix},
    {"also/Namespace/RenamePrefix/to", Right::kPut, Scope::kPrefix},
    {"also/Uploads/CopyPart/source", Right::kGet, Scope::kKey},
    {"data/Cancel", Right::kSession, Scope::kNothing},
    {"data/Close", Right::kGet, Scope::kNothing},
    {"data/Exists", Right::kGet, Scope::kKey},
    {"data/Get", Right::kGet, Scope::kKey},
    {"data/GetVersion", Right::kGet, Scope::kKey},
    {"data/Hello", Right::kSession, Scope::kNothing},
    {"data/Open", Right::kGet, Scope::kKey},
    {"data/OverwriteBegin", Right::kPut, Scope::kKey},
    {"data/PartBegin", Right::kPut, Scope::kKey},
    {"data/Put", Right::kPut, Scope::kKey},
    {"data/PutAbort", Right::kPut, Scope::kNothing},
    {"data/PutBegin", Right::kPut, Scope::kKey},
    {"data/PutCommit", Right::kPut, Scope::kNothing},
    {"data/PutData", Right::kPut, Scope::kNothing},
    {"data/Read", Right::kGet, Scope::kNothing},
    {"data/Stat", Right::kGet, Scope::kKey},
};
static_assert(std::ranges::is_sorted(kPolicy, std::ranges::less_equal{}, &PolicyRow::operation) ||
                  std::ranges::adjacent_find(kPolicy, std::ranges::greater_equal{}, &PolicyRow::operation) ==
                      std::end(kPolicy),
              "FindPolicy searches by halves");

constexpr std::span<const PolicyRow> PolicyTable() { return kPolicy; }

/// The row of `operation`, or null: denied.
constexpr const PolicyRow* FindPolicy(std::string_view operation) {
  const auto* const row = std::ranges::lower_bound(kPolicy, operation, {}, &PolicyRow::operation);
  return row != std::end(kPolicy) && row->operation == operation ? row : nullptr;
}

/// The row of `operation`; PermissionDenied when there is none.
Result<PolicyRow> PolicyOf(std::string_view operation);

}  // namespace forebay::auth
