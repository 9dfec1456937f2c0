// SPDX-License-Identifier: Apache-2.0
// Makes a store directory of a copy: what `forebay backup` and `forebay restore` share. The configuration
// stands under the name store.toml.partial until everything is durable, and only then under its own; so a
// copy that was interrupted is never taken for a store. Thread-safe: a function without state.
#pragma once

#include <string>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/status.h"
#include "engine/copy.h"

namespace forebay::engine {

/// What a copy leaves free: the store may be on the same file system, and fails in worse ways when that is
/// full.
constexpr uint64_t kCopyReserveBytes = 128 * base::kMiB;

/// Copies into `target`, which must not be there, or be empty; the directory above it must be there. The copy
/// is a store of its own with a new id, the same sizes, and one file for each device. Gives the bytes of
/// extents that were copied. Blocks until the end, on a thread outside of reactors; what it made is removed
/// when it fails. AlreadyExists; ResourceExhausted before the file system has less than kCopyReserveBytes
/// free; DataLoss as StoreCopier; what `options.watch` says.
Result<uint64_t> CopyToDirectory(CopySource source, const std::string& target, const base::Clock& clock,
                                 base::Random& random, const CopyOptions& options);

}  // namespace forebay::engine
