// SPDX-License-Identifier: Apache-2.0
// RawOfiPeer: a peer on the bare link, without any of the rules that OfiConnection keeps: it says what a test
// wants, writes and reads with whatever key and address a test wants, and remembers what it was told. For
// tests only; used on the test's thread, while the link lives on a reactor thread.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "fabric/fabric_fixture.h"
#include "fabric/ofi_greeting.h"
#include "fabric/ofi_link.h"
#include "rt/gate.h"
#include "rt/sync.h"

namespace forebay::fabric {

class RawOfiPeer final : private OfiLinkSink {
 public:
  /// Many may share a library: to open one takes longer than all the rest of a connection.
  RawOfiPeer(rt::ReactorThread& thread, std::shared_ptr<OfiLibrary> library)
      : thread_(thread),
        domains_(std::move(library), false),
        gate_(thread.reactor()),
        changed_(thread.reactor()) {}
  ~RawOfiPeer() override { Close(); }

  static OfiPreamble GoodPreamble() { return OfiPreambleOf(EndpointOptions(), Role::kConnector); }

  /// Connects with any bytes as its hello.
  Status Dial(const std::string& address, ByteView hello) {
    FB_ASSIGN(const rt::SocketAddress to, rt::SocketAddress::ParseHostPort(address));
    FB_ASSIGN(const InfoHandle info, domains_.library()->ForConnect(to));
    FB_ASSIGN(auto domain, domains_.For(*info));
    FB_ASSIGN(auto link, OfiLink::Open(std::move(domain), *info));
    FB_TRY(link->Connect(hello));
    return thread_.Run([&]() -> rt::Task<Status> {
      FB_CO_ASSIGN(OfiGreeted greeted, co_await FinishDial(thread_.reactor(), std::move(link), address,
                                                           EndpointOptions(), true, kNever));
      link_ = std::move(greeted.link);
      link_->Start(thread_.reactor(), gate_, life_, *this);
      co_return Status();
    });
  }
  Status Dial(const std::string& address) { return Dial(address, EncodeOfiPreamble(GoodPreamble())); }

  /// One libfabric message. False once the connection is gone.
  bool Send(ByteView bytes) {
    return thread_.Run([&]() -> rt::Task<bool> {
      std::optional<uint16_t> slot;
      while (ended_.ok() && !(slot = link_->TakeSlot())) co_await Changed();
      if (!ended_.ok()) co_return false;
      std::copy(bytes.begin(), bytes.end(), link_->slot(*slot).begin());
      co_return link_->Send(*slot, bytes.size(), {}).ok();
    });
  }
  bool Send(OfiFrame frame, ByteView payload = {}) {
    const OfiHeaderBytes header = EncodeOfiFrame(frame);
    Bytes bytes(header.begin(), header.end());
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    return Send(bytes);
  }

  /// The next frame of this type; nothing when the connection ended without one.
  std::optional<OfiFrame> Await(OfiFrameType type) {
    return thread_.Run([&]() -> rt::Task<std::optional<OfiFrame>> {
      while (true) {
        const auto found = std::find_if(frames_.begin(), frames_.end(),
                                        [&](const OfiFrame& frame) { return frame.type == type; });
        if (found != frames_.end()) {
          const OfiFrame frame = *found;
          frames_.erase(found);
          co_return frame;
        }
        if (!ended_.ok()) co_return std::nullopt;
        co_await Changed();
      }
    });
  }

  /// Whatever the rules say. Unavailable when the connection ended with it.
  Status Write(OfiLink::Target target, ByteView data) {
    return thread_.Run(
        [&] { return Transfer(target, {const_cast<std::byte*>(data.data()), data.size()}, true); });
  }
  Status Read(OfiLink::Target target, MutableByteView data) {
    return thread_.Run([&] { return Transfer(target, data, false); });
  }
  /// Writes over and over until it fails.
  std::future<Status> KeepWriting(OfiLink::Target target, ByteView data) {
    return thread_.Submit([this, target, data]() -> rt::Task<Status> {
      while (true)
        FB_CO_TRY(co_await Transfer(target, {const_cast<std::byte*>(data.data()), data.size()}, true));
    });
  }
  static OfiLink::Target At(const OfiFrame& offer, uint64_t offset = 0) {
    return {.address = offer.offset + offset, .key = offer.provider_key};
  }

  Status AwaitEnd() {
    return thread_.Run([&]() -> rt::Task<Status> {
      while (ended_.ok()) co_await Changed();
      co_return ended_;
    });
  }
  void Close() {
    thread_.Run([&]() -> rt::Task<void> {
      EndLink(Status::Unavailable("the test closed it"));
      co_await gate_.Close();
      link_.reset();
    });
  }

 private:
  void OnReceived(ByteView bytes) override {
    const auto received = DecodeOfiFrame(bytes, 1 << 18);
    EXPECT_TRUE(received.ok()) << received.status().ToString();
    if (received.ok()) frames_.push_back(received->frame);
    Tell();
  }
  void OnSent(uint16_t) override { Tell(); }
  void OnTransferred(uint16_t op, const Status& status) override {
    results_[op] = status;
    link_->ReturnOp(op);
    Tell();
  }
  void OnCollected() override {}
  void OnLinkEnded(const Status& reason) override { EndLink(reason); }

  void EndLink(const Status& reason) {
    if (ended_.ok()) ended_ = reason;
    if (link_ != nullptr) link_->Close();
    life_.Cancel();
    Tell();
  }
  void Tell() {
    changed_.Set();
    changed_.Reset();
  }
  rt::Event::Awaiter Changed() { return changed_.Wait(); }

  rt::Task<Status> Transfer(OfiLink::Target target, MutableByteView data, bool write) {
    if (!ended_.ok()) co_return ended_;
    FidHandle<fid_mr> registration;
    if (link_->traits().local_registration) {
      FB_CO_ASSIGN(registration, link_->domain().RegisterForUs(data));
    }
    const std::optional<uint16_t> op = link_->TakeOp();
    if (!op.has_value()) co_return Status::ResourceExhausted("no operation is free");
    results_.erase(*op);
    OfiLink::Pieces pieces;
    pieces.Add(data, DescriptorOf(registration));
    FB_CO_TRY(write ? link_->Write(*op, pieces, target) : link_->Read(*op, pieces, target));
    while (!results_.contains(*op) && ended_.ok()) co_await Changed();
    if (!results_.contains(*op)) co_return ended_;
    co_return results_[*op];
  }

  rt::ReactorThread& thread_;
  OfiDomains domains_;
  rt::Gate gate_;
  rt::CancelToken life_;
  rt::Event changed_;
  std::unique_ptr<OfiLink> link_;
  Status ended_;
  std::vector<OfiFrame> frames_;
  std::map<uint16_t, Status> results_;
};

}  // namespace forebay::fabric
