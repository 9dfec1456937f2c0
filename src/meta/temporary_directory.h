// SPDX-License-Identifier: Apache-2.0
// Where tests of metadata keep their files, and whole files read and written. TemporaryDirectory: a fresh
// directory below TMPDIR for one test, removed with it. Immutable after construction.
#pragma once

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <utility>

#include "base/check.h"

namespace forebay::meta {

/// For tests that open stores by the thousand: in memory, where there is room for several. RocksDB sets 70 MiB
/// aside for a log, and a container's /dev/shm may have less than that.
inline std::filesystem::path FastScratch() {
  constexpr uintmax_t kRoomBytes = uintmax_t{1} << 30;
  const char* const memory = "/dev/shm";
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(memory, error);
  const bool fits = !error && space.available >= kRoomBytes && ::access(memory, W_OK) == 0;
  return fits ? memory : std::filesystem::temp_directory_path();
}

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream out;
  out << in.rdbuf();
  return std::move(out).str();
}
inline void WriteFile(const std::filesystem::path& path, const std::string& content) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    const char* base = std::getenv("TMPDIR");
    path_ = std::string(base != nullptr ? base : "/tmp") + "/forebay-meta-XXXXXX";
    FB_CHECK(::mkdtemp(path_.data()) != nullptr);
  }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace forebay::meta
