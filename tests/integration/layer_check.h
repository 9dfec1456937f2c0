// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <expected>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace forebay::integration {

// The folder table, docs/layers.txt, read into memory. The file's own head explains the rules; Parse applies
// rules 1 to 3 and 7, Check the rest. Used by layers_test only. Immutable after Parse.
class LayerTable {
 public:
  // Fails with "line N: what is wrong" on a line it does not understand, a folder named twice, or a folder
  // that stands below the line which includes it (which is how a cycle would have to be written).
  static std::expected<LayerTable, std::string> Parse(std::string_view text);

  // Checks each #include of one file; `path` is relative to the repository ("src/rt/task.cc"), and decides
  // which folder's rules hold. Returns one "path:line: what is wrong" for each violation.
  std::vector<std::string> Check(std::string_view path, std::string_view content) const;

  // Whether `folder` may include headers of `target`, by any of the rules.
  bool MayInclude(std::string_view folder, std::string_view target) const;

 private:
  struct Folder {
    std::set<std::string, std::less<>> includes;
    std::vector<std::string> third_party;  // header prefixes
  };

  std::string CheckQuoted(std::string_view folder, std::string_view header) const;
  std::string CheckAngled(const Folder& folder, std::string_view header, bool is_test) const;

  std::map<std::string, Folder, std::less<>> folders_;
  std::map<std::string, std::vector<std::string>, std::less<>> shared_;  // everywhere, tests, system
};

struct TreeReport {
  int files = 0;
  std::vector<std::string> violations;
};

// Checks each C and C++ file below root/src and root/include.
TreeReport CheckTree(const LayerTable& table, const std::filesystem::path& root);

}  // namespace forebay::integration
