// SPDX-License-Identifier: Apache-2.0
// ls, stat, rm: the namespace, without moving bytes.
#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/exit_status.h"
#include "app/invocation.h"
#include "app/json.h"
#include "app/object_name.h"
#include "base/bytes.h"

namespace forebay::app {
namespace {

struct ListArguments {
  std::string name;
  bool recursive = false;
  bool long_form = false;
  bool versions = false;
  uint64_t limit = 0;
};

struct VersionArguments {
  std::vector<std::string> names;
  uint64_t version = 0;
  bool force = false;
};

void PrintBucket(const BucketInfo& bucket, bool json, bool long_form) {
  if (json) {
    fmt::print("{}\n", ToJson(bucket));
  } else if (long_form) {
    fmt::print("{}  {:>10}  {}/\n", FormatTime(bucket.created),
               bucket.bucket_class == BucketClass::kCache ? "cache" : "durable", bucket.name);
  } else {
    fmt::print("{}/\n", bucket.name);
  }
}

void PrintObject(const ObjectInfo& object, bool json, bool long_form) {
  if (json) {
    fmt::print("{}\n", ToJson(object));
  } else if (long_form) {
    fmt::print("{}  {:>10}  {}\n", FormatTime(object.modified), base::FormatSize(object.size), object.key);
  } else {
    fmt::print("{}\n", object.key);
  }
}

int ListAllBuckets(Client& client, const ListArguments& arguments, bool json) {
  const auto buckets = client.ListBuckets();
  if (!buckets) return Fail(buckets.error());
  for (const BucketInfo& bucket : *buckets) PrintBucket(bucket, json, arguments.long_form);
  return kDone;
}

/// Prints objects and rolled-up prefixes of one page in the order of their bytes.
uint64_t PrintPage(const ListPage& page, bool json, bool long_form) {
  size_t object = 0;
  size_t prefix = 0;
  while (object < page.objects.size() || prefix < page.common_prefixes.size()) {
    const bool take_prefix =
        object == page.objects.size() ||
        (prefix < page.common_prefixes.size() && page.common_prefixes[prefix] < page.objects[object].key);
    if (!take_prefix) {
      PrintObject(page.objects[object++], json, long_form);
    } else if (json) {
      fmt::print("{}\n", ToJson({{"prefix", page.common_prefixes[prefix++]}}));
    } else {
      fmt::print("{}{}\n", long_form ? "                                  " : "",
                 page.common_prefixes[prefix++]);
    }
  }
  return page.objects.size() + page.common_prefixes.size();
}

int ListObjects(Client& client, const ObjectName& name, const ListArguments& arguments, bool json) {
  ListOptions options;
  options.prefix = name.key;
  options.delimiter = arguments.recursive ? "" : "/";
  uint64_t left = arguments.limit == 0 ? UINT64_MAX : arguments.limit;
  while (left > 0) {
    options.limit = static_cast<uint32_t>(std::min<uint64_t>(left, base::kMaxListPage));
    const auto page = client.List(name.bucket, options);
    if (!page) return Fail(page.error());
    left -= std::min(left, PrintPage(*page, json, arguments.long_form));
    if (!page->truncated) break;
    options.start_after = page->next_start_after;
  }
  return kDone;
}

void PrintVersion(const VersionInfo& version, bool json, bool long_form) {
  const ObjectInfo& object = version.object;
  if (json) {
    fmt::print("{}\n", ToJson(version));
    return;
  }
  const std::string_view mark = version.delete_marker ? "deleted" : version.latest ? "current" : "";
  if (long_form)
    fmt::print("{}  {:>10}  ", FormatTime(object.modified),
               version.delete_marker ? std::string("-") : base::FormatSize(object.size));
  fmt::print("{:<20}  {:<7}  {}\n", object.version, mark, object.key);
}

/// Every version of every key, those of one key newest first.
int ListAllVersions(Client& client, const ObjectName& name, const ListArguments& arguments, bool json) {
  VersionListOptions options{.prefix = name.key};
  uint64_t left = arguments.limit == 0 ? UINT64_MAX : arguments.limit;
  while (left > 0) {
    options.limit = static_cast<uint32_t>(std::min<uint64_t>(left, base::kMaxListPage));
    const auto page = client.ListVersions(name.bucket, options);
    if (!page) return Fail(page.error());
    for (const VersionInfo& version : page->versions) PrintVersion(version, json, arguments.long_form);
    left -= std::min<uint64_t>(left, page->versions.size());
    if (!page->truncated || page->versions.empty()) break;
    options.after_key = page->versions.back().object.key;
    options.after_version = page->versions.back().object.version;
  }
  return kDone;
}

int RunList(const ListArguments& arguments, const Invocation& invocation) {
  ObjectName name;
  if (!arguments.name.empty()) {
    auto parsed = ObjectName::ParsePrefix(arguments.name);
    if (!parsed.ok()) return RefuseUsage(parsed.status().message());
    name = *std::move(parsed);
  }
  if (arguments.versions && name.bucket.empty()) return RefuseUsage("--versions is of one bucket: name it");
  const auto client = invocation.Connect();
  if (!client) return Fail(client.error());
  if (arguments.versions) return ListAllVersions(**client, name, arguments, invocation.json);
  if (name.bucket.empty()) return ListAllBuckets(**client, arguments, invocation.json);
  return ListObjects(**client, name, arguments, invocation.json);
}

/// The object, or the version of it.
std::expected<ObjectInfo, Error> Describe(Client& client, const ObjectName& name, uint64_t version) {
  if (version == 0) return client.Stat(name.bucket, name.key);
  auto found = client.StatVersion(name.bucket, name.key, version);
  if (!found) return std::unexpected(std::move(found).error());
  if (found->delete_marker)
    return std::unexpected(Error{
        Code::kNotFound, fmt::format("version {} of `{}/{}` is a delete marker: it has no content", version, name.bucket, name.key)});
  return std::move(found->object);
}

int RunStat(const VersionArguments& arguments, const Invocation& invocation) {
  const auto name = ObjectName::Parse(arguments.names.front());
  if (!name.ok()) return RefuseUsage(name.status().message());
  const auto client = invocation.Connect();
  if (!client) return Fail(client.error());
  const auto object = Describe(**client, *name, arguments.version);
  if (!object) return Fail(object.error());
  if (invocation.json) {
    fmt::print("{}\n", ToJson(*object));
    return kDone;
  }
  fmt::print(
      "object    {}/{}\nsize      {} bytes ({})\nversion   {}\netag      {}\ncrc32c    {}\nmodified  {}\n",
      name->bucket, object->key, object->size, base::FormatSize(object->size), object->version, object->etag,
      FormatChecksum(object->crc32c), FormatTime(object->modified));
  for (const auto& [key, value] : object->metadata) fmt::print("metadata  {}: {}\n", key, value);
  for (const auto& [key, value] : object->attributes) fmt::print("attribute {}: {}\n", key, value);
  return kDone;
}

int RunRemove(const VersionArguments& arguments, const Invocation& invocation) {
  if (arguments.version != 0 && arguments.names.size() != 1) return RefuseUsage("--version is of one object: name one");
  std::vector<ObjectName> names;
  for (const std::string& text : arguments.names) {
    auto name = ObjectName::Parse(text);
    if (!name.ok()) return RefuseUsage(name.status().message());
    names.push_back(*std::move(name));
  }
  const auto client = invocation.Connect();
  if (!client) return Fail(client.error());
  int status = kDone;
  for (const ObjectName& name : names) {
    const auto removed = arguments.version == 0
                             ? (*client)->Remove(name.bucket, name.key)
                             : (*client)->RemoveVersion(name.bucket, name.key, arguments.version);
    if (!removed && !(arguments.force && removed.error().code == Code::kNotFound)) status = Fail(removed.error());
  }
  return status;
}

}  // namespace

void AddNamespaceCommands(CLI::App& root, Invocation& invocation) {
  auto list = std::make_shared<ListArguments>();
  CLI::App* ls = root.add_subcommand("ls", "List buckets, or the objects of one");
  ls->add_option("name", list->name, "BUCKET, BUCKET/PREFIX; without it all buckets");
  ls->add_flag("-r,--recursive", list->recursive, "Show every key instead of rolling up at `/`");
  ls->add_flag("-l,--long", list->long_form, "With time and size");
  ls->add_flag("--versions", list->versions, "Every version of every key, newest first: its number, what it is, its key");
  ls->add_option("--limit", list->limit, "At most this many lines (0: all)");
  ls->callback(
      [list, &invocation] { invocation.run = [list, &invocation] { return RunList(*list, invocation); }; });

  auto described = std::make_shared<VersionArguments>();
  CLI::App* stat = root.add_subcommand("stat", "Show what is known of an object");
  stat->add_option("name", described->names, "BUCKET/KEY")->required()->expected(1);
  stat->add_option("--version", described->version, "Of this version (default: the current one)");
  stat->callback([described, &invocation] {
    invocation.run = [described, &invocation] { return RunStat(*described, invocation); };
  });

  auto removed = std::make_shared<VersionArguments>();
  CLI::App* rm = root.add_subcommand("rm", "Delete objects");
  rm->add_option("names", removed->names, "BUCKET/KEY ...")->required();
  rm->add_flag("-f,--force", removed->force, "An object that does not exist is no error");
  rm->add_option("--version", removed->version,
                 "Take this version of the one object named, or this delete marker, away for good");
  rm->callback([removed, &invocation] {
    invocation.run = [removed, &invocation] { return RunRemove(*removed, invocation); };
  });
}

}  // namespace forebay::app
