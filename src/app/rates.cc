// SPDX-License-Identifier: Apache-2.0
#include "app/rates.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/bytes.h"

namespace forebay::app {

void RateOptions::AddTo(CLI::App* command, const std::string& zero) {
  command->add_option("--rate", rate, "Bytes a second, such as 100MiB; " + zero);
  command->add_option("--operations", operations, "Operations a second; " + zero);
  command->add_option("--transfers", transfers, "Transfers at once; " + zero);
}

Result<std::optional<uint64_t>> RateOptions::BytesPerSecond() const {
  if (rate.empty()) return std::optional<uint64_t>();
  uint64_t bytes = 0;
  if (!base::ParseSize(rate, &bytes))
    return Status::InvalidArgument("--rate {}: a size, such as 100MiB, of bytes a second", rate);
  return std::optional(bytes);
}

Result<auth::RateGrant> RateOptions::ToGrant() const {
  FB_ASSIGN(const std::optional<uint64_t> bytes, BytesPerSecond());
  return auth::RateGrant{.bytes_per_s = bytes.value_or(0),
                         .operations_per_s = operations.value_or(0),
                         .transfers = transfers.value_or(0)};
}

std::string DescribeRates(const auth::RateGrant& rates) {
  std::vector<std::string> limits;
  if (rates.bytes_per_s != 0) limits.push_back(base::FormatSize(rates.bytes_per_s) + "/s");
  if (rates.operations_per_s != 0) limits.push_back(fmt::format("{} operations/s", rates.operations_per_s));
  if (rates.transfers != 0) limits.push_back(fmt::format("{} transfers at once", rates.transfers));
  return limits.empty() ? std::string() : fmt::format("; at most {}", fmt::join(limits, ", "));
}

void AppendRates(JsonFields* fields, const auth::RateGrant& rates) {
  fields->emplace_back("bytes_per_s", rates.bytes_per_s);
  fields->emplace_back("operations_per_s", rates.operations_per_s);
  fields->emplace_back("transfers", uint64_t{rates.transfers});
}

}  // namespace forebay::app
