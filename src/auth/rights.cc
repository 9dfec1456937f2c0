// SPDX-License-Identifier: Apache-2.0
#include "auth/rights.h"

#include <algorithm>
#include <array>

namespace forebay::auth {

namespace {

constexpr std::array kGranted = {Right::kGet, Right::kPut, Right::kList, Right::kDelete, Right::kAdmin};

}  // namespace

std::string_view NameOf(Right right) {
  switch (right) {
    case Right::kPublic:
      return "public";
    case Right::kSession:
      return "session";
    case Right::kGet:
      return "get";
    case Right::kPut:
      return "put";
    case Right::kList:
      return "list";
    case Right::kDelete:
      return "delete";
    case Right::kAdmin:
      return "admin";
  }
  return "unknown";
}

std::string RightSet::ToString() const {
  std::string text;
  for (const Right right : kGranted) {
    if (!Has(right)) continue;
    if (!text.empty()) text += ',';
    text += NameOf(right);
  }
  return text.empty() ? "none" : text;
}

Result<RightSet> RightSet::Parse(std::string_view text) {
  if (text == "all") return All();
  RightSet rights = Proven();
  for (;;) {
    const std::string_view name = text.substr(0, text.find(','));
    const auto* const found = std::ranges::find(kGranted, name, &NameOf);
    if (found == kGranted.end())
      return Status::InvalidArgument("`{}` is no right; the rights are get, put, list, delete, admin, or `all`",
                                     name.substr(0, 40));
    rights = rights.With(*found);
    if (name.size() == text.size()) return rights;
    text.remove_prefix(name.size() + 1);
  }
}

}  // namespace forebay::auth
