// SPDX-License-Identifier: Apache-2.0
// Listings of a tree: the files in it, merged with the keys that are stored under escaped names.
#include <algorithm>
#include <cerrno>

#include "backend/names.h"
#include "backend/tree.h"
#include "backend/tree_cursor.h"
#include "store/checks.h"
#include "store/listing.h"

namespace forebay::backend {
namespace {

/// Both kinds of keys in one order. Where others made a file for a key that has an escaped name too, theirs is the object.
class BucketCursor final : public store::KeyCursor {
 public:
  BucketCursor(const BucketInUse& in, DirectoryCache* cache) : bucket_(*in.bucket), files_(in.tree.get(), cache) {}

  void Seek(std::string_view key) override {
    files_.Seek(key);
    SeekEscaped(key, true);
  }
  void Next() override {
    const std::string now(key());
    if (files_.Valid() && files_.key() == now) files_.Next();
    SeekEscaped(now, false);
  }
  bool Valid() const override { return status().ok() && (files_.Valid() || escaped_); }
  std::string_view key() const override { return IsEscaped() ? std::string_view(*escaped_) : files_.key(); }

  const Status& status() const { return files_.status(); }

 private:
  bool IsEscaped() const { return escaped_ && (!files_.Valid() || *escaped_ < files_.key()); }
  void SeekEscaped(std::string_view key, bool at) {
    const base::MutexLock lock(bucket_.mutex);
    const auto found = at ? bucket_.escaped.lower_bound(key) : bucket_.escaped.upper_bound(key);
    if (found == bucket_.escaped.end()) {
      escaped_.reset();
    } else {
      escaped_ = *found;
    }
  }

  Bucket& bucket_;
  TreeCursor files_;
  std::optional<std::string> escaped_;
};

}  // namespace

Result<store::ListPage> Tree::List(TenantId tenant, const std::string& bucket, const store::ListOptions& options) {
  FB_TRY(store::CheckListOptions(options));
  FB_ASSIGN(const BucketInUse in, Use(tenant, bucket));
  BucketCursor cursor(in, &directories_);
  const auto describe = [&](std::string_view key) -> Result<store::ObjectInfo> {
    FB_ASSIGN(const std::optional<FoundFile> found, Find(in, std::string(key)));
    if (!found) return store::NoSuchObject(bucket, key);  // gone since its directory was read
    return Describe(*found, key, Checksum::kAsKnown);
  };
  FB_ASSIGN(store::ListPage page, store::ListKeys(cursor, options, describe));
  FB_TRY(cursor.status());
  return page;
}

Result<store::VersionPage> Tree::ListVersions(TenantId tenant, const std::string& bucket,
                                              const store::VersionListOptions& options) {
  FB_ASSIGN(const BucketInUse in, Use(tenant, bucket));
  BucketCursor cursor(in, &directories_);
  store::VersionPage page;
  const std::pair after(options.after_key, options.after_version == 0 ? UINT64_MAX : ~options.after_version);
  for (cursor.Seek(std::max(options.prefix, options.after_key)); cursor.Valid(); cursor.Next()) {
    const std::string key(cursor.key());
    if (!key.starts_with(options.prefix)) {
      if (key > options.prefix) break;
      continue;
    }
    FB_ASSIGN(const std::optional<FoundFile> found, Find(in, key));
    if (!found) continue;
    FB_ASSIGN(store::ObjectInfo info, Describe(*found, key, Checksum::kAsKnown));
    if (std::pair(key, ~info.version) <= after) continue;
    page.truncated = page.versions.size() == options.limit;
    if (page.truncated) break;
    page.versions.push_back({.object = std::move(info), .latest = true, .delete_marker = false, .null_version = true});
  }
  FB_TRY(cursor.status());
  return page;
}

}  // namespace forebay::backend
