// SPDX-License-Identifier: Apache-2.0
#include "native/put_stream.h"

#include <utility>

namespace forebay::native {

uint64_t PutStreams::Add(std::unique_ptr<store::ObjectWriter> writer, bool tells_all) {
  const uint64_t handle = next_handle_++;
  auto stream = std::make_unique<PutStream>(reactor_, busy_, std::move(writer), tells_all);
  Touch(handle, *stream);
  streams_.emplace(handle, std::move(stream));
  return handle;
}

PutStream* PutStreams::Find(uint64_t handle) {
  const auto found = streams_.find(handle);
  if (found == streams_.end()) return nullptr;
  Touch(handle, *found->second);
  return found->second.get();
}

std::unique_ptr<PutStream> PutStreams::Take(uint64_t handle) {
  const auto found = streams_.find(handle);
  if (found == streams_.end()) return nullptr;
  std::unique_ptr<PutStream> stream = std::move(found->second);
  streams_.erase(found);
  stream->idle.Cancel();
  return stream;
}

void PutStreams::FailAll(const Status& why) {
  for (const auto& [handle, stream] : streams_) stream->Fail(why);
}

void PutStreams::Touch(uint64_t handle, PutStream& stream) {
  stream.idle.Arm(base::DeadlineAfter(reactor_.Now(), idle_), [this, handle, &stream] {
    if (stream.pieces == 0) {
      Take(handle);
    } else {
      Touch(handle, stream);
    }
  });
}

}  // namespace forebay::native
