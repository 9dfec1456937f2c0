// SPDX-License-Identifier: Apache-2.0
#include "layer_check.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>

#include <fmt/format.h>

namespace forebay::integration {
namespace {

std::string_view Trim(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::vector<std::string> Words(std::string_view text) {
  std::istringstream stream{std::string(text)};
  return {std::istream_iterator<std::string>(stream), {}};
}

bool StartsWithAny(std::string_view text, const std::vector<std::string>& prefixes) {
  return std::ranges::any_of(prefixes, [&](const std::string& prefix) { return text.starts_with(prefix); });
}

// "src/rt/task.h" -> "rt"; "include/forebay/client.h" -> "include".
std::string_view FolderOf(std::string_view path) {
  if (path.starts_with("include/")) return "include";
  if (!path.starts_with("src/")) return {};
  path.remove_prefix(4);
  return path.substr(0, path.find('/'));
}

bool IsTestFile(std::string_view path) {
  return path.ends_with("_test.cc") || path.ends_with("_suite.h") || path.ends_with("_suite.cc") ||
         path.ends_with("_fixture.h") || path.ends_with("_fixture.cc");
}

struct Include {
  char open = '"';  // '"', '<', or '?' for one that is computed by a macro
  std::string_view header;
};

std::optional<Include> ParseInclude(std::string_view line) {
  line = Trim(line);
  if (!line.starts_with('#')) return std::nullopt;
  line = Trim(line.substr(1));
  if (!line.starts_with("include")) return std::nullopt;
  line = Trim(line.substr(std::string_view("include").size()));
  if (line.starts_with("_next")) return Include{'?', line};
  if (line.empty() || (line.front() != '"' && line.front() != '<')) return Include{'?', line};
  const char close = line.front() == '<' ? '>' : '"';
  const auto end = line.find(close, 1);
  if (end == std::string_view::npos) return Include{'?', line};
  return Include{line.front(), line.substr(1, end - 1)};
}

}  // namespace

std::expected<LayerTable, std::string> LayerTable::Parse(std::string_view text) {
  LayerTable table;
  std::vector<std::string> above;
  int number = 0;
  std::istringstream stream{std::string(text)};
  for (std::string raw; std::getline(stream, raw);) {
    ++number;
    const std::string_view line = Trim(std::string_view(raw).substr(0, raw.find('#')));
    if (line.empty()) continue;
    if (line.front() == '%') {
      auto words = Words(line.substr(1));
      if (words.size() < 2) return std::unexpected(fmt::format("line {}: `{}` lists nothing", number, line));
      auto& list = table.shared_[words.front()];
      list.insert(list.end(), words.begin() + 1, words.end());
      continue;
    }
    const auto colon = line.find(':');
    const auto semicolon = line.find(';');
    if (colon == std::string_view::npos || semicolon == std::string_view::npos || semicolon < colon) {
      return std::unexpected(fmt::format("line {}: `{}` is not `folder : folders ; headers`", number, line));
    }
    const std::string name(Trim(line.substr(0, colon)));
    Folder folder;
    for (const std::string& target : Words(line.substr(colon + 1, semicolon - colon - 1))) {
      if (target == "*") {
        folder.includes.insert(above.begin(), above.end());
        continue;
      }
      const auto found = table.folders_.find(target);
      if (found == table.folders_.end()) {
        return std::unexpected(
            fmt::format("line {}: `{}` includes `{}`, which stands on no line above", number, name, target));
      }
      folder.includes.insert(target);
      if (found->second.includes.contains("rt")) folder.includes.insert("rt");
    }
    for (const char* vocabulary : {"include", "base"}) {
      if (table.folders_.contains(vocabulary)) folder.includes.insert(vocabulary);
    }
    folder.third_party = Words(line.substr(semicolon + 1));
    if (!table.folders_.emplace(name, std::move(folder)).second) {
      return std::unexpected(fmt::format("line {}: `{}` has a line already", number, name));
    }
    above.push_back(name);
  }
  return table;
}

bool LayerTable::MayInclude(std::string_view folder, std::string_view target) const {
  const auto found = folders_.find(folder);
  return found != folders_.end() && (folder == target || found->second.includes.contains(target));
}

std::string LayerTable::CheckQuoted(std::string_view folder, std::string_view header) const {
  const auto slash = header.find('/');
  if (slash == std::string_view::npos) {
    return fmt::format("\"{}\" is not spelt from src/ or include/", header);
  }
  const Folder& rules = folders_.find(folder)->second;
  if (header.ends_with(".grpc.pb.h") && !StartsWithAny("grpcpp/", rules.third_party)) {
    return fmt::format("`{}` may not use gRPC stubs (\"{}\")", folder, header);
  }
  std::string_view target = header.substr(0, slash);
  if (header.ends_with(".pb.h")) target = "wire";
  if (target == "forebay") target = "include";
  if (!folders_.contains(target)) return fmt::format("\"{}\" is in no folder of the table", header);
  if (!MayInclude(folder, target)) {
    return fmt::format("`{}` may not include `{}` (\"{}\")", folder, target, header);
  }
  return {};
}

std::string LayerTable::CheckAngled(const Folder& folder, std::string_view header, bool is_test) const {
  if (header.find_first_of("./") == std::string_view::npos) return {};  // <vector>
  const auto shared = [&](std::string_view list) {
    const auto found = shared_.find(list);
    return found != shared_.end() && StartsWithAny(header, found->second);
  };
  if (shared("everywhere") || shared("system") || StartsWithAny(header, folder.third_party)) return {};
  if (shared("tests")) {
    return is_test ? std::string()
                   : fmt::format("<{}> belongs in *_test.cc, *_suite.* and *_fixture.* only", header);
  }
  for (const auto& [name, other] : folders_) {
    if (StartsWithAny(header, other.third_party))
      return fmt::format("<{}> belongs in `{}` only", header, name);
  }
  return fmt::format("<{}> is on no line of the table", header);
}

std::vector<std::string> LayerTable::Check(std::string_view path, std::string_view content) const {
  std::vector<std::string> violations;
  const std::string_view folder = FolderOf(path);
  const auto rules = folders_.find(folder);
  if (rules == folders_.end()) {
    return {fmt::format("{}:1: folder `{}` has no line in the table", path, folder)};
  }
  int number = 0;
  std::istringstream stream{std::string(content)};
  for (std::string line; std::getline(stream, line);) {
    ++number;
    const auto include = ParseInclude(line);
    if (!include) continue;
    std::string problem;
    if (include->open == '?') {
      problem = fmt::format("`{}` is an include this check cannot follow", include->header);
    } else if (include->open == '"') {
      problem = CheckQuoted(folder, include->header);
    } else {
      problem = CheckAngled(rules->second, include->header, IsTestFile(path));
    }
    if (!problem.empty()) violations.push_back(fmt::format("{}:{}: {}", path, number, problem));
  }
  return violations;
}

TreeReport CheckTree(const LayerTable& table, const std::filesystem::path& root) {
  static const std::set<std::string, std::less<>> kExtensions = {".h", ".cc", ".c", ".hpp", ".cpp", ".inc"};
  std::vector<std::filesystem::path> files;
  for (const char* top : {"src", "include"}) {
    if (!std::filesystem::is_directory(root / top)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(root / top)) {
      if (entry.is_regular_file() && kExtensions.contains(entry.path().extension().string())) {
        files.push_back(entry.path());
      }
    }
  }
  std::ranges::sort(files);
  TreeReport report;
  for (const auto& file : files) {
    std::ifstream stream(file, std::ios::binary);
    const std::string content{std::istreambuf_iterator<char>(stream), {}};
    auto found = table.Check(file.lexically_relative(root).generic_string(), content);
    std::ranges::move(found, std::back_inserter(report.violations));
    ++report.files;
  }
  return report;
}

}  // namespace forebay::integration
