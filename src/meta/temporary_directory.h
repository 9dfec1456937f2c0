// SPDX-License-Identifier: Apache-2.0
// TemporaryDirectory: a fresh directory below TMPDIR for one test, removed with it.
// Immutable after construction.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/check.h"

namespace forebay::meta {

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
