// SPDX-License-Identifier: Apache-2.0
// Acting on a plan of repair, and telling of it.
#include <algorithm>
#include <utility>

#include "device/aligned_bytes.h"
#include "engine/repair.h"

namespace forebay::engine {
namespace {

class RowsTransaction final : public meta::Transaction {
 public:
  explicit RowsTransaction(std::vector<RepairPlan::Row> rows) : rows_(std::move(rows)) {}
  Status Prepare(meta::View& /*view*/, meta::Batch& batch) override {
    for (const RepairPlan::Row& row : rows_) {
      if (row.value) {
        batch.Put(row.family, row.key, *row.value);
      } else {
        batch.Delete(row.family, row.key);
      }
    }
    return {};
  }
  bool needs_data_flush() const override { return false; }
  bool frees_space() const override { return true; }  // a store that is full can be repaired
  void Done(const Status& /*outcome*/) override {}

 private:
  const std::vector<RepairPlan::Row> rows_;
};

rt::Task<Status> Write(rt::Reactor& reactor, Devices& devices, const RepairPlan::Fill& fill) {
  device::AlignedBytes memory(std::min<uint64_t>(fill.length, base::kMiB));
  for (uint64_t at = 0; at < fill.length;) {
    const uint64_t bytes = std::min<uint64_t>(memory.size(), fill.length - at);
    const MutableByteView view = memory.writable().first(bytes);
    if (fill.copy) {
      // What cannot be read stays what it is: lost. It is of one unit, so that all others are copied.
      if (!(co_await devices.Read(reactor, fill.from_device, fill.from_offset + at, {&view, 1})).ok()) {
        for (uint64_t unit = 0; unit < bytes; unit += device::kUnit) {
          const MutableByteView one = view.subspan(unit, device::kUnit);
          if (!(co_await devices.Read(reactor, fill.from_device, fill.from_offset + at + unit, {&one, 1})).ok())
            std::ranges::fill(one, std::byte{0});
        }
      }
    }
    const ByteView content = view;
    FB_CO_TRY(co_await devices.Write(reactor, fill.device, fill.offset + at, {&content, 1}));
    at += bytes;
  }
  co_return Status();
}

std::string_view FamilyName(meta::Family family) {
  constexpr std::string_view kNames[] = {"system", "buckets", "objects", "inline", "maps", "extents", "groups"};
  static_assert(std::size(kNames) == meta::kFamilies);
  return kNames[static_cast<size_t>(family)];
}

}  // namespace

rt::Task<Status> ApplyRepair(rt::Reactor& reactor, Devices& devices, meta::MetaStore& meta, const RepairPlan& plan,
                             size_t batch_bytes) {
  for (const RepairPlan::Fill& fill : plan.fills) FB_CO_TRY(co_await Write(reactor, devices, fill));
  for (const uint32_t id : devices.TakeWritten()) FB_CO_TRY(co_await devices.at(id).Flush(reactor));
  std::vector<RepairPlan::Row> batch;
  size_t bytes = 0;
  for (const std::vector<RepairPlan::Row>& stage : plan.rows) {
    for (const RepairPlan::Row& row : stage) {
      batch.push_back(row);
      bytes += row.key.size() + (row.value ? row.value->size() : 0);
      if (bytes < batch_bytes) continue;
      FB_CO_TRY(co_await meta.Commit(reactor, std::make_unique<RowsTransaction>(std::exchange(batch, {}))));
      bytes = 0;
    }
  }
  if (batch.empty()) co_return Status();
  co_return co_await meta.Commit(reactor, std::make_unique<RowsTransaction>(std::move(batch)));
}

std::string FormatRepair(const RepairPlan& plan) {
  std::string text;
  for (const std::string& action : plan.actions) text += action + "\n";
  for (const std::string& one : plan.unrepaired) text += "not repaired: " + one + "\n";
  if (plan.lost.empty()) return text;
  text += "\n# Rows that went, or were replaced: family, key and value in hexadecimal, what it was.\n";
  for (const RepairPlan::LostRow& row : plan.lost) {
    // Names may hold whatever a key may.
    std::string what = row.what;
    std::ranges::replace_if(what, [](char c) { return static_cast<unsigned char>(c) < 0x20; }, ' ');
    text += fmt::format("{} {} {} {}\n", FamilyName(row.family), base::ToHex(AsBytes(row.key)),
                        row.value.empty() ? "-" : base::ToHex(AsBytes(row.value)), what);
  }
  return text;
}

}  // namespace forebay::engine
