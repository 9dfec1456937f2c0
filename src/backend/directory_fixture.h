// SPDX-License-Identifier: Apache-2.0
// For tests of the directory backend: a directory of its own for each test, in memory where there is room and it takes
// attributes, and a store on it. Reactor-local.
#pragma once

#include <sys/xattr.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>

#include <gtest/gtest.h>

#include "backend/directory_store.h"
#include "base/check.h"
#include "rt/reactor.h"

namespace forebay::backend {

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return std::move(out).str();
}
inline void WriteFile(const std::filesystem::path& path, const std::string& content) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

/// FOREBAY_TEST_DIRECTORY names another file system than the memory's.
class OwnDirectory {
 public:
  OwnDirectory() {
    const char* const given = std::getenv("FOREBAY_TEST_DIRECTORY");
    std::string base = given != nullptr ? given : ::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    path_ = base + "/forebay-directory-XXXXXX";
    FB_CHECK(::mkdtemp(path_.data()) != nullptr);
  }
  ~OwnDirectory() { std::filesystem::remove_all(path_); }
  OwnDirectory(const OwnDirectory&) = delete;
  OwnDirectory& operator=(const OwnDirectory&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// A store on a directory, which can be closed and opened again.
class OpenDirectory {
 public:
  explicit OpenDirectory(size_t arena_bytes = 32 * base::kMiB) : arena_(*base::Arena::Create(arena_bytes)) {}

  const std::string& path() const { return directory_.path(); }
  std::string File(const std::string& name) const { return path() + "/" + name; }
  DirectoryStore& store() {
    if (store_ == nullptr) Open();
    return *store_;
  }
  rt::Reactor& reactor() { return *reactor_; }
  void Reopen() {
    store_.reset();
    Open();
  }
  void Close() { store_.reset(); }

 private:
  void Open() {
    auto opened = DirectoryStore::Open(path(), {.arena = *arena_, .clock = clock_, .log = *log_});
    if (!opened.ok()) {
      ADD_FAILURE() << opened.status().ToString();
      std::abort();  // nothing of the test can run
    }
    store_ = *std::move(opened);
  }

  OwnDirectory directory_;
  base::SystemClock clock_;
  std::unique_ptr<base::Log> log_ = base::Log::Discard();
  std::unique_ptr<base::Arena> arena_;
  std::unique_ptr<rt::Reactor> reactor_ = *rt::Reactor::Create();
  std::unique_ptr<DirectoryStore> store_;
};

}  // namespace forebay::backend
