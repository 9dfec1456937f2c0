// SPDX-License-Identifier: Apache-2.0
#include "meta/unsynced_files.h"

#include <algorithm>
#include <fstream>
#include <system_error>
#include <utility>

namespace forebay::meta {

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kSector = 512;

fs::path Normal(const fs::path& path) {
  fs::path normal = fs::absolute(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

Status Move(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) return Status::FromErrno(error.value(), fmt::format("rename {} to {}", from.string(), to.string()));
  return {};
}

Status Remove(const fs::path& path) {
  std::error_code error;
  fs::remove(path, error);
  if (error) return Status::FromErrno(error.value(), fmt::format("remove {}", path.string()));
  return {};
}

}  // namespace

UnsyncedFiles::UnsyncedFiles(fs::path directory)
    : directory_(Normal(directory)), aside_(directory_.string() + ".unsynced") {}

UnsyncedFiles::~UnsyncedFiles() {
  std::error_code error;
  fs::remove_all(aside_, error);
}

bool UnsyncedFiles::Covers(const fs::path& path) const {
  const fs::path normal = Normal(path);
  return normal == directory_ || normal.parent_path() == directory_;
}

UnsyncedFiles::Handle UnsyncedFiles::Find(const fs::path& path) {
  const fs::path normal = Normal(path);
  for (const Handle& file : files_)
    if (file->exists && file->path == normal) return file;
  std::error_code error;
  const uint64_t size = fs::file_size(normal, error);
  if (error) return nullptr;
  files_.push_back(std::make_shared<File>(File{.path = normal, .size = size, .synced = size}));
  return files_.back();
}

Result<fs::path> UnsyncedFiles::MoveAside(const Handle& file) {
  std::error_code error;
  fs::create_directory(aside_, error);
  fs::path aside = aside_ / std::to_string(++moved_);
  FB_TRY(Move(file->path, aside));
  file->exists = false;
  return aside;
}

Result<UnsyncedFiles::Handle> UnsyncedFiles::Create(const fs::path& path) {
  base::MutexLock lock(mutex_);
  Change change{.after = Normal(path), .replaced = Find(path)};
  if (change.replaced) {
    FB_ASSIGN(change.aside, MoveAside(change.replaced));
  }
  change.file = std::make_shared<File>(File{.path = change.after});
  files_.push_back(change.file);
  changes_.push_back(change);
  return change.file;
}

UnsyncedFiles::Handle UnsyncedFiles::Open(const fs::path& path) {
  base::MutexLock lock(mutex_);
  return Find(path);
}

void UnsyncedFiles::Appended(const Handle& file, uint64_t size) {
  base::MutexLock lock(mutex_);
  file->size += size;
}

void UnsyncedFiles::Truncated(const Handle& file, uint64_t size) {
  base::MutexLock lock(mutex_);
  file->size = size;
  file->synced = std::min(file->synced, size);
}

void UnsyncedFiles::Synced(const Handle& file) {
  base::MutexLock lock(mutex_);
  file->synced = file->size;
}

Status UnsyncedFiles::Rename(const fs::path& from, const fs::path& to) {
  base::MutexLock lock(mutex_);
  const Handle file = Find(from);
  if (!file) return Status::NotFound("{}: no such file", from.string());
  Change change{.file = file, .before = file->path, .after = Normal(to), .replaced = Find(to)};
  if (change.replaced == file) return {};
  if (change.replaced) {
    FB_ASSIGN(change.aside, MoveAside(change.replaced));
  }
  FB_TRY(Move(change.before, change.after));
  file->path = change.after;
  changes_.push_back(std::move(change));
  return {};
}

Status UnsyncedFiles::Delete(const fs::path& path) {
  base::MutexLock lock(mutex_);
  const Handle file = Find(path);
  if (!file) return Status::NotFound("{}: no such file", path.string());
  Change change{.file = file, .before = file->path};
  FB_ASSIGN(change.aside, MoveAside(file));
  changes_.push_back(std::move(change));
  return {};
}

void UnsyncedFiles::DirectorySynced() {
  base::MutexLock lock(mutex_);
  for (const Change& change : changes_)
    if (!change.aside.empty()) (void)Remove(change.aside);
  changes_.clear();
  std::erase_if(files_, [](const Handle& file) { return !file->exists; });
}

Status UnsyncedFiles::Undo(const Change& change) {
  if (change.before.empty()) {  // a creation
    FB_TRY(Remove(change.file->path));
    change.file->exists = false;
  } else if (change.after.empty()) {  // a deletion
    FB_TRY(Move(change.aside, change.before));
    change.file->exists = true;
    return {};
  } else {
    FB_TRY(Move(change.after, change.before));
    change.file->path = change.before;
  }
  if (change.replaced) {
    FB_TRY(Move(change.aside, change.after));
    change.replaced->exists = true;
  }
  return {};
}

Status UnsyncedFiles::Cut(const File& file, base::Random& random, FileCrashMode mode) {
  if (mode == FileCrashMode::kKeepAll) return {};
  const uint64_t unsynced = file.size - file.synced;
  const uint64_t kept = mode == FileCrashMode::kRandom ? random.Below(unsynced + 1) : 0;
  std::error_code error;
  fs::resize_file(file.path, file.synced + kept, error);
  if (error) return Status::FromErrno(error.value(), fmt::format("cut {}", file.path.string()));
  if (kept == 0 || random.Below(2) == 0) return {};
  // The file system may have noted the size before the data arrived.
  std::fstream stream(file.path, std::ios::binary | std::ios::in | std::ios::out);
  const std::string zeros(kSector, '\0');
  const uint64_t end = file.synced + kept;
  for (uint64_t at = file.synced; at < end;) {
    const uint64_t next = std::min((at / kSector + 1) * kSector, end);
    if (random.Below(2) == 0) {
      stream.seekp(static_cast<std::streamoff>(at));
      stream.write(zeros.data(), static_cast<std::streamsize>(next - at));
    }
    at = next;
  }
  stream.flush();
  if (!stream) return Status::DataLoss("{}: could not be torn", file.path.string());
  return {};
}

Status UnsyncedFiles::Crash(base::Random& random, FileCrashMode mode) {
  base::MutexLock lock(mutex_);
  size_t keep = changes_.size();
  if (mode == FileCrashMode::kDropAll) keep = 0;
  if (mode == FileCrashMode::kRandom) keep = random.Below(changes_.size() + 1);
  for (; changes_.size() > keep; changes_.pop_back()) FB_TRY(Undo(changes_.back()));
  for (const Handle& file : files_) {
    if (file->exists && file->size > file->synced) FB_TRY(Cut(*file, random, mode));
  }
  changes_.clear();
  files_.clear();
  std::error_code error;
  fs::remove_all(aside_, error);
  return {};
}

}  // namespace forebay::meta
