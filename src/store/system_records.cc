// SPDX-License-Identifier: Apache-2.0
#include "store/system_records.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace forebay::store {
namespace {

rt::Task<Status> WriteValue(ObjectWriter& writer, const Context& context, ByteView value) {
  while (!value.empty()) {
    FB_CO_ASSIGN(base::Buffer buffer, co_await writer.Allocate(context, value.size()));
    size_t take = std::min(buffer.size(), value.size());
    if (take < value.size()) take = base::RoundDown(take, base::Arena::kPage);
    if (take == 0) co_return Status::Internal("the store gave a buffer of {} bytes", buffer.size());
    std::memcpy(buffer.writable().data(), value.data(), take);
    FB_CO_TRY(co_await writer.Write(context, buffer.Slice(0, take)));
    value = value.subspan(take);
  }
  co_return Status();
}

rt::Task<Result<Bytes>> ReadValue(ObjectReader& reader, const Context& context) {
  const ObjectInfo& info = reader.info();
  if (info.size_bytes > SystemRecords::kMaxValueBytes)
    co_return Status::DataLoss("record `{}` has {} bytes; at most {} were ever written: run forebay fsck",
                               info.key, info.size_bytes, SystemRecords::kMaxValueBytes);
  Bytes value;
  value.reserve(info.size_bytes);
  FB_CO_ASSIGN(const ReadData data, co_await reader.Read(context, 0, info.size_bytes));
  for (const base::Buffer& buffer : data.buffers) {
    const ByteView view = buffer.view();
    value.insert(value.end(), view.begin(), view.end());
  }
  co_return value;
}

}  // namespace

rt::Task<Status> SystemRecords::Open(rt::Reactor& reactor) {
  const Context context = MakeContext(reactor);
  const Result<BucketInfo> bucket = co_await store_.GetBucket(context, std::string(kSystemBucket));
  if (bucket.ok() || bucket.status().code() != Code::kNotFound) co_return bucket.status();
  Status made = co_await store_.CreateBucket(context, {.name = std::string(kSystemBucket)});
  if (made.code() == Code::kAlreadyExists) co_return Status();  // another one of this server was first
  co_return made;
}

rt::Task<Result<std::optional<SystemRecords::Record>>> SystemRecords::Get(rt::Reactor& reactor,
                                                                          std::string key) {
  const Context context = MakeContext(reactor);
  const Result<std::unique_ptr<ObjectReader>> reader =
      co_await store_.Open(context, std::string(kSystemBucket), std::move(key), {});
  if (!reader.ok()) {
    if (reader.status().code() == Code::kNotFound) co_return std::optional<Record>();
    co_return reader.status();
  }
  FB_CO_ASSIGN(Bytes value, co_await ReadValue(**reader, context));
  const ObjectInfo& info = (*reader)->info();
  co_return std::optional(Record{.key = info.key, .value = std::move(value), .etag = info.etag});
}

rt::Task<Result<std::string>> SystemRecords::Put(rt::Reactor& reactor, std::string key, Bytes value,
                                                 Condition condition) {
  if (value.size() > kMaxValueBytes)
    co_return Status::InvalidArgument("record `{}` has {} bytes; at most {} are allowed", key, value.size(),
                                      kMaxValueBytes);
  const Context context = MakeContext(reactor);
  PutOptions options{.condition = std::move(condition), .size_bytes = value.size()};
  FB_CO_ASSIGN(const std::unique_ptr<ObjectWriter> writer,
               co_await store_.Put(context, std::string(kSystemBucket), std::move(key), std::move(options)));
  FB_CO_TRY(co_await WriteValue(*writer, context, value));
  FB_CO_ASSIGN(ObjectInfo info, co_await writer->Commit(context, std::nullopt));
  co_return std::move(info.etag);
}

rt::Task<Status> SystemRecords::Delete(rt::Reactor& reactor, std::string key, Condition condition) {
  const Context context = MakeContext(reactor);
  co_return co_await store_.Delete(context, std::string(kSystemBucket), std::move(key), std::move(condition));
}

rt::Task<Result<std::vector<SystemRecords::Record>>> SystemRecords::List(rt::Reactor& reactor,
                                                                         std::string prefix) {
  std::vector<Record> records;
  ListOptions options{.prefix = prefix};
  for (bool more = true; more;) {
    const Context context = MakeContext(reactor);
    FB_CO_ASSIGN(ListPage page, co_await store_.List(context, std::string(kSystemBucket), options));
    if (records.size() + page.objects.size() > kMaxListed)
      co_return Status::ResourceExhausted(
          "there are more than {} records `{}*`, which is the limit: delete some", kMaxListed, prefix);
    for (ObjectInfo& object : page.objects) {
      FB_CO_ASSIGN(std::optional<Record> record, co_await Get(reactor, std::move(object.key)));
      if (record) records.push_back(*std::move(record));  // else it was deleted meanwhile
    }
    more = page.truncated;
    options.start_after = std::move(page.next_start_after);
  }
  co_return records;
}

}  // namespace forebay::store
