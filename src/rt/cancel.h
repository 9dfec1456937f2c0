// SPDX-License-Identifier: Apache-2.0
// CancelToken: stops a group of operations that run on one reactor. Whoever may have to stop work owns a token and passes
// its address along; operations that carry it end with -ECANCELED, soon, but never before the kernel has let go of their
// buffers. A token once cancelled stays so: operations started later with it end at once.
// Reactor-local. A token outlives each operation and child token that carries it.
#pragma once

#include "base/check.h"

namespace forebay::rt {

class CancelToken;

/// A member of a token's list; whatever can be cancelled derives from it.
class CancelNode {
 public:
  using Function = void (*)(CancelNode&);

  explicit CancelNode(Function on_cancel) : on_cancel_(on_cancel) {}
  CancelNode(const CancelNode&) = delete;
  CancelNode& operator=(const CancelNode&) = delete;
  ~CancelNode() { FB_CHECK(!linked()); }

  bool linked() const { return previous_next_ != nullptr; }
  void Unlink() {
    if (!linked()) return;
    *previous_next_ = next_;
    if (next_ != nullptr) next_->previous_next_ = previous_next_;
    next_ = nullptr;
    previous_next_ = nullptr;
  }

 private:
  friend class CancelToken;
  Function on_cancel_;  // called unlinked, at most once for each linking
  CancelNode* next_ = nullptr;
  CancelNode** previous_next_ = nullptr;
};

class CancelToken : private CancelNode {
 public:
  CancelToken() : CancelNode(&CancelledByParent) {}
  /// A token that is cancelled with `parent` (which may be null) and can be cancelled without it.
  explicit CancelToken(CancelToken* parent) : CancelToken() {
    if (parent != nullptr) parent->Link(*this);
  }
  ~CancelToken() {
    FB_CHECK(first_ == nullptr);
    Unlink();
  }

  bool cancelled() const { return cancelled_; }

  /// Cancels what carries the token, children first started last. Does not suspend: await the operations for their end.
  void Cancel() {
    cancelled_ = true;
    while (CancelNode* node = first_) {
      node->Unlink();
      node->on_cancel_(*node);
    }
  }

  /// For awaitables: adds `node`, or calls it at once when the token is cancelled.
  void Link(CancelNode& node) {
    if (cancelled_) {
      node.on_cancel_(node);
      return;
    }
    node.next_ = first_;
    node.previous_next_ = &first_;
    if (first_ != nullptr) first_->previous_next_ = &node.next_;
    first_ = &node;
  }

 private:
  static void CancelledByParent(CancelNode& self) { static_cast<CancelToken&>(self).Cancel(); }

  CancelNode* first_ = nullptr;
  bool cancelled_ = false;
};

}  // namespace forebay::rt
