// SPDX-License-Identifier: Apache-2.0
// RepairPlanner: makes a RepairPlan, in steps that each use what those before found out: buckets, extents, objects,
// uploads, what is left over, space, accounts. Private to repair*.cc. Reactor-local.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "engine/allocator.h"
#include "engine/cache_rows.h"
#include "engine/loader.h"
#include "engine/operation_rows.h"
#include "engine/repair.h"
#include "engine/superblock.h"
#include "engine/tenant_accounts.h"
#include "engine/upload_rows.h"

namespace forebay::engine {

class RepairPlanner {
 public:
  RepairPlanner(rt::Reactor& reactor, Devices& devices, meta::MetaStore& meta, const RepairOptions& options)
      : reactor_(reactor), devices_(devices), meta_(meta), options_(options) {}

  rt::Task<Result<RepairPlan>> Run();

 private:
  using Family = meta::Family;
  using Stage = RepairPlan::Stage;

  struct Extent {
    uint64_t id = 0;
    UnitRun run;
    uint64_t length_bytes = 0;
    uint8_t block_shift = 0;
    uint64_t references = 0;
    uint64_t seen = 0;
    std::vector<uint32_t> damaged{};  // blocks
    bool cache = false;
  };
  struct Bucket {
    std::string name;
    TenantId owner = TenantId::kRoot;
    bool cache = false;
  };
  /// Pieces of an object after a look at each.
  struct Mended {
    std::vector<Piece> pieces;
    bool changed = false;                   // some stand for what was lost
    std::optional<uint64_t> damaged_at{};   // the first offset of what is lost or damaged
    bool hopeless = false;                  // there is no room for what stands for it
  };

  template <typename... Args>
  void Act(fmt::format_string<Args...> format, Args&&... args) {
    plan_.actions.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  template <typename... Args>
  void GiveUp(fmt::format_string<Args...> format, Args&&... args) {
    plan_.unrepaired.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  void Put(Stage stage, Family family, std::string_view key, std::string value) {
    plan_.rows[stage].push_back({family, std::string(key), std::move(value)});
  }
  /// Removes a row and keeps it in the plan.
  void Remove(Stage stage, Family family, std::string_view key, std::string_view value, std::string what);
  template <typename Visit>
  Status ForEach(Family family, std::string_view from, const std::string& end, Visit visit) {
    const std::unique_ptr<meta::Scan> scan = meta_.NewScan(family, end);
    for (scan->Seek(from); scan->Valid(); scan->Next()) FB_TRY(visit(scan->key(), scan->value()));
    return scan->status();
  }

  // repair_plan.cc
  rt::Task<Status> ReadHeads();
  Status ReadCounters();
  Status PlanBuckets();
  Status ReadBuckets();
  /// The bucket of that number, made when there is none.
  const Bucket& BucketOf(uint64_t id);
  void MakeLostBuckets();
  rt::Task<Status> PlanExtents();
  rt::Task<void> VerifyExtent(const ExtentRecord& record, Extent& extent);
  Status LoadSpace();
  std::optional<UnitRun> Reserve(uint64_t bytes);
  rt::Task<Status> PlanOverlaps();
  Status Move(Extent& extent);
  Status PlanReferences();
  Status PlanGroups();

  // repair_objects.cc
  Status PlanObjects();
  Status PlanObject(std::string_view row_key, std::string_view value);
  Status PlanInline(std::string_view row_key, std::string_view value, const std::string& name, NewestVersion version);
  Status PlanMap(std::string_view row_key, std::string_view value, const std::string& name, NewestVersion version);
  Status PlanSegments(std::string_view row_key, std::string_view value, const std::string& name,
                      NewestVersion version);
  Status PlanUploads();
  Status PlanParts();
  Status PlanLeftovers();
  Extent* Find(uint64_t id);
  /// `stand_in`: what is lost gets something that stands for it.
  Mended Mend(const std::vector<Piece>& pieces, bool stand_in);
  /// How much the plan takes; to go back there when an object cannot be mended after all.
  struct Mark {
    size_t extents, fills, runs;
  };
  Mark Here() const { return {new_extents_.size(), plan_.fills.size(), reserved_.size()}; }
  void GoBack(const Mark& mark);
  /// A piece that stands for `length` bytes that are lost: it fails to be read.
  std::optional<Piece> StandIn(uint64_t length);
  std::optional<std::vector<Piece>> StandIns(uint64_t length);
  void Count(const std::vector<Piece>& pieces);
  void CountVersion(const Bucket& bucket, const ObjectRecord& record);
  /// Gives an object whose content is another's the number of its version for content; false when that is taken.
  bool TakeOwnContent(const Bucket& bucket, const std::string& name, NewestVersion& version);

  // repair_accounts.cc
  Status PlanOperations();
  Status PlanTenants();
  Status PlanCounters();
  Status PlanScrub();

  // repair_caches.cc
  Status PlanCaches();

  rt::Reactor& reactor_;
  Devices& devices_;
  meta::MetaStore& meta_;
  const RepairOptions options_;
  RepairPlan plan_;
  std::vector<Superblock> superblocks_;
  std::optional<Counters> counters_row_;
  Counters counters_;  // with what the plan uses, above all that was seen
  std::map<uint64_t, Bucket> buckets_;
  std::map<uint64_t, Bucket> lost_buckets_;  // to be made
  std::vector<std::string> broken_buckets_;  // names of rows that do not decode
  std::vector<Extent> extents_;              // ascending by id
  std::vector<std::pair<std::string, ExtentRecord>> new_extents_;
  std::unique_ptr<Allocator> space_;         // all that any extent has is in use
  std::vector<UnitRun> reserved_;            // by the plan
  std::set<uint64_t> inline_contents_;
  std::unordered_map<uint64_t, uint64_t> segments_;  // of contents
  std::pair<uint64_t, std::string> last_null_;
  std::map<uint64_t, uint64_t> uploads_;  // their buckets
  TenantUsages usages_;
  std::map<CachedName, OrderRecord> cached_;  // objects of cache buckets that stay
};

}  // namespace forebay::engine
