// SPDX-License-Identifier: Apache-2.0
#include "power_cut.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "client.h"
#include "oracle.h"
#include "stream.h"

namespace forebay::crash {
namespace {

namespace fs = std::filesystem;

constexpr int kMaxViolations = 20;  // of one run: the rest says the same

class PowerCut {
 public:
  explicit PowerCut(const PowerCutOptions& options)
      : options_(options), random_(options.seed), lab_(LabOptionsFor(options, random_)), oracle_(options.seed) {}

  PowerCutReport Run() {
    if (Try("making the store", lab_.Make())) {
      const uint64_t lives = 2 + random_.Below(2);
      for (uint64_t life = 0; life < lives && Fine(); ++life) Live(life, life + 1 == lives);
      if (Fine() && options_.log_damage != LogDamage::kNone) DamageLog();
      if (Fine()) End();
    }
    report_.acknowledged = oracle_.acknowledged();
    return std::move(report_);
  }

 private:
  static LabOptions LabOptionsFor(const PowerCutOptions& options, base::Random& random) {
    // With little memory tables are written all the time, with much everything is in the log.
    const bool tables = options.log_damage == LogDamage::kNone && random.Below(2) == 0;
    // Some stores are so small that puts are refused all the time, some so large that they are zeroed ahead.
    const uint64_t dice = random.Below(12);
    const uint64_t device_mib = dice == 0 ? 128 * options.devices : dice < 4 ? 6 : 24;
    // Half of the stores have a quota that the stream runs into all the time.
    store::Quota quota;
    if (random.Below(2) == 0) quota = {.max_bytes = base::kMiB + random.Below(base::kMiB), .max_objects = 8};
    return {.directory = Lab::ScratchDirectory(fmt::format("cut-{}", options.seed)),
            .devices = options.devices,
            .device_bytes = device_mib / options.devices * base::kMiB,
            .write_buffer_bytes = tables ? 512 * base::kKiB : 16 * base::kMiB,
            .settle = std::chrono::milliseconds(random.Below(2) == 0 ? 1 : 1000),
            .mutant = options.mutant,
            .quota = quota};
  }

  bool Fine() const { return report_.violations.empty(); }
  bool Try(std::string_view what, const Status& status) {
    if (!status.ok()) report_.violations.push_back(fmt::format("{}: {}", what, status.ToString()));
    return status.ok();
  }

  void Live(uint64_t life, bool last) {
    // With a log to be damaged in its middle, the last life is long and leaves one.
    const bool whole = last && options_.log_damage != LogDamage::kNone;
    if (!Recover(whole ? device::PowerSwitch::kForever : static_cast<int64_t>(60 + random_.Below(500)))) return;
    if (!Check()) return;
    RunStream(lab_, oracle_, {.seed = options_.seed * 16 + life, .operations = whole ? 40U : 20U, .moves = options_.moves}, report_.violations);
    if (lab_.powered() && Fine() && random_.Below(4) == 0) RestartInOrder();
  }

  /// A shutdown in order, and some more work: the power goes in the life after it.
  void RestartInOrder() {
    lab_.Close();
    const Status opened = lab_.Open();
    if (!opened.ok()) {
      if (lab_.powered()) (void)Try("opening after a shutdown in order", opened);
      return;
    }
    if (Check())
      RunStream(lab_, oracle_, {.seed = random_.Next64() % 1'000'000, .operations = 10, .moves = options_.moves}, report_.violations);
  }

  /// Cuts the power, and opens the store again, with power for so many operations. Sometimes the power goes once more while
  /// that happens.
  bool Recover(int64_t operations) {
    constexpr uint64_t kDeepest = 3;
    uint64_t again = random_.Below(3) == 0 ? 1 + random_.Below(kDeepest) : 0;
    for (;;) {
      ++report_.cuts;
      // Opening takes some 20 to 60 operations.
      const int64_t power = again == 0 ? operations : static_cast<int64_t>(random_.Below(60));
      if (!Try("cutting the power", lab_.Crash(random_, power))) return false;
      const Status opened = lab_.Open();
      if (opened.ok()) return true;
      if (lab_.powered()) return Try("opening after a power cut", opened);
      ++report_.recovery_cuts;
      if (again != 0) --again;
    }
  }

  /// Compares what is there, if the power holds for so long. What was seen counts from now on.
  bool Check() {
    std::vector<std::string> violations;
    const auto page = static_cast<uint32_t>(1 + random_.Below(20));
    const Contents contents = CheckContents(lab_, oracle_, page, violations);
    if (!lab_.powered()) return true;
    ++report_.states;
    report_.objects += contents.size();
    if (violations.size() > kMaxViolations) violations.resize(kMaxViolations);
    report_.violations = std::move(violations);
    if (Fine()) SettleContents(contents, oracle_);
    return Fine();
  }

  void DamageLog() {
    ++report_.cuts;
    if (!Try("cutting the power", lab_.Crash(random_))) return;
    fs::path log;
    for (const auto& entry : fs::directory_iterator(lab_.metadata_directory()))
      if (entry.path().extension() == ".log" && (log.empty() || entry.file_size() > fs::file_size(log))) log = entry.path();
    constexpr uint64_t kMoreThanAGroup = 12 * base::kKiB;  // of four writers
    if (log.empty() || fs::file_size(log) < 2 * kMoreThanAGroup) return;
    const std::string content = ReadFile(log);
    std::string damaged = content;
    if (options_.log_damage == LogDamage::kCut) {
      damaged.resize(random_.Below(content.size() - kMoreThanAGroup));
    } else {
      char& hit = damaged[random_.Below(content.size())];
      hit = static_cast<char>(hit ^ (1 << random_.Below(8)));
    }
    WriteFile(log, damaged);
    const Status opened = lab_.Open();
    if (opened.ok()) {  // no harm done: it hit bytes that mean nothing, or what was never acknowledged
      (void)Check();
      return;
    }
    if (opened.code() != Code::kDataLoss) report_.violations.push_back("a damaged log is called " + opened.ToString());
    ++report_.refusals;
    WriteFile(log, content);  // a refusal has changed nothing: put right, it opens with everything
  }

  std::string ReadFile(const fs::path& path) {
    std::ifstream file(path, std::ios::binary);
    std::ostringstream content;
    content << file.rdbuf();
    if (!file) report_.violations.push_back("the log could not be read");
    return std::move(content).str();
  }
  void WriteFile(const fs::path& path, std::string_view content) {
    std::ofstream file(path, std::ios::binary | std::ios::trunc);
    file << content;
    file.flush();
    if (!file) report_.violations.push_back("the log could not be damaged");
  }

  /// With fsck before the first opening or after it, and a second opening that finds the same.
  void End() {
    ++report_.cuts;
    if (!Try("cutting the power", lab_.Crash(random_))) return;
    if (random_.Below(2) == 0 && !Fsck()) return;
    if (!Try("the last opening", lab_.Open()) || !Check()) return;
    lab_.Close();
    if (!Fsck()) return;
    if (Try("the second opening", lab_.Open())) (void)Check();
    lab_.Close();
  }

  bool Fsck() {
    const Result<engine::FsckReport> report = lab_.Fsck();
    if (!Try("fsck", report.status())) return false;
    for (const std::string& error : report->errors) report_.violations.push_back("fsck: " + error);
    return Fine();
  }

  const PowerCutOptions options_;
  base::SeededRandom random_;
  Lab lab_;
  Oracle oracle_;
  PowerCutReport report_;
};

}  // namespace

void PowerCutReport::Add(const PowerCutReport& other) {
  violations.insert(violations.end(), other.violations.begin(), other.violations.end());
  cuts += other.cuts;
  recovery_cuts += other.recovery_cuts;
  states += other.states;
  objects += other.objects;
  acknowledged += other.acknowledged;
  refusals += other.refusals;
}

PowerCutReport RunPowerCut(const PowerCutOptions& options) { return PowerCut(options).Run(); }

PowerCutSeeds RunPowerCuts(PowerCutOptions options, uint64_t first, uint64_t count) {
  // A run mostly waits: for its own threads, and for RocksDB's, which sleep a second after an error.
  constexpr uint64_t kSideBySide = 10;
  AllowManyStores();
  std::atomic<uint64_t> next{first};
  base::Mutex mutex;
  PowerCutSeeds all{.total = {}, .seeds = count, .failed_seeds = 0};
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < std::min(count, kSideBySide); ++i) {
    threads.emplace_back([&, options]() mutable {
      for (options.seed = next++; options.seed < first + count; options.seed = next++) {
        PowerCutReport report = RunPowerCut(options);
        for (std::string& violation : report.violations) violation = fmt::format("seed {}: {}", options.seed, violation);
        base::MutexLock lock(mutex);
        if (!report.violations.empty()) ++all.failed_seeds;
        all.total.Add(report);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return all;
}

}  // namespace forebay::crash
