// SPDX-License-Identifier: Apache-2.0
// PutStream: a put whose size shows at its end, an overwrite, or a part of an upload, fed by PutData pieces. Pieces are fetched concurrently and
// written in the order of their arrival. PutStreams holds those of one connection, gives up the idle ones,
// and takes all with it. Reactor-local. A stream is destroyed only when no piece of it is in progress.
#pragma once

#include <memory>
#include <unordered_map>

#include "base/clock.h"
#include "rt/sync.h"
#include "rt/timer.h"
#include "store/object_store.h"

namespace forebay::native {

struct PutStream {
  PutStream(rt::Reactor& reactor, rt::WaitGroup& in_progress, std::unique_ptr<store::ObjectWriter> target,
            bool whole_reply)
      : writer(std::move(target)), tells_all(whole_reply), progress(reactor), idle(reactor), busy(in_progress) {
    busy.Add();
  }
  ~PutStream() { busy.Done(); }
  PutStream(const PutStream&) = delete;
  PutStream& operator=(const PutStream&) = delete;

  /// The first failure stays; wakes everyone.
  void Fail(const Status& why) {
    if (status.ok()) status = why;
    Progress();
  }
  void Progress() {
    progress.Set();
    progress.Reset();
  }

  const std::unique_ptr<store::ObjectWriter> writer;
  const bool tells_all;    // its commit is answered with an ObjectReply
  Status status;           // why no more is taken
  uint64_t announced = 0;  // bytes of all pieces that came
  uint64_t written = 0;    // bytes that the store has taken
  bool ragged = false;     // a piece that is no multiple of 4096 came: it must be the last
  size_t pieces = 0;       // in progress
  rt::Event progress;      // pulsed when one of the above changed
  rt::Timer idle;
  rt::WaitGroup& busy;  // borrowed from the server
};

class PutStreams {
 public:
  PutStreams(rt::Reactor& reactor, rt::WaitGroup& busy, base::Duration idle, uint32_t limit)
      : reactor_(reactor), busy_(busy), idle_(idle), limit_(limit) {}

  bool full() const { return streams_.size() >= limit_; }
  /// The handle of the new stream. The caller asked full() since it last suspended.
  uint64_t Add(std::unique_ptr<store::ObjectWriter> writer, bool tells_all);
  /// Null when there is none; otherwise its idle time starts anew.
  PutStream* Find(uint64_t handle);
  /// Takes the stream out, for its end. Null when there is none.
  std::unique_ptr<PutStream> Take(uint64_t handle);
  /// Fails all, so that their pieces end soon.
  void FailAll(const Status& why);
  void Clear() { streams_.clear(); }

 private:
  void Touch(uint64_t handle, PutStream& stream);

  rt::Reactor& reactor_;
  rt::WaitGroup& busy_;  // borrowed from the server
  const base::Duration idle_;
  const uint32_t limit_;
  uint64_t next_handle_ = 1;
  std::unordered_map<uint64_t, std::unique_ptr<PutStream>> streams_;
};

}  // namespace forebay::native
