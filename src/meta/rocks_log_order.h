// SPDX-License-Identifier: Apache-2.0
// Keeps the logs of RocksDB what they are while each write is synced, now that some are not: one history, of which a power
// cut takes the end. Two things would break that. RocksDB goes on in a new log without having synced the old one, so that
// the old one's end could be lost and the new one's beginning not; here the old one is synced before the new one is made.
// And it skips a page of zeros in a log and goes on behind it, which a power cut can leave where several records were not
// synced; here a log that is read ends where its whole records end. That this is not too early is what the witness proves.
// Private to meta. Thread-safe.
#pragma once

#include <memory>

namespace rocksdb {
class FileSystem;
}

namespace forebay::meta {

std::shared_ptr<rocksdb::FileSystem> WithLogOrder(std::shared_ptr<rocksdb::FileSystem> base);

}  // namespace forebay::meta
