// SPDX-License-Identifier: Apache-2.0
#include "rt/frame_memory.h"

#include <cstdint>
#include <new>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define FB_FRAMES_FROM_HEAP 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define FB_FRAMES_FROM_HEAP 1
#endif

namespace forebay::rt {

#if defined(FB_FRAMES_FROM_HEAP)

void* AllocateFrame(size_t size) { return ::operator new(size); }
void FreeFrame(void* frame, size_t size) noexcept { ::operator delete(frame, size); }

#else

namespace {

constexpr size_t kStep = 64;
constexpr size_t kClasses = 32;               // up to 2 KiB; larger frames are rare
constexpr size_t kBytesPerClass = 64 * 1024;  // what a thread keeps of one class at most

struct FreeFrameNode {
  FreeFrameNode* next;
};

// Trivial, so that it is still usable while a thread's other thread-local objects are being destroyed.
struct FreeLists {
  FreeFrameNode* first[kClasses];
  uint32_t count[kClasses];
  bool closed;
  bool has_closer;
};
thread_local FreeLists lists;

size_t ClassOf(size_t size) { return (size + kStep - 1) / kStep - 1; }
size_t SizeOf(size_t index) { return (index + 1) * kStep; }

// Gives the lists back to the heap at the end of the thread.
struct Closer {
  ~Closer() {
    lists.closed = true;
    for (size_t index = 0; index < kClasses; ++index) {
      while (FreeFrameNode* node = lists.first[index]) {
        lists.first[index] = node->next;
        ::operator delete(node, SizeOf(index));
      }
    }
  }
};

void EnsureCloser() {
  thread_local Closer closer;
  lists.has_closer = true;
}

}  // namespace

void* AllocateFrame(size_t size) {
  const size_t index = ClassOf(size);
  if (index >= kClasses) return ::operator new(size);
  FreeFrameNode* node = lists.first[index];
  if (node == nullptr) return ::operator new(SizeOf(index));
  lists.first[index] = node->next;
  --lists.count[index];
  return node;
}

void FreeFrame(void* frame, size_t size) noexcept {
  const size_t index = ClassOf(size);
  if (index >= kClasses) {
    ::operator delete(frame, size);
    return;
  }
  if (lists.closed || lists.count[index] >= kBytesPerClass / SizeOf(index)) {
    ::operator delete(frame, SizeOf(index));
    return;
  }
  if (!lists.has_closer) EnsureCloser();
  lists.first[index] = ::new (frame) FreeFrameNode{lists.first[index]};
  ++lists.count[index];
}

#endif

}  // namespace forebay::rt
