// SPDX-License-Identifier: Apache-2.0
// The nth operation of the devices goes wrong, for every n of eight scenarios and every way to go wrong. What was acknowledged
// is there and right, now and after a restart; nothing is there by half; no wrong byte is served; a store whose flush failed
// is read-only and says so.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "client.h"
#include "device/faulty_device.h"
#include "inspector.h"
#include "lab.h"
#include "oracle.h"
#include "rt/when_all.h"
#include "scale.h"

namespace forebay::crash {
namespace {

using device::Fault;
using device::FaultKind;
using device::FaultOn;

/// One store, with a plan of faults, and the operations that scenarios are made of.
class Session {
 public:
  explicit Session(size_t devices, bool failed_flush_drops)
      : lab_({.directory = Lab::ScratchDirectory("faults"),
              .devices = devices,
              .device_bytes = 8 * base::kMiB,
              .tier_bytes = 0,
              .settle = std::chrono::hours(1),
              .faults = &plan_,
              .failed_flush_drops = failed_flush_drops,
              .memory_metadata = true}) {}

  /// A store with some objects, closed.
  void Make() {
    ASSERT_TRUE(lab_.Make().ok());
    ASSERT_TRUE(lab_.Open().ok());
    Put("there/large", 300'000);
    Put("there/small", 4097);
    Put("there/inline", 100);
    lab_.Close();
    for (const FaultOn on : {FaultOn::kRead, FaultOn::kWrite, FaultOn::kFlush})
      before_[static_cast<size_t>(on)] = plan_.operations(on);
  }
  /// From Make on, the nth operation of its kind goes wrong.
  void Inject(Fault fault) {
    fault.nth += before_[static_cast<size_t>(fault.on)];
    plan_.Add(fault);
  }
  uint64_t operations(FaultOn on) const { return plan_.operations(on) - before_[static_cast<size_t>(on)]; }

  void Put(const std::string& key, uint64_t size, store::Condition condition = {}) {
    const bool was_healthy = Healthy();
    const uint64_t hits = plan_.hits();
    const Status status = lab_.Run(PutTask(key, size, std::move(condition)));
    Judge("put of " + key, status, was_healthy, hits);
  }
  /// At once.
  void PutAll(const std::vector<std::pair<std::string, uint64_t>>& objects) {
    std::vector<rt::Task<Status>> puts;
    for (const auto& [key, size] : objects) puts.push_back(PutTask(key, size, {}));
    (void)lab_.Run(rt::WhenAll(std::move(puts)));
  }
  void Delete(const std::string& key) {
    const bool was_healthy = Healthy();
    const uint64_t hits = plan_.hits();
    const store::Context context = lab_.context();
    const uint64_t operation = oracle_.BeginDelete(key);
    const Status status = lab_.Run(lab_.engine().Delete(context, Lab::kBucket, key, {}));
    if (status.ok()) oracle_.Acknowledged(operation);
    Judge("delete of " + key, status, was_healthy, hits);
  }
  void Get(const std::string& key) { (void)inspector_.IsRight(key, "while the store works"); }
  void GiveUp(const std::string& key) {
    const store::Context context = lab_.context();
    (void)lab_.Run([&]() -> rt::Task<Status> {
      FB_CO_ASSIGN(const auto writer, co_await lab_.engine().Put(context, Lab::kBucket, key, {}));
      FB_CO_ASSIGN(base::Buffer buffer, co_await writer->Allocate(context, 512 * base::kKiB));
      std::ranges::fill(buffer.writable(), std::byte{0xee});
      co_return co_await writer->Write(context, std::move(buffer));
    }());
  }

  bool Healthy() { return lab_.engine().health().ok(); }
  Lab& lab() { return lab_; }
  Oracle& oracle() { return oracle_; }
  Inspector& inspector() { return inspector_; }
  device::FaultPlan& plan() { return plan_; }
  /// A flush that fails ends writing; for a fault that nobody is told of, there is nothing to judge.
  bool judge_flushes = false;

 private:
  rt::Task<Status> PutTask(std::string key, uint64_t size, store::Condition condition) {
    const uint64_t generation = oracle_.BeginPut(key, size);
    store::PutOptions options{.condition = std::move(condition)};
    options.metadata[kGenerationName] = std::to_string(generation);
    bool committing = false;
    const Result<store::ObjectInfo> info = co_await PutObject(lab_, key, oracle_.Content(generation), std::move(options),
                                                              std::nullopt, &committing);
    if (info.ok()) {
      oracle_.Acknowledged(generation, info->etag);
    } else if (!committing) {
      oracle_.HadNoEffect(generation);
    }
    co_return info.status();
  }

  void Judge(const std::string& what, const Status& status, bool was_healthy, uint64_t hits_before) {
    if (!was_healthy) {
      EXPECT_EQ(status.code(), Code::kFailedPrecondition) << what << " in a read-only store: " << status.ToString();
      EXPECT_NE(status.message().find("read-only"), std::string_view::npos) << status.ToString();
      EXPECT_NE(status.message().find("restart"), std::string_view::npos) << "the way out: " << status.ToString();
    }
    if (!judge_flushes || plan_.hits() == hits_before) return;
    EXPECT_FALSE(status.ok()) << what << " was acknowledged though its flush failed";
    EXPECT_FALSE(Healthy()) << what << ": the flush failed and the store is writable";
  }

  device::FaultPlan plan_;
  Lab lab_;
  Oracle oracle_{1};
  Inspector inspector_{lab_, oracle_};
  std::array<uint64_t, 3> before_{};
};

struct Scenario {
  const char* name;
  size_t devices;
  std::function<void(Session&)> body;
};

const std::vector<Scenario>& Scenarios() {
  static const std::vector<Scenario> scenarios = {
      {"SmallPuts", 1,
       [](Session& s) {
         s.Put("a", 10);
         s.Put("b", 4096);
         s.Put("c", 0);
       }},
      {"ALargePut", 1, [](Session& s) { s.Put("large", 4 * base::kMiB + 1); }},
      {"Overwrites", 1,
       [](Session& s) {
         s.Put("there/large", 200'000);
         s.Put("there/small", 5);
         s.Put("there/inline", 70'000);
         s.Get("there/large");
       }},
      {"DeletesAndWhatTakesTheirPlace", 1,
       [](Session& s) {
         s.Delete("there/large");
         s.Put("next", 290'000);
         s.Delete("there/small");
         s.Put("there/small", 4098);
       }},
      {"Reads", 1,
       [](Session& s) {
         s.Get("there/large");
         s.Get("there/small");
         s.Get("there/inline");
         s.Put("there/small", 4099);
         s.Get("there/small");
       }},
      {"ManyAtOnce", 1,
       [](Session& s) {
         s.PutAll({{"a", 20'000}, {"b", 100}, {"c", base::kMiB}, {"there/large", 70'000}, {"d", 4097}});
         s.Delete("there/small");
       }},
      {"TwoDevices", 2,
       [](Session& s) {
         s.PutAll({{"a", base::kMiB + 1}, {"b", 65'537}, {"c", 4096}, {"d", 300'000}});
         s.Delete("there/large");
         s.Get("a");
       }},
      {"ConditionsAndPutsThatAreGivenUp", 1,
       [](Session& s) {
         s.Put("there/small", 1, store::Condition::IfAbsent());
         s.GiveUp("there/large");
         s.Put("new", 6000, store::Condition::IfAbsent());
         s.Put("new", 7000, store::Condition::IfMatch("another"));
       }},
  };
  return scenarios;
}

class IoErrorTest : public testing::TestWithParam<size_t> {
 protected:
  const Scenario& scenario() const { return Scenarios()[GetParam()]; }

  /// How many operations of each kind the scenario has, with the openings around it.
  std::array<uint64_t, 3> Count() {
    Session session(scenario().devices, false);
    session.Make();
    EXPECT_TRUE(session.lab().Open().ok());
    scenario().body(session);
    session.lab().Close();
    return {session.operations(FaultOn::kRead), session.operations(FaultOn::kWrite), session.operations(FaultOn::kFlush)};
  }

  /// The scenario with the fault, then a restart without: by a power cut half of the time.
  void RunWith(const Fault& fault, bool failed_flush_drops, const std::string& what) {
    SCOPED_TRACE(what);
    Session session(scenario().devices, failed_flush_drops);
    session.Make();
    session.judge_flushes = fault.on == FaultOn::kFlush;
    session.Inject(fault);
    const Status opened = session.lab().Open();
    if (opened.ok()) {
      scenario().body(session);
    } else {
      EXPECT_NE(opened.message().find("disk"), std::string_view::npos) << "which device? " << opened.ToString();
    }
    base::SeededRandom random(fault.nth);
    if (random.Below(2) == 0) session.lab().Close();  // which has operations, too
    session.plan().Clear();
    ++runs_;
    hits_ += session.plan().hits();
    if (session.lab().is_open()) {
      ASSERT_TRUE(session.lab().Crash(random).ok());
    }
    const Status again = session.lab().Open();
    ASSERT_TRUE(again.ok()) << again.ToString();
    std::vector<std::string> violations;
    const Contents contents = CheckContents(session.lab(), session.oracle(), 2, violations);
    for (const std::string& violation : violations) ADD_FAILURE() << violation;
    SettleContents(contents, session.oracle());
    session.Put("afterwards", 9000);
    EXPECT_TRUE(session.Healthy());
    session.lab().Close();
    const Result<engine::FsckReport> report = session.lab().Fsck();
    ASSERT_TRUE(report.ok()) << report.status().ToString();
    for (const std::string& error : report->errors) ADD_FAILURE() << "fsck: " << error;
  }

  /// Every index of one kind of operation.
  void RunAll(Fault fault, bool failed_flush_drops, const char* what) {
    const uint64_t count = Count()[static_cast<size_t>(fault.on)];
    EXPECT_GT(count, 0U);
    for (fault.nth = 0; fault.nth < count && !HasFailure(); fault.nth += kSanitized ? 3 : 1)
      RunWith(fault, failed_flush_drops, fmt::format("{}: {} at operation {} of {}", scenario().name, what, fault.nth, count));
  }
  void Report() const {
    std::printf("%s: %d runs, %llu faults\n", scenario().name, runs_, static_cast<unsigned long long>(hits_));
    EXPECT_GT(hits_, 0U);
  }

  Counts counts_;
  int runs_ = 0;
  uint64_t hits_ = 0;
};

TEST_P(IoErrorTest, EveryRead) {
  RunAll({.on = FaultOn::kRead, .kind = FaultKind::kIoError}, false, "EIO");
  RunAll({.on = FaultOn::kRead, .kind = FaultKind::kFlipped, .amount = 12'345}, false, "a bit flips on the way");
  Report();
}

TEST_P(IoErrorTest, EveryWrite) {
  RunAll({.on = FaultOn::kWrite, .kind = FaultKind::kIoError}, false, "EIO");
  RunAll({.on = FaultOn::kWrite, .kind = FaultKind::kNoSpace}, false, "ENOSPC");
  RunAll({.on = FaultOn::kWrite, .kind = FaultKind::kTorn, .amount = 4096}, false, "a short write");
  Report();
}

TEST_P(IoErrorTest, EveryFlush) {
  RunAll({.on = FaultOn::kFlush, .kind = FaultKind::kIoError}, false, "EIO");
  RunAll({.on = FaultOn::kFlush, .kind = FaultKind::kNoSpace}, false, "ENOSPC");
  RunAll({.on = FaultOn::kFlush, .kind = FaultKind::kIoError}, true, "EIO, and what was written is gone");
  Report();
}

/// A drive that does not say so. What it lost cannot be there; it must be missed by name, and nothing else may be wrong.
TEST_P(IoErrorTest, EveryWriteThatIsLostMisplacedOrFlipped) {
  const uint64_t count = Count()[static_cast<size_t>(FaultOn::kWrite)];
  const std::array<std::pair<const char*, Fault>, 3> faults = {
      {{"lost", {.kind = FaultKind::kLost}},
       {"misplaced", {.kind = FaultKind::kMisdirected, .amount = 40'960}},
       {"flipped", {.kind = FaultKind::kFlipped, .amount = 200}}}};
  for (auto [what, fault] : faults) {
    for (fault.nth = 0; fault.nth < count && !HasFailure(); fault.nth += kSanitized ? 3 : 1) {
      Session session(scenario().devices, false);
      session.Make();
      session.Inject(fault);
      ASSERT_TRUE(session.lab().Open().ok());
      scenario().body(session);
      session.lab().Close();
      session.plan().Clear();
      session.inspector().OpenAndLook(fmt::format("{}: write {} of {} {}", scenario().name, fault.nth, count, what));
      counts_.Add(session.inspector().counts);
    }
  }
  counts_.Report(scenario().name);
}

INSTANTIATE_TEST_SUITE_P(Scenarios, IoErrorTest, testing::Range(size_t{0}, Scenarios().size()),
                         [](const auto& info) { return std::string(Scenarios()[info.param].name); });

}  // namespace
}  // namespace forebay::crash
