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
  uint64_t limit = 0;
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

int RunList(const ListArguments& arguments, const Invocation& invocation) {
  ObjectName name;
  if (!arguments.name.empty()) {
    auto parsed = ObjectName::ParsePrefix(arguments.name);
    if (!parsed.ok()) return RefuseUsage(parsed.status().message());
    name = *std::move(parsed);
  }
  const auto client = invocation.Connect();
  if (!client) return Fail(client.error());
  if (name.bucket.empty()) return ListAllBuckets(**client, arguments, invocation.json);
  return ListObjects(**client, name, arguments, invocation.json);
}

int RunStat(const std::string& text, const Invocation& invocation) {
  const auto name = ObjectName::Parse(text);
  if (!name.ok()) return RefuseUsage(name.status().message());
  const auto client = invocation.Connect();
  if (!client) return Fail(client.error());
  const auto object = (*client)->Stat(name->bucket, name->key);
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
  return kDone;
}

int RunRemove(const std::vector<std::string>& texts, bool force, const Invocation& invocation) {
  std::vector<ObjectName> names;
  for (const std::string& text : texts) {
    auto name = ObjectName::Parse(text);
    if (!name.ok()) return RefuseUsage(name.status().message());
    names.push_back(*std::move(name));
  }
  const auto client = invocation.Connect();
  if (!client) return Fail(client.error());
  int status = kDone;
  for (const ObjectName& name : names) {
    const auto removed = (*client)->Remove(name.bucket, name.key);
    if (!removed && !(force && removed.error().code == Code::kNotFound)) status = Fail(removed.error());
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
  ls->add_option("--limit", list->limit, "At most this many lines (0: all)");
  ls->callback(
      [list, &invocation] { invocation.run = [list, &invocation] { return RunList(*list, invocation); }; });

  auto stat_name = std::make_shared<std::string>();
  CLI::App* stat = root.add_subcommand("stat", "Show what is known of an object");
  stat->add_option("name", *stat_name, "BUCKET/KEY")->required();
  stat->callback([stat_name, &invocation] {
    invocation.run = [stat_name, &invocation] { return RunStat(*stat_name, invocation); };
  });

  auto remove_names = std::make_shared<std::vector<std::string>>();
  auto force = std::make_shared<bool>(false);
  CLI::App* rm = root.add_subcommand("rm", "Delete objects");
  rm->add_option("names", *remove_names, "BUCKET/KEY ...")->required();
  rm->add_flag("-f,--force", *force, "An object that does not exist is no error");
  rm->callback([remove_names, force, &invocation] {
    invocation.run = [remove_names, force, &invocation] {
      return RunRemove(*remove_names, *force, invocation);
    };
  });
}

}  // namespace forebay::app
