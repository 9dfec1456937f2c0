// SPDX-License-Identifier: Apache-2.0
#include "auth/policy.h"

#include "wire/message.h"

namespace forebay::auth {

namespace {

/// A type of the data plane without a row stops the build here.
consteval bool EachDataRequestHasARow() {
  for (unsigned number = 0; number < 256; ++number) {
    const auto type = static_cast<wire::Type>(number);
    if (wire::IsKnown(type) && std::ranges::none_of(kPolicy, [type](const PolicyRow& row) {
          return row.operation.starts_with("data/") && row.operation.substr(5) == wire::TypeName(type);
        }))
      return false;
  }
  return true;
}
static_assert(EachDataRequestHasARow());

}  // namespace

Result<PolicyRow> PolicyOf(std::string_view operation) {
  const PolicyRow* const row = FindPolicy(operation);
  if (row == nullptr)
    return Status::PermissionDenied("no policy says who may call `{}`", operation.substr(0, 100));
  return *row;
}

}  // namespace forebay::auth
