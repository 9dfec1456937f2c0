// SPDX-License-Identifier: Apache-2.0
// bucket create, bucket rm, bucket ls.
#include <memory>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "app/exit_status.h"
#include "app/invocation.h"
#include "app/json.h"
#include "base/limits.h"

namespace forebay::app {
namespace {

int RunCreate(const std::string& name, bool if_missing, const Invocation& invocation) {
  if (const Status valid = base::CheckBucketName(name); !valid.ok()) return RefuseUsage(valid.message());
  const auto client = invocation.Connect();
  if (!client) return Fail(client.error());
  const auto created = (*client)->CreateBucket(name);
  if (!created && !(if_missing && created.error().code == Code::kAlreadyExists)) return Fail(created.error());
  if (invocation.json)
    fmt::print("{}\n", ToJson({{"name", name}, {"created", created.has_value()}}));
  else
    fmt::print("{} bucket {}\n", created ? "created" : "kept", name);
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
  CLI::App* bucket = root.add_subcommand("bucket", "Create, list and remove buckets");
  bucket->require_subcommand(1);

  auto name = std::make_shared<std::string>();
  auto if_missing = std::make_shared<bool>(false);
  CLI::App* create =
      bucket->add_subcommand("create", "Create a bucket; what it acknowledges survives power loss");
  create->add_option("name", *name, "3 to 63 of a-z, 0-9, '.', '-'")->required();
  create->add_flag("--if-missing", *if_missing, "A bucket that is there already is no error");
  create->callback([name, if_missing, &invocation] {
    invocation.run = [name, if_missing, &invocation] { return RunCreate(*name, *if_missing, invocation); };
  });

  CLI::App* rm = bucket->add_subcommand("rm", "Remove an empty bucket");
  rm->add_option("name", *name, "The bucket")->required();
  rm->callback([name, &invocation] {
    invocation.run = [name, &invocation] { return RunRemoveBucket(*name, invocation); };
  });

  CLI::App* ls = bucket->add_subcommand("ls", "List the buckets");
  ls->callback([&invocation] { invocation.run = [&invocation] { return RunListBuckets(invocation); }; });
}

}  // namespace forebay::app
