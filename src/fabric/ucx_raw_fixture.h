// SPDX-License-Identifier: Apache-2.0
// RawUcxPeer: a peer without manners for tests of the ucx fabric. It has a UcxChannel and no UcxConnection
// behind it: it sends what frames the test likes, keeps what it was offered, and lets its device loose on any
// address with any key. For tests only; used on the test's thread, at work on the thread it is given.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "fabric/ucx_channel.h"
#include "fabric/ucx_context.h"
#include "fabric/ucx_frames.h"
#include "rt/reactor_thread.h"

namespace forebay::fabric {

class RawUcxPeer final : private UcxSink {
 public:
  struct Frame {
    UcxFrame frame;
    Bytes payload;
  };

  RawUcxPeer(rt::ReactorThread& thread, std::shared_ptr<UcxContext> context)
      : thread_(thread), context_(std::move(context)), changed_(thread.reactor()) {}
  ~RawUcxPeer() { Close(); }

  static Bytes Hello(UcxRole role = UcxRole::kConnector) {
    const UcxHelloBytes bytes = EncodeUcxHello({.role = role,
                                                .max_message_bytes = 256 * 1024,
                                                .max_transfer_bytes = 1024 * 1024,
                                                .max_transfers = 1024,
                                                .max_regions = 16});
    return Bytes(bytes.begin(), bytes.end());
  }

  /// Connects and sends `hello` as the first frame; ok when the listener answered with its own.
  Status Dial(const std::string& address, Bytes hello = Hello(), UcxFrameType type = UcxFrameType::kHello) {
    return thread_.Run([&]() -> rt::Task<Status> {
      FB_CO_TRY(Connect(address));
      channel_->Send({.type = type}, std::move(hello), {}, nullptr);
      FB_CO_ASSIGN(const auto answer, co_await channel_->Next({}));
      FB_CO_TRY(DecodeUcxHello(answer.payload, UcxRole::kListener));
      co_await channel_->Pause();
      channel_->Resume(thread_.reactor(), *this);
      co_return Status();
    });
  }
  /// Connects and says nothing.
  Status DialSilently(const std::string& address) {
    return thread_.Run([&]() -> rt::Task<Status> { co_return Connect(address); });
  }
  /// Without a word.
  void Close() {
    thread_.Run([&]() -> rt::Task<void> {
      if (channel_ == nullptr) co_return;
      co_await channel_->Close([this] {
        for (ucp_rkey_h key : keys_) ucp_rkey_destroy(key);
      });
      channel_.reset();
    });
  }

  void Send(UcxFrame frame, Bytes payload = {}) {
    thread_.Run([&]() -> rt::Task<void> {
      channel_->Send(frame, std::move(payload), {}, nullptr);
      co_return;
    });
  }
  /// The next frame of this type; others before it are dropped. Of type kHello when the connection ended
  /// instead.
  Frame Await(UcxFrameType type) {
    return thread_.Run([&]() -> rt::Task<Frame> {
      while (true) {
        while (!frames_.empty()) {
          Frame frame = std::move(frames_.front());
          frames_.pop_front();
          if (frame.frame.type == type) co_return frame;
        }
        if (!broken_.ok()) co_return Frame{{.type = UcxFrameType::kHello}, {}};
        co_await Change();
      }
    });
  }
  /// The reason that the victim gave, if it gave one.
  std::string AwaitEnd() {
    const Frame frame = Await(UcxFrameType::kGoodbye);
    return std::string(AsText(frame.payload));
  }

  /// A key as it came in an OFFER, or any other bytes of that form.
  ucp_rkey_h Unpack(ByteView packed) {
    return thread_.Run([&]() -> rt::Task<ucp_rkey_h> {
      keys_.push_back(*channel_->Unpack(packed));
      co_return keys_.back();
    });
  }
  /// Writes with the device and waits until that is acknowledged, or refused.
  ucs_status_t Put(uint64_t address, Bytes data, ucp_rkey_h key) {
    return thread_.Run([&]() -> rt::Task<ucs_status_t> {
      Done put(*this), flush(*this);
      put.Begin(channel_->Put(data, address, key, put));
      flush.Begin(channel_->Flush(flush));
      while (put.status == UCS_INPROGRESS || flush.status == UCS_INPROGRESS) co_await Change();
      co_return put.status != UCS_OK ? put.status : flush.status;
    });
  }
  ucs_status_t Get(uint64_t address, MutableByteView target, ucp_rkey_h key) {
    return thread_.Run([&]() -> rt::Task<ucs_status_t> {
      Done get(*this);
      get.Begin(channel_->Get(target, address, key, get));
      while (get.status == UCS_INPROGRESS) co_await Change();
      co_return get.status;
    });
  }

 private:
  struct Done final : UcxCompletion {
    explicit Done(RawUcxPeer& owner) : peer(owner) {}
    void Begin(ucs_status_t started) {
      if (started != UCS_INPROGRESS) status = started;
    }
    void OnDone(ucs_status_t result) override {
      status = result;
      peer.changed_.Set();
    }
    RawUcxPeer& peer;
    ucs_status_t status = UCS_INPROGRESS;
  };

  Status Connect(const std::string& address) {
    FB_ASSIGN(const auto parsed, rt::SocketAddress::ParseHostPort(address));
    FB_ASSIGN(channel_, UcxChannel::Dial(context_, thread_.reactor(), parsed));
    return Status();
  }
  void OnFrame(ByteView header, ByteView payload) override {
    const auto frame = DecodeUcxFrame(header, payload.size(), 256 * 1024);
    EXPECT_TRUE(frame.ok()) << frame.status().ToString();
    if (frame.ok()) frames_.push_back({*frame, Bytes(payload.begin(), payload.end())});
    changed_.Set();
  }
  void OnBroken(Status why) override {
    broken_ = std::move(why);
    changed_.Set();
  }
  /// Until something came or ended.
  rt::Task<void> Change() {
    co_await changed_.Wait();
    changed_.Reset();
  }

  rt::ReactorThread& thread_;
  std::shared_ptr<UcxContext> context_;
  std::unique_ptr<UcxChannel> channel_;
  std::vector<ucp_rkey_h> keys_;
  std::deque<Frame> frames_;
  Status broken_;
  rt::Event changed_;  // something came or ended since it was looked at
};

}  // namespace forebay::fabric
