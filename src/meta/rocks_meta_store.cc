// SPDX-License-Identifier: Apache-2.0
#include "meta/rocks_meta_store.h"

#include <rocksdb/iterator.h>
#include <rocksdb/snapshot.h>
#include <rocksdb/write_batch.h>

#include <utility>
#include <vector>

#include "meta/commit_row.h"
#include "meta/rocks_inspection.h"
#include "meta/rocks_options.h"

namespace forebay::meta {

namespace {

rocksdb::Slice ToSlice(std::string_view text) { return {text.data(), text.size()}; }
std::string_view ToView(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }

std::string Reading(const std::string& path, Family family) {
  return fmt::format("{}: read the metadata's part `{}`", path, kFamilyNames[static_cast<size_t>(family)]);
}

class RocksScan final : public Scan {
 public:
  /// `snapshot` is borrowed; null: the state of now.
  RocksScan(rocksdb::DB& db, rocksdb::ColumnFamilyHandle* handle, const rocksdb::Snapshot* snapshot,
            std::string_view end, std::string reading)
      : reading_(std::move(reading)), end_(end), end_slice_(end_) {
    rocksdb::ReadOptions options;
    options.snapshot = snapshot;
    options.total_order_seek = true;  // in kObjects a seek would else stay within one object
    if (!end_.empty()) options.iterate_upper_bound = &end_slice_;
    iterator_.reset(db.NewIterator(options, handle));
  }

  void Seek(std::string_view key) override { iterator_->Seek(ToSlice(key)); }
  void Next() override { iterator_->Next(); }
  bool Valid() const override { return iterator_->Valid(); }
  std::string_view key() const override { return ToView(iterator_->key()); }
  std::string_view value() const override { return ToView(iterator_->value()); }
  Status status() const override { return FromRocks(iterator_->status(), reading_); }

 private:
  const std::string reading_;
  const std::string end_;
  const rocksdb::Slice end_slice_;
  std::unique_ptr<rocksdb::Iterator> iterator_;
};

/// Whether the bounds are those of all versions of one object. Those of a prefix can agree in their beginning too.
bool AreAllVersions(std::string_view from, std::string_view end) {
  if (from.size() != end.size() || from.size() <= kVersionBytes) return false;
  const size_t name = from.size() - kVersionBytes;
  return from.substr(0, name) == end.substr(0, name) && from.substr(name) == std::string_view("\0\0\0\0\0\0\0\0", 8) &&
         end.substr(name) == "\xff\xff\xff\xff\xff\xff\xff\xff";
}

/// Makes the directory and its name durable.
Status MakeDirectory(rocksdb::FileSystem& file_system, const std::string& path) {
  const rocksdb::IOOptions io;
  FB_TRY(FromRocks(file_system.CreateDirIfMissing(path, io, nullptr), fmt::format("make directory {}", path)));
  const size_t slash = path.find_last_of('/', path.size() - 2);
  const std::string above = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  std::unique_ptr<rocksdb::FSDirectory> directory;
  FB_TRY(FromRocks(file_system.NewDirectory(above, io, &directory, nullptr), fmt::format("open directory {}", above)));
  return FromRocks(directory->Fsync(io, nullptr), fmt::format("sync directory {}", above));
}

Status OpenError(const rocksdb::Status& status, const std::string& path) {
  if (status.IsIOError() && status.ToString().find("/LOCK") != std::string::npos)
    return Status::FailedPrecondition("{}: another process has the metadata open: is a server running on it? ({})", path,
                                      status.ToString());
  return FromRocks(status, fmt::format("{}: the metadata cannot be opened", path));
}

}  // namespace

struct RocksMetaStore::Database {
  explicit Database(const RocksMetaOptions& options) : setup(MakeSetup(options)) {}
  ~Database() {
    if (!db) return;
    for (rocksdb::ColumnFamilyHandle* handle : handles) (void)db->DestroyColumnFamilyHandle(handle);
    (void)db->Close();  // what was not synced may be lost
  }
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  Status Open(const std::string& path, bool create) {
    rocksdb::DBOptions options = setup.db;
    options.create_if_missing = create;
    options.create_missing_column_families = create;
    std::vector<rocksdb::ColumnFamilyDescriptor> descriptors;
    descriptors.reserve(kFamilies + 1);
    for (size_t i = 0; i < kFamilies; ++i) descriptors.emplace_back(kFamilyNames[i], setup.families[i]);
    descriptors.emplace_back(rocksdb::kDefaultColumnFamilyName, setup.unused);
    rocksdb::DB* opened = nullptr;
    const rocksdb::Status status = rocksdb::DB::Open(options, path, descriptors, &handles, &opened);
    if (!status.ok()) return OpenError(status, path);
    db.reset(opened);
    return {};
  }
  rocksdb::ColumnFamilyHandle* Handle(Family family) const { return handles[static_cast<size_t>(family)]; }

  RocksSetup setup;
  std::unique_ptr<rocksdb::DB> db;
  std::vector<rocksdb::ColumnFamilyHandle*> handles;  // in the order of Family, then the unused one
};

class RocksMetaStore::Moment final : public Snapshot {
 public:
  explicit Moment(const RocksMetaStore& store) : store_(store), moment_(store.database_->db.get()) {}

  Result<std::optional<std::string>> Get(Family family, std::string_view key) override {
    return store_.GetAsOf(moment_.snapshot(), family, key);
  }
  std::unique_ptr<Scan> NewScan(Family family, std::string_view end) override {
    const Database& database = *store_.database_;
    return std::make_unique<RocksScan>(*database.db, database.Handle(family), moment_.snapshot(), end,
                                       Reading(store_.options_.path, family));
  }

 private:
  const RocksMetaStore& store_;
  rocksdb::ManagedSnapshot moment_;
};

Result<std::unique_ptr<RocksMetaStore>> RocksMetaStore::Open(RocksMetaOptions options, GroupHooks* hooks) {
  const std::string& path = options.path;
  if (path.empty()) return Status::InvalidArgument("the metadata needs a directory: its path is empty");
  auto database = std::make_unique<Database>(options);
  FB_ASSIGN(const bool exists, DatabaseExists(database->setup, path));
  if (!exists && !options.create)
    return Status::NotFound("{}: there is no metadata: is this the right store directory?", path);
  uint64_t last = 0;
  if (exists) {
    FB_ASSIGN(last, FindLastCommit(database->setup, path, options.create));
  }
  FB_TRY(CheckWitness(path, last, options.witness));
  if (options.create && last != 0)
    return Status::AlreadyExists("{}: there is metadata with {} commits already; open it instead", path, last);
  if (!exists) {
    FB_TRY(MakeDirectory(*database->setup.file_system, path));
  }
  FB_TRY(database->Open(path, options.create));

  std::string row;
  const rocksdb::Status read = database->db->Get(rocksdb::ReadOptions(), database->Handle(Family::kSystem),
                                                 ToSlice(kCommitKey), &row);
  if (!read.ok() && !read.IsNotFound()) return FromRocks(read, fmt::format("{}: read the commit row", path));
  FB_ASSIGN(const uint64_t opened_at,
            DecodeCommitRow(path, read.ok() ? std::optional<std::string>(std::move(row)) : std::nullopt));
  if (opened_at != last)
    return Status::DataLoss("{}: the metadata was found to end at commit {}, but opened it ends at commit {}: the disk does "
                            "not read the same twice", path, last, opened_at);
  return std::unique_ptr<RocksMetaStore>(new RocksMetaStore(std::move(options), std::move(database), last, hooks));
}

RocksMetaStore::RocksMetaStore(RocksMetaOptions options, std::unique_ptr<Database> database, uint64_t last_commit,
                               GroupHooks* hooks)
    : options_(std::move(options)),
      database_(std::move(database)),
      committer_(options_.path, *this, hooks, last_commit, options_.committer) {}

RocksMetaStore::~RocksMetaStore() = default;

Result<std::optional<std::string>> RocksMetaStore::Get(Family family, std::string_view key) {
  return GetCommitted(family, key);
}

std::unique_ptr<Scan> RocksMetaStore::NewScan(Family family, std::string_view end) {
  return std::make_unique<RocksScan>(*database_->db, database_->Handle(family), nullptr, end,
                                     Reading(options_.path, family));
}

std::unique_ptr<Snapshot> RocksMetaStore::TakeSnapshot() { return std::make_unique<Moment>(*this); }

rt::Task<Status> RocksMetaStore::Commit(rt::Reactor& reactor, std::unique_ptr<Transaction> transaction) {
  return committer_.Commit(reactor, std::move(transaction));
}

Result<std::optional<std::string>> RocksMetaStore::GetCommitted(Family family, std::string_view key) {
  return GetAsOf(nullptr, family, key);
}

Result<std::optional<std::string>> RocksMetaStore::GetAsOf(const rocksdb::Snapshot* snapshot, Family family,
                                                           std::string_view key) const {
  rocksdb::ReadOptions options;
  options.snapshot = snapshot;
  rocksdb::PinnableSlice value;
  const rocksdb::Status status = database_->db->Get(options, database_->Handle(family), ToSlice(key), &value);
  if (status.IsNotFound()) return std::optional<std::string>();
  if (!status.ok()) return FromRocks(status, Reading(options_.path, family));
  return std::optional<std::string>(value.ToString());
}

Result<std::optional<std::pair<std::string, std::string>>> RocksMetaStore::FirstCommitted(Family family,
                                                                                          std::string_view from,
                                                                                          std::string_view end) {
  using Entry = std::pair<std::string, std::string>;
  rocksdb::ReadOptions options;
  const rocksdb::Slice end_slice = ToSlice(end);
  if (!end.empty()) options.iterate_upper_bound = &end_slice;
  // The versions of one object: tables whose filter does not know the object are not read.
  const bool one_object = family == Family::kObjects && AreAllVersions(from, end);
  options.total_order_seek = !one_object;
  options.prefix_same_as_start = one_object;
  const std::unique_ptr<rocksdb::Iterator> iterator(database_->db->NewIterator(options, database_->Handle(family)));
  iterator->Seek(ToSlice(from));
  if (iterator->Valid())
    return std::optional<Entry>(Entry(iterator->key().ToString(), iterator->value().ToString()));
  if (!iterator->status().ok()) return FromRocks(iterator->status(), Reading(options_.path, family));
  return std::optional<Entry>();
}

Status RocksMetaStore::Apply(const Overlay& group, bool durable) {
  rocksdb::WriteBatch batch(group.bytes() + 1024);
  const auto add = [&](Family family, const std::string& key, const std::optional<std::string>& value) {
    return value ? batch.Put(database_->Handle(family), key, *value) : batch.Delete(database_->Handle(family), key);
  };
  for (size_t i = 0; i < kFamilies; ++i) {
    const auto family = static_cast<Family>(i);
    for (const auto& [key, value] : group.writes(family))
      FB_TRY(FromRocks(add(family, key, value), fmt::format("{}: build a batch", options_.path)));
  }
  rocksdb::WriteOptions options;
  options.sync = durable;  // syncs what was written without before, too
  return FromRocks(database_->db->Write(options, &batch), fmt::format("{}: write the metadata log", options_.path));
}

Result<MetaSpace> RocksMetaStore::Space() const {
  rocksdb::FileSystem& file_system = *database_->setup.file_system;
  const rocksdb::IOOptions io;
  std::vector<rocksdb::FileAttributes> files;
  FB_TRY(FromRocks(file_system.GetChildrenFileAttributes(options_.path, io, &files, nullptr),
                   fmt::format("{}: look at the files of the metadata", options_.path)));
  MetaSpace space{.path = options_.path, .reserve_bytes = options_.reserve_bytes};
  for (const rocksdb::FileAttributes& file : files)
    if (file.name != "." && file.name != "..") space.used_bytes += file.size_bytes;
  FB_TRY(FromRocks(file_system.GetFreeSpace(options_.path, io, &space.free_bytes, nullptr),
                   fmt::format("{}: ask how much is free on the metadata's file system", options_.path)));
  return space;
}

Status RocksMetaStore::RefusalForSpace(uint64_t bytes) {
  uint64_t free_bytes = 0;
  const rocksdb::IOStatus asked =
      database_->setup.file_system->GetFreeSpace(options_.path, rocksdb::IOOptions(), &free_bytes, nullptr);
  const uint64_t needed = options_.reserve_bytes + bytes;
  if (!asked.ok() || free_bytes >= needed) return {};
  if (bytes != 0 && free_bytes >= options_.reserve_bytes)
    return Status::ResourceExhausted(
        "{}: the metadata's file system has {} free, and this change needs {} beside the {} that are kept for deletes: delete "
        "objects, make room, or change less at once",
        options_.path, base::FormatSize(free_bytes), base::FormatSize(bytes), base::FormatSize(options_.reserve_bytes));
  return Status::ResourceExhausted(
      "{}: the metadata's file system has {} free, less than the {} that are kept for deletes: delete objects, or make room",
      options_.path, base::FormatSize(free_bytes), base::FormatSize(options_.reserve_bytes));
}

}  // namespace forebay::meta
