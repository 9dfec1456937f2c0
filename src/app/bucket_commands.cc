// SPDX-License-Identifier: Apache-2.0
// bucket create, bucket set, bucket rm, bucket ls.
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/control_connection.h"
#include "app/duration.h"
#include "app/exit_status.h"
#include "app/invocation.h"
#include "app/json.h"
#include "base/limits.h"

namespace forebay::app {
namespace {

struct CreateArguments {
  std::string name;
  std::string tenant;
  std::string bucket_class = "durable";
  std::string ttl;
  bool if_missing = false;
};

Status Create(const CreateArguments& arguments, const Invocation& invocation) {
  FB_ASSIGN(const std::unique_ptr<ControlConnection> connection, ControlConnection::Open(invocation));
  const bool cache = arguments.bucket_class == "cache";
  // Without an operation id: it is sent once.
  return connection->client().CreateBucket(arguments.name, cache ? store::BucketClass::kCache : store::BucketClass::kDurable,
                                           OperationId{}, {}, arguments.tenant, store::Versioning::kOff,
                                           arguments.ttl.empty() ? std::chrono::milliseconds() : *ParseDuration(arguments.ttl));
}

int RunCreate(const CreateArguments& arguments, const Invocation& invocation) {
  const std::string& name = arguments.name;
  if (const Status valid = base::CheckBucketName(name); !valid.ok()) return RefuseUsage(valid.message());
  if (!arguments.ttl.empty() && !ParseDuration(arguments.ttl))
    return RefuseUsage(fmt::format("--ttl {}: give a number and a unit, such as 60s, 15m, 24h or 7d", arguments.ttl));
  if (!arguments.ttl.empty() && arguments.bucket_class != "cache")
    return RefuseUsage("--ttl is for cache buckets: give --class cache too");
  const Status created = Create(arguments, invocation);
  if (!created.ok() && !(arguments.if_missing && created.code() == Code::kAlreadyExists))
    return Fail(created.message());
  if (invocation.json)
    fmt::print("{}\n", ToJson({{"name", name}, {"created", created.ok()}}));
  else
    fmt::print("{} bucket {}\n", created.ok() ? "created" : "kept", name);
  return kDone;
}

struct SetArguments {
  std::string name;
  std::string versioning;
};

int RunSet(const SetArguments& arguments, const Invocation& invocation) {
  if (arguments.versioning != "on" && arguments.versioning != "suspended")
    return RefuseUsage("--versioning is on or suspended; what was on is never off again");
  const Versioning versioning = arguments.versioning == "on" ? Versioning::kOn : Versioning::kSuspended;
  const auto client = invocation.Connect();
  if (!client) return Fail(client.error());
  const auto set = (*client)->SetVersioning(arguments.name, versioning);
  if (!set) return Fail(set.error());
  const auto bucket = (*client)->GetBucket(arguments.name);
  if (!bucket) return Fail(bucket.error());
  if (invocation.json)
    fmt::print("{}\n", ToJson(*bucket));
  else
    fmt::print("bucket {}: versioning {}\n", arguments.name, VersioningName(bucket->versioning));
  return kDone;
}

int RunRemoveBucket(const std::string& name, const Invocation& invocation) {
  const auto client = invocation.Connect();
  if (!client) return Fail(client.error());
  const auto removed = (*client)->DeleteBucket(name);
  if (!removed) return Fail(removed.error());
  return kDone;
}

int RunListBuckets(const Invocation& invocation) {
  const auto client = invocation.Connect();
  if (!client) return Fail(client.error());
  const auto buckets = (*client)->ListBuckets();
  if (!buckets) return Fail(buckets.error());
  for (const BucketInfo& bucket : *buckets) {
    if (invocation.json)
      fmt::print("{}\n", ToJson(bucket));
    else
      fmt::print("{}\n", bucket.name);
  }
  return kDone;
}

}  // namespace

void AddBucketCommands(CLI::App& root, Invocation& invocation) {
  CLI::App* bucket = root.add_subcommand("bucket", "Create, set, list and remove buckets");
  bucket->require_subcommand(1);

  auto arguments = std::make_shared<CreateArguments>();
  CLI::App* create =
      bucket->add_subcommand("create", "Create a bucket; what it acknowledges survives power loss, unless it is a cache");
  create->add_option("name", arguments->name, "3 to 63 of a-z, 0-9, '.', '-'")->required();
  create->add_option("--tenant", arguments->tenant, "That owns it, by name or number (default: your own)");
  create->add_option("--class", arguments->bucket_class,
                     "durable, or cache: an object is there and right, or gone; the store evicts the oldest for room")
      ->check(CLI::IsMember({"durable", "cache"}))
      ->capture_default_str();
  create->add_option("--ttl", arguments->ttl, "Of a cache: objects expire so long after they were put (60s, 15m, 24h, 7d)");
  create->add_flag("--if-missing", arguments->if_missing, "A bucket that is there already is no error");
  create->callback([arguments, &invocation] {
    invocation.run = [arguments, &invocation] { return RunCreate(*arguments, invocation); };
  });

  auto settings = std::make_shared<SetArguments>();
  CLI::App* set = bucket->add_subcommand("set", "Change what a bucket does with objects that are put over or deleted");
  set->add_option("name", settings->name, "The bucket")->required();
  set->add_option("--versioning", settings->versioning,
                  "on: keep them as versions (`forebay ls --versions`); suspended: keep no more, and what is there stays")
      ->required();
  set->callback([settings, &invocation] {
    invocation.run = [settings, &invocation] { return RunSet(*settings, invocation); };
  });

  auto name = std::make_shared<std::string>();
  CLI::App* rm = bucket->add_subcommand("rm", "Remove an empty bucket");
  rm->add_option("name", *name, "The bucket")->required();
  rm->callback([name, &invocation] {
    invocation.run = [name, &invocation] { return RunRemoveBucket(*name, invocation); };
  });

  CLI::App* ls = bucket->add_subcommand("ls", "List the buckets");
  ls->callback([&invocation] { invocation.run = [&invocation] { return RunListBuckets(invocation); }; });
}

}  // namespace forebay::app
