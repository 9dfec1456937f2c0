// SPDX-License-Identifier: Apache-2.0
#include "meta/memory_meta_store.h"

#include <algorithm>

#include "meta/commit_row.h"

namespace forebay::meta {

namespace {

constexpr std::string_view kName = "memory-metadata";

class MemoryScan final : public Scan {
 public:
  /// `entries` were shared by the media and go back to them.
  MemoryScan(std::shared_ptr<const MemoryMedia> media, std::shared_ptr<const MemoryMedia::Entries> entries,
             std::string_view end)
      : media_(std::move(media)), entries_(std::move(entries)), end_(end), at_(entries_->end()) {}
  ~MemoryScan() override { media_->Release(std::move(entries_)); }

  void Seek(std::string_view key) override { at_ = entries_->lower_bound(key); }
  void Next() override { ++at_; }
  bool Valid() const override { return at_ != entries_->end() && (end_.empty() || at_->first < end_); }
  std::string_view key() const override { return at_->first; }
  std::string_view value() const override { return at_->second; }
  Status status() const override { return {}; }

 private:
  const std::shared_ptr<const MemoryMedia> media_;  // shared: a scan may outlive the store
  std::shared_ptr<const MemoryMedia::Entries> entries_;
  const std::string end_;
  MemoryMedia::Entries::const_iterator at_;
};

class MemorySnapshot final : public Snapshot {
 public:
  explicit MemorySnapshot(std::shared_ptr<const MemoryMedia> media)
      : media_(std::move(media)), families_(media_->ShareAll()) {}
  ~MemorySnapshot() override {
    for (auto& entries : families_) media_->Release(std::move(entries));
  }

  Result<std::optional<std::string>> Get(Family family, std::string_view key) override {
    const MemoryMedia::Entries& entries = *families_[static_cast<size_t>(family)];
    const auto found = entries.find(key);
    return found == entries.end() ? std::optional<std::string>() : std::optional(found->second);
  }
  std::unique_ptr<Scan> NewScan(Family family, std::string_view end) override {
    return std::make_unique<MemoryScan>(media_, families_[static_cast<size_t>(family)], end);
  }

 private:
  const std::shared_ptr<const MemoryMedia> media_;  // shared: as a scan
  MemoryMedia::AllEntries families_;
};

}  // namespace

MemoryMedia::MemoryMedia() {
  for (auto& family : families_) family = std::make_shared<Entries>();
}

std::optional<std::string> MemoryMedia::Get(Family family, std::string_view key) const {
  base::MutexLock lock(mutex_);
  const Entries& entries = *families_[static_cast<size_t>(family)];
  const auto found = entries.find(key);
  if (found == entries.end()) return std::nullopt;
  return found->second;
}

std::optional<std::pair<std::string, std::string>> MemoryMedia::First(Family family, std::string_view from,
                                                                      std::string_view end) const {
  base::MutexLock lock(mutex_);
  const Entries& entries = *families_[static_cast<size_t>(family)];
  const auto found = entries.lower_bound(from);
  if (found == entries.end() || (!end.empty() && found->first >= end)) return std::nullopt;
  return *found;
}

MemoryMedia::Entries& MemoryMedia::Writable(Family family) {
  std::shared_ptr<Entries>& entries = families_[static_cast<size_t>(family)];
  // Somebody scans it: leave them their moment.
  if (entries.use_count() > 1) entries = std::make_shared<Entries>(*entries);
  return *entries;
}

void MemoryMedia::Apply(const Overlay& group) {
  base::MutexLock lock(mutex_);
  for (size_t family = 0; family < kFamilies; ++family) {
    const Overlay::Writes& writes = group.writes(static_cast<Family>(family));
    if (writes.empty()) continue;
    Entries& entries = Writable(static_cast<Family>(family));
    for (const auto& [key, value] : writes) {
      if (value) {
        entries.insert_or_assign(key, *value);
      } else {
        entries.erase(key);
      }
    }
  }
}

void MemoryMedia::Damage(Family family, std::string_view key, std::optional<std::string> value) {
  base::MutexLock lock(mutex_);
  Entries& entries = Writable(family);
  if (value) {
    entries.insert_or_assign(std::string(key), *std::move(value));
  } else {
    entries.erase(std::string(key));
  }
}

std::shared_ptr<const MemoryMedia::Entries> MemoryMedia::Share(Family family) const {
  base::MutexLock lock(mutex_);
  return families_[static_cast<size_t>(family)];
}

MemoryMedia::AllEntries MemoryMedia::ShareAll() const {
  base::MutexLock lock(mutex_);
  AllEntries all;
  std::ranges::copy(families_, all.begin());
  return all;
}

void MemoryMedia::Release(std::shared_ptr<const Entries> shared) const {
  base::MutexLock lock(mutex_);
  shared.reset();
}

Result<std::unique_ptr<MemoryMetaStore>> MemoryMetaStore::Open(std::shared_ptr<MemoryMedia> media, uint64_t witness,
                                                               GroupHooks* hooks, CommitterOptions options) {
  FB_ASSIGN(const uint64_t last, DecodeCommitRow(kName, media->Get(Family::kSystem, kCommitKey)));
  FB_TRY(CheckWitness(kName, last, witness));
  return std::unique_ptr<MemoryMetaStore>(new MemoryMetaStore(std::move(media), last, hooks, options));
}

MemoryMetaStore::MemoryMetaStore(std::shared_ptr<MemoryMedia> media, uint64_t last_commit, GroupHooks* hooks,
                                 const CommitterOptions& options)
    : media_(std::move(media)), committer_(std::string(kName), *this, hooks, last_commit, options) {}

Result<std::optional<std::string>> MemoryMetaStore::Get(Family family, std::string_view key) {
  return media_->Get(family, key);
}

std::unique_ptr<Scan> MemoryMetaStore::NewScan(Family family, std::string_view end) {
  return std::make_unique<MemoryScan>(media_, media_->Share(family), end);
}

std::unique_ptr<Snapshot> MemoryMetaStore::TakeSnapshot() { return std::make_unique<MemorySnapshot>(media_); }

rt::Task<Status> MemoryMetaStore::Commit(rt::Reactor& reactor, std::unique_ptr<Transaction> transaction) {
  return committer_.Commit(reactor, std::move(transaction));
}

Result<std::optional<std::string>> MemoryMetaStore::GetCommitted(Family family, std::string_view key) {
  return media_->Get(family, key);
}

Result<std::optional<std::pair<std::string, std::string>>> MemoryMetaStore::FirstCommitted(Family family,
                                                                                           std::string_view from,
                                                                                           std::string_view end) {
  return media_->First(family, from, end);
}

Status MemoryMetaStore::Apply(const Overlay& group, bool /*durable*/) {
  media_->Apply(group);
  return {};
}

}  // namespace forebay::meta
