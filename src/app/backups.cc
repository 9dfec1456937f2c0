// SPDX-License-Identifier: Apache-2.0
#include "app/backups.h"

#include <pthread.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "base/bytes.h"

namespace forebay::app {

namespace fs = std::filesystem;

Status Backups::CheckTarget(const std::string& directory) const {
  if (directory_.empty())
    return Status::FailedPrecondition(
        "this server makes no backups: start it with --backup-directory DIR, where they may go");
  const bool printable =
      std::ranges::none_of(directory, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
  const fs::path target(printable ? directory : std::string());
  const std::string name = target.filename().string();
  const bool inside = target.is_absolute() && target.parent_path() == fs::path(directory_) && !name.empty() &&
                      name != "." && name != "..";
  if (inside) return {};
  return Status::PermissionDenied(
      "this server's backups go right into {}: name a new directory there, by its whole path", directory_);
}

Result<uint64_t> Backups::Start(std::string directory, uint64_t bytes_per_second) {
  FB_TRY(CheckTarget(directory));
  base::MutexLock lock(mutex_);
  if (stopping_) return Status::Unavailable("the server is stopping");
  if (running_) return Status::FailedPrecondition("another backup is being made: one at a time");
  if (thread_.joinable()) thread_.join();  // it has nothing left to do
  running_ = true;
  id_ = environment_.random.Next64() | 1;  // not one of before a restart
  asked_ = environment_.clock.Now();
  state_ = {};
  outcome_ = {};
  try {
    thread_ = std::thread([this, target = std::move(directory), bytes_per_second] {
      ::pthread_setname_np(::pthread_self(), "fb-backup");
      Make(target, bytes_per_second);
    });
  } catch (const std::system_error& error) {
    running_ = false;
    return Status::ResourceExhausted("no thread can be started for the backup: {}", error.what());
  }
  return id_;
}

void Backups::Make(const std::string& directory, uint64_t bytes_per_second) {
  environment_.log.Info("backup into {} begins", directory);
  const Result<uint64_t> copied =
      store_.CopyTo(directory, environment_,
                    {.new_directory = true,
                     .bytes_per_second = bytes_per_second,
                     .watch = [this](const engine::CopyProgress& progress) { return Watch(progress); }});
  if (copied.ok())
    environment_.log.Info("backup into {} is complete: {}", directory, base::FormatSize(*copied));
  else
    environment_.log.Error("backup into {} failed: {}", directory, copied.status().ToString());
  base::MutexLock lock(mutex_);
  outcome_ = copied.status();
  state_.done = copied.ok();
  running_ = false;
}

Status Backups::Watch(const engine::CopyProgress& progress) {
  base::MutexLock lock(mutex_);
  state_.copied_bytes = progress.copied_bytes;
  state_.total_bytes = progress.total_bytes;
  if (stopping_) return Status::Unavailable("the server is stopping, and gave up the backup");
  if (environment_.clock.Now() - asked_ > kPatience)
    return Status::Cancelled("the backup was given up: nobody has asked for it for {} s",
                             std::chrono::duration_cast<std::chrono::seconds>(kPatience).count());
  return {};
}

Result<control::BackupState> Backups::Get(uint64_t id) {
  base::MutexLock lock(mutex_);
  if (id == 0 || id != id_)
    return Status::NotFound(
        "there is no such backup: the server was restarted, or another one was begun since");
  asked_ = environment_.clock.Now();
  FB_TRY(outcome_);
  return state_;
}

void Backups::Stop() {
  std::thread thread;
  {
    base::MutexLock lock(mutex_);
    stopping_ = true;
    thread = std::move(thread_);
  }
  if (thread.joinable()) thread.join();
}

}  // namespace forebay::app
