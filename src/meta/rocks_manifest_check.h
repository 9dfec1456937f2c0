// SPDX-License-Identifier: Apache-2.0
// RocksDB's manifest says which tables there are, and RocksDB takes on trust that it goes on to where it stops being
// readable: with a record's length changed it ends early, without a word, and the tables of some families are forgotten. So
// each manifest has a note beside it of how much of it was durable when CURRENT named it, and before RocksDB reads it
// the rest is looked at as the log is (rocks_log_check.h). What a power cut tore after that point RocksDB would refuse; here
// it is not shown. A flush of all families is undone by that as a whole, and the logs it was made of are still there.
// Private to meta. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/status.h"
#include "meta/rocks_log_check.h"

namespace rocksdb {
class FileSystem;
}

namespace forebay::meta {

/// The content of the note `MANIFEST-000007.durable`: that the first `bytes` of the manifest `name` were durable.
std::string EncodeDurableNote(std::string_view name, uint64_t bytes);
/// Nothing when the note is damaged or of another file: it is a second proof, which the store can do without.
std::optional<uint64_t> DecodeDurableNote(std::string_view name, std::string_view note);

/// Where the whole records of a manifest end. DataLoss naming `path` when a record was damaged after it had been written,
/// or when the end is before `durable`.
Result<uint64_t> CheckManifest(const std::string& path, uint64_t file_size, std::optional<uint64_t> durable,
                               const ReadLog& read);

/// `base`, but a manifest opens for reading only after CheckManifest, and ends where its whole records end; and a file
/// becomes CURRENT only after the note of its manifest is durable.
std::shared_ptr<rocksdb::FileSystem> WithManifestCheck(std::shared_ptr<rocksdb::FileSystem> base);

}  // namespace forebay::meta
