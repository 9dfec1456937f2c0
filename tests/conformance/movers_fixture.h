// SPDX-License-Identifier: Apache-2.0
// Every fabric that can be used here, for suites that run over each: the in-process twin, tcp, shm, libfabric
// over sockets, and with an RDMA device (in the guest of scripts/guest, say) those over it. For tests only.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "fabric/memory_fabric.h"
#include "fabric/movers.h"

namespace forebay {

struct FabricChoice {
  std::string name;
  std::string address;  // to listen on
  std::function<std::unique_ptr<fabric::Fabric>(base::Random&)> make;
  friend void PrintTo(const FabricChoice& choice, std::ostream* out) { *out << choice.name; }
  /// The name as a part of a test's name.
  std::string TestName() const {
    std::string text = name;
    std::ranges::replace(text, ';', '_');
    return text;
  }
};

/// One mover with the Movers that own it.
class OwnedMover final : public fabric::Fabric {
 public:
  OwnedMover(base::Random& random, const std::string& name)
      : movers_(random, fabric::Side::kClient), fabric_(*movers_.Find(name)) {}
  std::string_view name() const override { return fabric_.name(); }
  Result<std::unique_ptr<fabric::Listener>> Listen(rt::Reactor& reactor, const std::string& address,
                                                   fabric::EndpointOptions options) override {
    return fabric_.Listen(reactor, address, options);
  }
  rt::Task<Result<std::unique_ptr<fabric::Endpoint>>> Connect(rt::Reactor& reactor, std::string address,
                                                              fabric::EndpointOptions options,
                                                              base::TimePoint deadline) override {
    return fabric_.Connect(reactor, std::move(address), options, deadline);
  }

 private:
  const fabric::Movers movers_;
  fabric::Fabric& fabric_;
};

/// The movers that work here; those over RDMA need a device with an address.
inline std::vector<FabricChoice> UsableMovers() {
  base::SecureRandom random;
  const fabric::Movers movers(random, fabric::Side::kClient);
  std::vector<FabricChoice> choices;
  for (const fabric::MoverKind& kind : fabric::MoverKinds()) {
    const std::string name(kind.name);
    if (movers.Find(name) == nullptr) continue;
    std::string address = "@";
    if (kind.network) address = "127.0.0.1:0";
    if (name == "ofi;verbs" || name == "ucx;rc") {
      const std::vector<std::string>& hosts = movers.HostsOf("ofi;verbs");
      if (hosts.empty()) continue;
      address = hosts.front() + ":0";
    }
    choices.push_back({name, address, [name](base::Random& keys) -> std::unique_ptr<fabric::Fabric> {
                         return std::make_unique<OwnedMover>(keys, name);
                       }});
  }
  return choices;
}

/// The same, and the twin.
inline std::vector<FabricChoice> EachFabric() {
  std::vector<FabricChoice> choices = UsableMovers();
  choices.insert(choices.begin(),
                 {"memory", "anywhere:0", [](base::Random& random) -> std::unique_ptr<fabric::Fabric> {
                    return std::make_unique<fabric::MemoryFabric>(random);
                  }});
  return choices;
}

}  // namespace forebay
