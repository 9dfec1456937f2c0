// SPDX-License-Identifier: Apache-2.0
#include "fabric/ofi_send_queue.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "fabric/limits.h"

namespace forebay::fabric {

void OfiSendQueue::PushMessage(Bytes head, std::vector<base::Buffer> payload, rt::Event* sent) {
  auto message = std::make_unique<Message>();
  message->size = head.size() + TotalSize(payload);
  message->head = std::move(head);
  message->payload = std::move(payload);
  message->sent = sent;
  messages_.push_back(std::move(message));
}

OfiSendQueue::Packet OfiSendQueue::Next(uint16_t slot, MutableByteView memory, size_t max_pieces) {
  Packet packet;
  packet.size = kOfiHeaderBytes;
  if (!control_.empty()) {
    packet.frame = control_.front();
    control_.pop_front();
    under_way_[slot] = nullptr;
    return packet;
  }
  Message& message = *messages_[next_message_];
  packet.frame = {.type = OfiFrameType::kMessage, .offset = message.given, .length = message.size};
  FillSlot(message, memory, max_pieces, packet);
  message.given += packet.size - kOfiHeaderBytes + packet.more.bytes;
  ++message.under_way;
  under_way_[slot] = &message;
  if (message.given == message.size) ++next_message_;
  return packet;
}

void OfiSendQueue::FillSlot(Message& message, MutableByteView memory, size_t max_pieces, Packet& packet) {
  size_t room = memory.size() - kOfiHeaderBytes;
  const auto copy = [&](ByteView bytes) {
    std::memcpy(memory.data() + packet.size, bytes.data(), bytes.size());
    packet.size += bytes.size();
    room -= bytes.size();
  };
  if (message.given < message.head.size()) {
    copy(ByteView(message.head).subspan(message.given, std::min(room, message.head.size() - message.given)));
    if (message.given + packet.size - kOfiHeaderBytes < message.head.size()) return;
  }
  while (room > 0 && message.buffer < message.payload.size()) {
    const ByteView rest = message.payload[message.buffer].view().subspan(message.buffer_given);
    const ByteView bytes = rest.first(std::min(room, rest.size()));
    if (!bytes.empty()) {
      const Placement placement = max_pieces == 0 ? Placement{} : place_(bytes);
      if (placement.in_place) {
        if (packet.more.count == max_pieces) return;
        packet.more.Add(bytes, placement.descriptor);
        room -= bytes.size();
      } else {
        if (packet.more.count != 0) return;  // the slot's bytes go before the pieces
        copied_ += bytes.size();
        copy(bytes);
      }
    }
    message.buffer_given += bytes.size();
    if (bytes.size() < rest.size()) return;
    ++message.buffer;
    message.buffer_given = 0;
  }
}

void OfiSendQueue::Sent(uint16_t slot) {
  Message* message = std::exchange(under_way_[slot], nullptr);
  if (message == nullptr) return;
  --message->under_way;
  while (!messages_.empty() && messages_.front()->given == messages_.front()->size &&
         messages_.front()->under_way == 0 && next_message_ > 0) {
    EndFront();
  }
}

void OfiSendQueue::EndFront() {
  messages_.front()->sent->Set();
  messages_.pop_front();
  --next_message_;
}

void OfiSendQueue::Clear() {
  control_.clear();
  for (const auto& message : messages_) message->sent->Set();
  messages_.clear();
  next_message_ = 0;
  std::fill(under_way_.begin(), under_way_.end(), nullptr);
}

}  // namespace forebay::fabric
