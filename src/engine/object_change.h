// SPDX-License-Identifier: Apache-2.0
// What the transactions that change objects are made of: finding the current version, taking one out with whatever only
// it refers to, writing the rows of new content, and the bookkeeping around the change of one key. Private to the
// transactions. Belongs to the committer's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/core.h"
#include "engine/loader.h"
#include "engine/references.h"
#include "engine/transactions.h"
#include "meta/meta_store.h"
#include "store/quota.h"

namespace forebay::engine {

/// The newest version as the view has it, with the key of its row.
struct CurrentVersion {
  std::string row_key;
  NewestVersion newest;
};
/// A row of Family::kMaps for each segment that `pieces` reach into. They begin at `begin` of the object, a multiple of
/// kSegmentBytes, and none crosses one.
void WriteSegments(meta::Batch& batch, uint64_t content, uint64_t begin, const std::vector<Piece>& pieces);
/// The pieces of one segment of an object; DataLoss when its row is missing.
Result<std::vector<Piece>> ReadSegment(meta::View& view, const NewestVersion& version, uint64_t segment);

Result<std::optional<CurrentVersion>> FindCurrent(meta::View& view, uint64_t bucket, const std::string& key);

/// One version, current or not.
Result<std::optional<CurrentVersion>> FindVersion(meta::View& view, uint64_t bucket, const std::string& key,
                                                  uint64_t version);
/// The bucket, which may have been deleted, or even made anew, since the request looked it up.
Result<store::BucketInfo> FindBucketRow(meta::View& view, const std::string& name, uint64_t id);
Result<TenantId> OwnerOfBucket(meta::View& view, const std::string& name, uint64_t id);
/// The same for changes that a bucket which keeps versions refuses: `what` is not done to its objects.
Result<store::BucketInfo> FindUnversioned(meta::View& view, const std::string& name, uint64_t id, std::string_view what);

/// The rows that a version of a cache bucket has besides: its place in the order, and its pin, which goes with it.
void EnterCache(Core& core, meta::Batch& batch, const CachedName& name, const std::string& key, const ObjectRecord& record);
void LeaveCache(Core& core, meta::Batch& batch, const CachedName& name);
/// When an object of the bucket is put.
int64_t PutTime(const Core& core, bool cache);

/// Takes one version out, with whatever only it refers to.
class Removal {
 public:
  /// Reads all that is needed but the extents, which `references` does.
  Status Plan(meta::View& view, const CurrentVersion& current, ReferenceChanges& references);
  void Apply(meta::Batch& batch, Core& core) const;

 private:
  std::string row_key_;
  uint64_t content_ = 0;
  Storage storage_ = Storage::kInline;
  std::vector<std::string> map_rows_;
};

/// Objects of cache buckets that a change takes out besides.
class Victims {
 public:
  /// Both are borrowed; the references are planned and applied by their owner.
  Victims(Core& core, ReferenceChanges& references) : core_(core), references_(references) {}
  Victims(const Victims&) = delete;
  Victims& operator=(const Victims&) = delete;

  /// Reads all that is needed but the extents. False when it is not there any more: its row in the order goes.
  Result<bool> Add(meta::View& view, const CachedObject& object);
  bool Has(const CachedName& name) const { return names_.contains(name); }
  size_t count() const { return victims_.size(); }
  uint64_t bytes() const { return bytes_; }
  bool empty() const { return victims_.empty() && stale_.empty(); }
  /// Cannot fail.
  void Apply(meta::Batch& batch);
  void Done(const Status& outcome);

 private:
  struct Victim {
    CachedName name;
    std::string key;
    TenantId owner = TenantId::kNone;
    uint64_t size_bytes = 0;
    Removal removal;
  };

  Core& core_;
  ReferenceChanges& references_;
  std::vector<Victim> victims_;
  std::vector<CachedName> stale_;  // rows of the order without an object
  std::set<CachedName> names_;
  uint64_t bytes_ = 0;
  bool applied_ = false;
};

/// What puts, deletes and renames have in common: a key whose current version is replaced.
class ObjectChange : public meta::Transaction {
 public:
  /// What becomes of a cache object may be lost.
  bool durable() const override { return !cache_; }
  void Done(const Status& outcome) final;

 protected:
  ObjectChange(Core& core, std::string bucket_name, uint64_t bucket, std::string key,
               store::Condition condition)
      : core_(core),
        bucket_name_(std::move(bucket_name)),
        bucket_(bucket),
        key_(std::move(key)),
        condition_(std::move(condition)),
        victims_(core, references_) {}

  /// Of the bucket that is changed: before all else that looks at its rows.
  void SetBucket(const store::BucketInfo& bucket) {
    owner_ = bucket.owner;
    cache_ = store::IsCache(bucket);
  }
  bool IsExpired(const std::string& key, const NewestVersion& version) const;
  /// In a cache bucket: takes out the owner's oldest cache objects until its quota allows the change, if that can be. Those that
  /// were used lately last. Before the references are planned.
  Status DisplaceForQuota(meta::View& view);
  /// ResourceExhausted.
  Status CheckQuota() const;

  /// Reads the current version and decides by the condition. Plans the removal of what a new version replaces, which
  /// may be another one, or none, where versions are kept: its references are taken away, but not planned yet.
  struct Planned {
    bool is_there = false;  // an object, before the change
    bool removes = false;   // removal_ is to be applied
    bool keeps = false;     // the bucket keeps versions: a new one is not the null version
    bool versioned = false;  // it keeps, or kept, versions
    uint64_t null_version = 0;  // the key's, if it is still there; 0: none
  };
  Result<Planned> PlanRemoval(meta::View& view);

  /// After this Prepare cannot fail.
  void BeginChange() {
    changing_ = true;
    core_.cache.BeginChange(bucket_, key_);
    core_.commits->tenants().Add(owner_, usage_change_);
  }
  /// For a change that begins those of other keys too.
  virtual void EndOthers() {}

  Core& core_;
  const std::string bucket_name_;
  const uint64_t bucket_;
  const std::string key_;
  const store::Condition condition_;
  Removal removal_;
  ReferenceChanges references_;
  TenantId owner_ = TenantId::kNone;
  store::UsageChange usage_change_;
  ObjectStatePtr new_state_;
  bool cache_ = false;  // the bucket's class
  Victims victims_;

 private:
  bool changing_ = false;
};

/// The rows of content that a change publishes, in the order of the calls.
class ContentRows {
 public:
  /// The content is that of a cache object.
  void SetCache(bool cache) { cache_ = cache; }
  /// Both are borrowed; the content and runs of `request` are taken out of it.
  ContentRows(Core& core, PublishRequest& request) : core_(core), request_(request) {}

  /// Aborted when a source is not current any more.
  Status CheckSources(meta::View& view) const;
  /// Splits the runs, which begin at `begin` of the object, so that none crosses a multiple of `segment_bytes`, and each
  /// segment can have a map of its own; adds the references to extents that are shared. InvalidArgument when a segment or
  /// all of it has more pieces than the limits say.
  Status Split(uint64_t begin, uint64_t segment_bytes, size_t segment_pieces, ReferenceChanges& references);
  /// Roughly the bytes of the rows that it writes.
  uint64_t RowBytes() const;
  /// DataLoss when a shared extent is not what its readers found: the rows were read anew.
  Status Check(const ReferenceChanges& references) const;
  /// Writes a row for each new extent; the map of all of it, also resolved into `state` unless that is null.
  std::vector<Piece> Write(meta::Batch& batch, const ReferenceChanges& references, ObjectState* state);

 private:
  /// The extents of `state` are the new ones.
  void Resolve(const ReferenceChanges& references, ObjectState& state) const;

  Core& core_;
  PublishRequest& request_;
  std::vector<uint64_t> new_references_;  // of the new extents
  bool cache_ = false;
};

/// Publishes a version of one key.
class PublishTransaction : public ObjectChange {
 public:
  PublishTransaction(Core& core, PublishRequest request, PublishOutcome* outcome)
      : ObjectChange(core, request.bucket_name, request.bucket, request.key, request.condition),
        request_(std::move(request)),
        rows_(core, request_),
        outcome_(outcome) {}

  Status Prepare(meta::View& view, meta::Batch& batch) final;
  bool needs_data_flush() const override { return !request_.content.extents.empty(); }

 protected:
  /// For a change that finds its content only here, or has more to look at: before all else.
  virtual Status PlanMore(meta::View& /*view*/) { return {}; }
  /// More rows of the same change. Cannot fail.
  virtual void ApplyMore(meta::Batch& /*batch*/) {}

  PublishRequest request_;

 private:
  void WriteVersion(meta::Batch& batch, const Planned& planned);

  ContentRows rows_;
  PublishOutcome* const outcome_;  // borrowed from the committing coroutine
};

}  // namespace forebay::engine
