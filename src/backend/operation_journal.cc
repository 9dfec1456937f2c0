// SPDX-License-Identifier: Apache-2.0
#include "backend/operation_journal.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/codec.h"

namespace forebay::backend {
namespace {

constexpr const char* kName = "journal";
constexpr uint64_t kLeastRewriteBytes = 16 * base::kMiB;
constexpr size_t kReadBytes = base::kMiB;
constexpr int kLetGoPerChange = 2;
/// Versions are nanoseconds of the wall clock where it allows, so that those of files that others write, which are their
/// times, go along with them. So many are reserved by one entry.
constexpr uint64_t kReservedVersions = 10'000'000'000;
/// How far the times of files may be behind the clock.
constexpr base::Duration kFileTimeStep = std::chrono::milliseconds(10);

std::string Framed(const JournalEntry& entry) {
  const std::string bytes = Encode(entry);
  std::string frame;
  base::Encoder out(&frame);
  out.U32(static_cast<uint32_t>(bytes.size()));
  out.Raw(std::string_view(bytes));
  return frame;
}

/// Takes the entries of a file one after the other.
class EntryReader {
 public:
  explicit EntryReader(int file) : file_(file) {}

  /// Nothing at the end, or where what follows is no entry.
  Result<std::optional<JournalEntry>> Next() {
    FB_ASSIGN(const bool has_length, Have(sizeof(uint32_t)));
    if (!has_length) return std::optional<JournalEntry>();
    const uint32_t length = base::Decoder(std::string_view(buffer_).substr(at_)).U32();
    if (length > kMaxRecordBytes) return std::optional<JournalEntry>();
    FB_ASSIGN(const bool whole, Have(sizeof(uint32_t) + length));
    if (!whole) return std::optional<JournalEntry>();
    auto entry = DecodeJournalEntry(std::string_view(buffer_).substr(at_ + sizeof(uint32_t), length));
    if (!entry.ok()) return std::optional<JournalEntry>();
    at_ += sizeof(uint32_t) + length;
    taken_ += sizeof(uint32_t) + length;
    return std::optional(*std::move(entry));
  }
  uint64_t taken_bytes() const { return taken_; }

 private:
  Result<bool> Have(size_t bytes) {
    if (buffer_.size() - at_ >= bytes) return true;
    buffer_.erase(0, at_);
    at_ = 0;
    const size_t before = buffer_.size();
    buffer_.resize(before + kReadBytes);
    FB_ASSIGN(const size_t got, ReadAt(file_, std::as_writable_bytes(std::span(buffer_)).subspan(before), read_, "read the journal"));
    buffer_.resize(before + got);
    read_ += got;
    return buffer_.size() >= bytes;
  }

  const int file_;
  std::string buffer_;
  size_t at_ = 0;
  uint64_t read_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace

Result<std::unique_ptr<OperationJournal>> OperationJournal::Open(int directory, const base::Clock& clock,
                                                                 const TookPlace& took_place, base::Log& log) {
  std::unique_ptr<OperationJournal> journal(new OperationJournal(directory, clock));
  FB_TRY(journal->Load(took_place, log));
  return journal;
}

Status OperationJournal::Load(const TookPlace& took_place, base::Log& log) {
  using Kind = JournalEntry::Kind;
  const base::MutexLock lock(mutex_);
  uint64_t time_ms = 0;
  auto file = OpenBeneath(directory_, kName, O_RDONLY);
  if (!file && file.error() != ENOENT) return FileError(file.error(), "open the journal");
  if (file) {
    EntryReader reader(file->get());
    std::map<std::pair<std::string, std::string>, uint64_t> last;  // intent of each name
    const auto keep = [&](const JournalEntry& entry) FB_REQUIRES(mutex_) { results_[{entry.id, entry.tenant}] = entry.result; };
    for (;;) {
      FB_ASSIGN(const std::optional<JournalEntry> entry, reader.Next());
      if (!entry) break;
      if (entry->kind == Kind::kResult) keep(*entry);
      if (entry->kind == Kind::kHorizon) {
        floor_ms_ = std::max(floor_ms_, entry->floor_ms);
        time_ms = std::max(time_ms, entry->time_ms);
        last_version_ = std::max(last_version_, entry->number);
        continue;
      }
      time_ms = std::max(time_ms, entry->result.recorded_ms);
      if (entry->kind == Kind::kIntent) {
        // Whoever changes a name next came after the effect of the change before, or it was void.
        // Changes that are not about one key (buckets, uploads) do not wait for each other.
        if (!entry->key.empty()) {
          uint64_t& earlier = last[{entry->bucket, entry->key}];
          if (const auto open = intents_.find(earlier); open != intents_.end()) {
            keep(open->second);
            intents_.erase(open);
          }
          earlier = entry->number;
        }
        intents_[entry->number] = *entry;
      } else if (const auto open = intents_.find(entry->number); open != intents_.end()) {
        if (entry->kind == Kind::kDone) keep(open->second);
        intents_.erase(open);
      }
    }
    FB_ASSIGN(const FileState state, StateOf(file->get(), "look at the journal"));
    if (state.size_bytes > reader.taken_bytes())
      log.Warning("the last {} bytes of the operation journal are no entries: they were being written at a crash",
                  state.size_bytes - reader.taken_bytes());
    for (const auto& [number, intent] : intents_) {
      FB_ASSIGN(const bool took, took_place(intent));
      if (took) keep(intent);
    }
    intents_.clear();
  }
  reserved_version_ = last_version_;
  clock_ = std::make_unique<store::OperationClock>(wall_, time_ms);
  return Rewrite();
}

Status OperationJournal::Rewrite() {
  const std::string temporary = std::string(kName) + "~";
  auto file = OpenBeneath(directory_, temporary, O_RDWR | O_CREAT | O_TRUNC, 0600);
  if (!file) return FileError(file.error(), "make a journal");
  std::string bytes = Framed({.kind = JournalEntry::Kind::kHorizon,
                              .number = reserved_version_,
                              .floor_ms = floor_ms_,
                              .time_ms = clock_->NowMs()});
  uint64_t size = 0;
  const auto flush = [&](size_t at_least) -> Status {
    if (bytes.size() < at_least || bytes.empty()) return {};
    FB_TRY(WriteAt(file->get(), AsBytes(bytes), size, "write a journal"));
    size += bytes.size();
    bytes.clear();
    return {};
  };
  std::map<Key, bool> open;
  for (const auto& [number, intent] : intents_) open[{intent.id, intent.tenant}] = true;
  for (const auto& [key, record] : results_) {
    if (open.contains(key)) continue;
    bytes += Framed({.kind = JournalEntry::Kind::kResult, .id = key.first, .tenant = key.second, .result = record});
    FB_TRY(flush(kReadBytes));
  }
  for (const auto& [number, intent] : intents_) bytes += Framed(intent);
  FB_TRY(flush(0));
  FB_TRY(SyncFile(file->get(), "write a journal"));
  if (::renameat(directory_, temporary.c_str(), directory_, kName) != 0) return FileError(errno, "replace the journal");
  FB_TRY(SyncFile(directory_, "replace the journal"));
  file_ = *std::move(file);
  size_bytes_ = size;
  rewrite_at_ = std::max(kLeastRewriteBytes, 2 * size);
  synced_ = appended_;
  synced_changed_.NotifyAll();
  return {};
}

Status OperationJournal::Append(const JournalEntry& entry) {
  FB_TRY(failed_);
  if (size_bytes_ >= rewrite_at_) {
    while (syncing_) synced_changed_.Wait(mutex_);
    if (size_bytes_ >= rewrite_at_) FB_TRY(Rewrite());
  }
  const std::string frame = Framed(entry);
  Status wrote = WriteAt(file_.get(), AsBytes(frame), size_bytes_, "write to the journal");
  if (!wrote.ok()) {
    if (::ftruncate(file_.get(), static_cast<off_t>(size_bytes_)) != 0)
      failed_ = Status::Unavailable("nothing can be changed any more, the operation journal has a torn entry: {}; free some "
                                    "space and restart", wrote.message());
    return wrote;
  }
  size_bytes_ += frame.size();
  ++appended_;
  return {};
}

Status OperationJournal::Sync() {
  const base::MutexLock lock(mutex_);
  const uint64_t mine = appended_;
  while (failed_.ok() && synced_ < mine) {
    if (syncing_) {
      synced_changed_.Wait(mutex_);
      continue;
    }
    // One for all that were appended meanwhile.
    syncing_ = true;
    const uint64_t through = appended_;
    const int fd = file_.get();
    mutex_.Unlock();
    const int error = ::fdatasync(fd) == 0 ? 0 : errno;
    mutex_.Lock();
    syncing_ = false;
    if (error == 0) {
      synced_ = std::max(synced_, through);
    } else {
      failed_ = Status::Unavailable("nothing can be changed any more, {}; look at the device and restart",
                                    Status::FromErrno(error, "the operation journal cannot be made durable").message());
    }
    synced_changed_.NotifyAll();
  }
  return failed_;
}

Result<std::optional<store::OperationRecord>> OperationJournal::Begin(const store::Operation& operation) {
  const base::MutexLock lock(mutex_);
  // A result may stand for an effect that could not be made durable.
  FB_TRY(failed_);
  if (operation.id.IsNone()) return std::optional<store::OperationRecord>();
  if (const auto found = results_.find({operation.id, operation.tenant}); found != results_.end()) {
    FB_TRY(store::CheckSameRequest(found->second, operation));
    return std::optional(found->second);
  }
  LetGo();
  FB_TRY(store::CheckOperationTime(operation, floor_ms_));
  if (results_.size() >= kMaxResults) return store::TooManyOperations(results_.size());
  return std::optional<store::OperationRecord>();
}

Result<uint64_t> OperationJournal::Intend(const store::Operation& operation, JournalEntry intent,
                                          const store::ObjectInfo* stored) {
  FB_TRY(health());
  if (operation.id.IsNone()) return 0;
  intent.kind = JournalEntry::Kind::kIntent;
  intent.id = operation.id;
  intent.tenant = operation.tenant;
  intent.result = store::RecordOf(operation, {}, stored, clock_->NowMs());
  {
    const base::MutexLock lock(mutex_);
    intent.number = next_number_++;
    FB_TRY(Append(intent));
    results_[{operation.id, operation.tenant}] = intent.result;
    intents_[intent.number] = intent;
  }
  Status durable = Sync();
  if (durable.ok()) return intent.number;
  Void(intent.number, operation);
  return durable;
}

void OperationJournal::Done(uint64_t number) {
  const base::MutexLock lock(mutex_);
  if (intents_.erase(number) == 0) return;
  // Where this is lost, the file system tells.
  (void)Append({.kind = JournalEntry::Kind::kDone, .number = number});
}

void OperationJournal::Void(uint64_t number, const store::Operation& operation) {
  const base::MutexLock lock(mutex_);
  if (intents_.erase(number) == 0) return;
  results_.erase({operation.id, operation.tenant});
  (void)Append({.kind = JournalEntry::Kind::kVoid, .number = number});
}

void OperationJournal::Refuse(const store::Operation& operation, const Status& refusal) {
  if (operation.id.IsNone() || refusal.ok() || !store::IsResult(refusal.code())) return;
  const base::MutexLock lock(mutex_);
  JournalEntry entry{.kind = JournalEntry::Kind::kResult,
                     .id = operation.id,
                     .tenant = operation.tenant,
                     .result = store::RecordOf(operation, refusal, nullptr, clock_->NowMs())};
  results_.emplace(Key(operation.id, operation.tenant), entry.result);
  (void)Append(entry);
}

Result<uint64_t> OperationJournal::NextVersion(uint64_t above) {
  bool reserve = false;
  uint64_t version = 0;
  {
    const base::MutexLock lock(mutex_);
    const int64_t now = (wall_.WallNow() - kFileTimeStep).time_since_epoch().count();
    version = std::max({std::max(last_version_, above) + 1, now < 0 ? uint64_t{0} : static_cast<uint64_t>(now)});
    reserve = version > reserved_version_;
    if (reserve) {
      const uint64_t reserved = version + kReservedVersions;
      FB_TRY(Append({.kind = JournalEntry::Kind::kHorizon, .number = reserved, .floor_ms = floor_ms_, .time_ms = clock_->NowMs()}));
      reserved_version_ = reserved;
    }
    last_version_ = version;
  }
  if (reserve) FB_TRY(Sync());
  return version;
}

Status OperationJournal::Fail(const Status& why) {
  const base::MutexLock lock(mutex_);
  if (failed_.ok())
    failed_ = Status::Unavailable("nothing can be changed any more, {}; look at the device and restart", why.message());
  return why;
}

Status OperationJournal::health() const {
  const base::MutexLock lock(mutex_);
  return failed_;
}

void OperationJournal::LetGo() {
  for (int i = 0; i < kLetGoPerChange && !results_.empty(); ++i) {
    const auto oldest = results_.begin();
    const OperationId& id = oldest->first.first;
    if (!store::IsOver(id, oldest->second, clock_->NowMs())) return;
    floor_ms_ = std::max(floor_ms_, id.unix_ms());
    results_.erase(oldest);
  }
}

}  // namespace forebay::backend
