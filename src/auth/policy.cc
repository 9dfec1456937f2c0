// SPDX-License-Identifier: Apache-2.0
#include "auth/policy.h"

#include <algorithm>

namespace forebay::auth {

namespace {

constexpr PolicyRow kTable[] = {
    {"/forebay.control.v1.Admin/Health", Right::kPublic},
    {"/forebay.control.v1.Admin/Stats", Right::kAdmin},
    {"/forebay.control.v1.Buckets/Create", Right::kAdmin},
    {"/forebay.control.v1.Buckets/Delete", Right::kAdmin},
    {"/forebay.control.v1.Buckets/Get", Right::kRead},
    {"/forebay.control.v1.Buckets/List", Right::kList},
    {"/forebay.control.v1.Keys/Create", Right::kAdmin},
    {"/forebay.control.v1.Keys/Delete", Right::kAdmin},
    {"/forebay.control.v1.Keys/List", Right::kAdmin},
    {"/forebay.control.v1.Namespace/Delete", Right::kDelete},
    {"/forebay.control.v1.Namespace/List", Right::kList},
    {"/forebay.control.v1.Namespace/Stat", Right::kRead},
    {"/forebay.control.v1.Sessions/Close", Right::kSession},
    {"/forebay.control.v1.Sessions/Open", Right::kSession},
    {"/forebay.control.v1.Tenants/Create", Right::kAdmin},
    {"/forebay.control.v1.Tenants/Delete", Right::kAdmin},
    {"/forebay.control.v1.Tenants/Get", Right::kAdmin},
    {"/forebay.control.v1.Tenants/List", Right::kAdmin},
    {"/forebay.control.v1.Tenants/Set", Right::kAdmin},
    {"data/Cancel", Right::kSession},
    {"data/Exists", Right::kRead},
    {"data/Get", Right::kRead},
    {"data/Hello", Right::kSession},
    {"data/Put", Right::kWrite},
    {"data/PutAbort", Right::kWrite},
    {"data/PutBegin", Right::kWrite},
    {"data/PutCommit", Right::kWrite},
    {"data/PutData", Right::kWrite},
};

constexpr bool SortedAndUnique() {
  return std::adjacent_find(std::begin(kTable), std::end(kTable), [](const PolicyRow& a, const PolicyRow& b) {
           return a.operation >= b.operation;
         }) == std::end(kTable);
}
static_assert(SortedAndUnique(), "RightFor searches by halves");

}  // namespace

std::span<const PolicyRow> PolicyTable() { return kTable; }

Result<Right> RightFor(std::string_view operation) {
  const auto* row = std::lower_bound(std::begin(kTable), std::end(kTable), operation,
                                     [](const PolicyRow& a, std::string_view b) { return a.operation < b; });
  if (row == std::end(kTable) || row->operation != operation) {
    return Status::PermissionDenied("no policy says who may call `{}`", operation.substr(0, 100));
  }
  return row->right;
}

Status CheckPolicy(std::string_view operation, RightSet held) {
  FB_ASSIGN(const Right right, RightFor(operation));
  if (!held.Has(right))
    return Status::PermissionDenied("the credential has no right to call `{}`", operation);
  return Status();
}

}  // namespace forebay::auth
