// SPDX-License-Identifier: Apache-2.0
#include "meta/rocks_inspection.h"

#include <rocksdb/wal_filter.h>
#include <rocksdb/write_batch.h>

#include <algorithm>
#include <cstdarg>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "meta/commit_row.h"
#include "meta/rocks_log_check.h"

namespace forebay::meta {

namespace {

/// What is looked at only is not worth a log file.
class NoLog final : public rocksdb::Logger {
 public:
  using rocksdb::Logger::Logv;
  void Logv(const char*, va_list) override {}
};

/// Finds the commit row in one record of the log.
class CommitRowFinder final : public rocksdb::WriteBatch::Handler {
 public:
  explicit CommitRowFinder(std::optional<uint32_t> system) : system_(system) {}

  rocksdb::Status PutCF(uint32_t family, const rocksdb::Slice& key, const rocksdb::Slice& value) override {
    if (family == system_ && key == rocksdb::Slice(kCommitKey.data(), kCommitKey.size())) row = value.ToString();
    return rocksdb::Status::OK();
  }
  rocksdb::Status DeleteCF(uint32_t, const rocksdb::Slice&) override { return rocksdb::Status::OK(); }

  std::optional<std::string> row;

 private:
  const std::optional<uint32_t> system_;
};

/// Reads the log without replaying it. RocksDB calls it for each record that is whole, in order, up to the first that is
/// not; records that it silently skips (a page of zeros, say) show as a gap in the numbers.
class LogInspector final : public rocksdb::WalFilter {
 public:
  const char* Name() const override { return "forebay.LogInspector"; }

  void ColumnFamilyLogNumberMap(const std::map<uint32_t, uint64_t>&,
                                const std::map<std::string, uint32_t>& ids) override {
    const auto found = ids.find(kFamilyNames[static_cast<size_t>(Family::kSystem)]);
    if (found != ids.end()) system_ = found->second;
  }

  WalProcessingOption LogRecordFound(unsigned long long, const std::string& file, const rocksdb::WriteBatch& batch,
                                     rocksdb::WriteBatch*, bool*) override {
    // RocksDB begins a new log with an empty record after it recovered one.
    if (batch.Count() != 0 && damage.ok()) damage = Look(file, batch);
    return WalProcessingOption::kIgnoreCurrentRecord;
  }

  Status damage;
  std::optional<uint64_t> first;
  uint64_t last = 0;

 private:
  Status Look(const std::string& file, const rocksdb::WriteBatch& batch) {
    CommitRowFinder finder(system_);
    const rocksdb::Status parsed = batch.Iterate(&finder);
    if (!parsed.ok() || !finder.row)
      return Status::DataLoss("{}: a record after commit {} is none of ours: {}", file, last, parsed.ToString());
    FB_ASSIGN(const uint64_t number, DecodeCommitRow(file, finder.row));
    if (first && number != last + 1)
      return Status::DataLoss("{}: commit {} follows commit {}: a part of the log is missing", file, number, last);
    if (!first) first = number;
    last = number;
    return {};
  }

  std::optional<uint32_t> system_;
};

/// The families that are there. DataLoss when one of ours is missing, FailedPrecondition when there is one not ours.
Result<std::vector<std::string>> ListFamilies(const RocksSetup& setup, const std::string& path, bool incomplete) {
  std::vector<std::string> names;
  const rocksdb::Status listed = rocksdb::DB::ListColumnFamilies(setup.db, path, &names);
  if (!listed.ok()) {
    FB_TRY(FromRocks(listed, fmt::format("{}: the metadata cannot be opened; restore it from a backup", path)));
  }
  for (const std::string& name : names) {
    const bool ours = std::find(kFamilyNames.begin(), kFamilyNames.end(), name) != kFamilyNames.end();
    if (!ours && name != rocksdb::kDefaultColumnFamilyName)
      return Status::FailedPrecondition("{}: the metadata has a part `{}` that this version does not know: a newer version "
                                        "of forebay wrote it; use that one", path, name);
  }
  for (const char* name : kFamilyNames) {
    if (incomplete || std::find(names.begin(), names.end(), name) != names.end()) continue;
    return Status::DataLoss("{}: the metadata lacks its part `{}`: it is damaged; restore it from a backup", path, name);
  }
  return names;
}

}  // namespace

Result<bool> DatabaseExists(const RocksSetup& setup, const std::string& path) {
  const rocksdb::IOOptions io;
  const rocksdb::IOStatus current = setup.file_system->FileExists(path + "/CURRENT", io, nullptr);
  if (current.ok()) return true;
  if (!current.IsNotFound() && !current.IsPathNotFound()) return FromRocks(current, path);
  std::vector<std::string> children;
  const rocksdb::IOStatus listed = setup.file_system->GetChildren(path, io, &children, nullptr);
  if (!listed.ok() && !listed.IsNotFound() && !listed.IsPathNotFound()) return FromRocks(listed, path);
  for (const std::string& child : children) {
    if (!child.ends_with(".sst") && !child.ends_with(".log")) continue;
    return Status::DataLoss("{}: there is `{}` but no file CURRENT: the metadata is damaged; restore it from a backup",
                            path, child);
  }
  return false;
}

Result<uint64_t> FindLastCommit(const RocksSetup& setup, const std::string& path, bool incomplete) {
  FB_ASSIGN(const std::vector<std::string> names, ListFamilies(setup, path, incomplete));
  FB_TRY(CheckLogs(setup, path));
  LogInspector inspector;
  rocksdb::DBOptions options = setup.db;
  options.wal_filter = &inspector;
  options.info_log = std::make_shared<NoLog>();
  std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
  size_t system = names.size();
  for (size_t i = 0; i < names.size(); ++i) {
    const auto ours = std::find(kFamilyNames.begin(), kFamilyNames.end(), names[i]);
    const auto family = static_cast<size_t>(ours - kFamilyNames.begin());
    descriptors.emplace_back(names[i], family == kFamilies ? setup.unused : setup.families[family]);
    if (family == static_cast<size_t>(Family::kSystem)) system = i;
  }

  std::vector<rocksdb::ColumnFamilyHandle*> handles;
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status = rocksdb::DB::OpenForReadOnly(options, path, descriptors, &handles, &opened);
  if (!status.ok())
    return FromRocks(status, fmt::format("{}: the metadata cannot be opened; restore it from a backup", path));
  const std::unique_ptr<rocksdb::DB> db(opened);
  std::optional<std::string> row;
  rocksdb::Status read;
  if (system < handles.size()) {
    std::string value;
    read = db->Get(rocksdb::ReadOptions(), handles[system], rocksdb::Slice(kCommitKey.data(), kCommitKey.size()), &value);
    if (read.ok()) row = std::move(value);
  }
  for (rocksdb::ColumnFamilyHandle* handle : handles) (void)db->DestroyColumnFamilyHandle(handle);
  if (!read.ok() && !read.IsNotFound()) return FromRocks(read, fmt::format("{}: read the commit row", path));

  // The log was not replayed, so this is what the tables hold.
  FB_ASSIGN(const uint64_t in_tables, DecodeCommitRow(path, row));
  FB_TRY(inspector.damage);
  if (!inspector.first) return in_tables;
  if (*inspector.first > in_tables + 1)
    return Status::DataLoss("{}: the tables end at commit {}, but the log begins at commit {}: a part of it is missing; "
                            "restore the metadata from a backup", path, in_tables, *inspector.first);
  return std::max(in_tables, inspector.last);
}

}  // namespace forebay::meta
