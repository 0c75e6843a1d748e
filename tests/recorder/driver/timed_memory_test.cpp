// SPDX-License-Identifier: Apache-2.0
// The record of a segment or of its pages says how long the driver took for it, and only for it.
#include "allocator/recorder/timed_memory.hpp"

#include "allocator/policy/caching_policy.hpp"
#include "allocator/policy/device/simulated_device.hpp"
#include "tests/recorder/recorded_program.hpp"
#include "tests/recorder/recorder_fixture.hpp"
#include "trace/check.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

namespace fragscope::recorder::test {
namespace {

using policy::Address;
using trace::Record;
using trace::RecordKind;

constexpr std::chrono::milliseconds kDelay{2};
constexpr std::uint64_t kDelayNs = 2'000'000;

/// A device whose driver takes its time.
class SlowDevice final : public policy::DeviceMemory {
 public:
  [[nodiscard]] std::optional<Address> allocate(std::uint64_t size) override {
    std::this_thread::sleep_for(kDelay);
    return device_.allocate(size);
  }
  void free(Address address, std::uint64_t size) override {
    std::this_thread::sleep_for(kDelay);
    device_.free(address, size);
  }
  [[nodiscard]] std::optional<Address> reserve(std::uint64_t size) override {
    return device_.reserve(size);
  }
  [[nodiscard]] bool map(Address address, std::uint64_t size, std::uint64_t page_size) override {
    std::this_thread::sleep_for(kDelay);
    return device_.map(address, size, page_size);
  }
  void unmap(Address address, std::uint64_t size) override {
    std::this_thread::sleep_for(kDelay);
    device_.unmap(address, size);
  }
  void release(Address address, std::uint64_t size) override { device_.release(address, size); }
  [[nodiscard]] policy::Capacity capacity() const override { return device_.capacity(); }

 private:
  policy::SimulatedDevice device_{std::uint64_t{1} << 30};
};

/// A policy over a device, timed and recorded.
class Job {
 public:
  Job(policy::DeviceMemory& device, const std::string& directory, bool is_expandable = false)
      : recorders_(recorder_options(directory))
      , recorder_(recorders_.of({0, {}, "Simulated", 0}))
      , timed_(device, recorder_)
      , policy_(timed_, streams_, options(is_expandable), recorder_) {}

  [[nodiscard]] policy::CachingPolicy& policy() { return policy_; }
  [[nodiscard]] DeviceRecorder& recorder() { return *recorder_; }

  /// The `detail`s of the records of this kind, in their order.
  [[nodiscard]] std::vector<std::uint32_t> details(RecordKind kind) const {
    std::vector<std::uint32_t> details;
    const auto back = read_ring(recorders_.ring_path(0), false);
    FRAGSCOPE_CHECK(back.has_value());
    back->history->visit_records(back->history->last_stretch(), [&](const Record& record) {
      if (record.kind == kind) details.push_back(record.detail);
    });
    return details;
  }

 private:
  static policy::PolicyOptions options(bool is_expandable) {
    policy::PolicyOptions options;
    options.conf.rules.expandable_segments = is_expandable;
    return options;
  }

  policy::SimulatedStreams streams_;
  ProcessRecorder recorders_;
  DeviceRecorder* recorder_;
  TimedMemory timed_;
  policy::CachingPolicy policy_;
};

/// How long a call takes, in nanoseconds.
template <class Call>
std::uint64_t time_of(Call call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return static_cast<std::uint64_t>(
      std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count());
}

class TimedMemoryTest : public RecorderTest {
 protected:
  /// Obtains 30 MiB and gives them back; both records hold what was slept, and no more than the
  /// whole call took.
  void obtain_and_give_back(bool is_expandable, RecordKind obtained, RecordKind given_back) {
    SlowDevice device;
    Job job(device, directory(), is_expandable);
    policy::Block* block = nullptr;
    const std::uint64_t obtaining = time_of([&] { block = job.policy().allocate(30 * kMiB, 0); });
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(job.policy().free(block->address));
    // From the cache, and back: nothing is asked of the driver.
    block = job.policy().allocate(30 * kMiB, 0);
    ASSERT_NE(block, nullptr);
    EXPECT_TRUE(job.policy().free(block->address));
    const std::uint64_t giving_back = time_of([&] { EXPECT_TRUE(job.policy().empty_cache()); });

    const auto first = job.details(obtained);
    const auto last = job.details(given_back);
    ASSERT_EQ(first.size(), 1U);
    ASSERT_EQ(last.size(), 1U);
    EXPECT_GE(first[0], kDelayNs);
    EXPECT_LE(first[0], obtaining);
    EXPECT_GE(last[0], kDelayNs);
    EXPECT_LE(last[0], giving_back);
    for (const RecordKind kind :
         {RecordKind::kAlloc, RecordKind::kFreeRequested, RecordKind::kFreeCompleted}) {
      EXPECT_EQ(job.details(kind), std::vector<std::uint32_t>(2, 0));
    }
  }
};

TEST_F(TimedMemoryTest, SegmentsHaveWhatTheDriverTook) {
  obtain_and_give_back(false, RecordKind::kSegmentAlloc, RecordKind::kSegmentFree);
}

TEST_F(TimedMemoryTest, PagesHaveWhatTheDriverTook) {
  obtain_and_give_back(true, RecordKind::kSegmentMap, RecordKind::kSegmentUnmap);
}

TEST_F(TimedMemoryTest, WhatTheDriverTookToRefuseIsOfNoRecord) {
  policy::SimulatedDevice device(std::uint64_t{1} << 30);
  Job job(device, directory());
  device.fail(policy::SimulatedDevice::Fault::kAllocate, 1, true);
  EXPECT_EQ(job.policy().allocate(30 * kMiB, 0), nullptr);
  device.clear_faults();
  // The next segment comes from a pool's own allocator, which nobody times.
  const policy::PoolId pool{0, 1};
  const auto source = std::make_shared<policy::SimulatedDevice>(std::uint64_t{1} << 30, 1U << 30);
  job.policy().create_pool(pool, source);
  job.policy().begin_allocate_to_pool(pool, [](policy::StreamId) { return true; });
  ASSERT_NE(job.policy().allocate(30 * kMiB, 0), nullptr);
  job.policy().end_allocate_to_pool(pool);
  EXPECT_EQ(job.details(RecordKind::kSegmentAlloc), std::vector<std::uint32_t>{0});
}

TEST_F(TimedMemoryTest, WhatDoesNotFitIsTheMostThatDoes) {
  policy::SimulatedDevice device(std::uint64_t{1} << 30);
  ProcessRecorder recorders(recorder_options(directory()));
  DeviceRecorder* recorder = recorders.of({0, {}, "Simulated", 0});
  policy::SimulatedStreams streams;
  policy::CachingPolicy policy(device, streams, {}, recorder);
  constexpr std::uint64_t kTook[] = {0, 5'000'000'000, 7};
  for (const std::uint64_t took : kTook) {
    recorder->driver_took(took);
    ASSERT_NE(policy.allocate(30 * kMiB, 0), nullptr);
  }
  ASSERT_NE(policy.allocate(30 * kMiB, 0), nullptr);  // and of one nobody knows
  const auto back = read_ring(recorders.ring_path(0), false);
  ASSERT_TRUE(back.has_value());
  std::vector<std::uint32_t> details;
  back->history->visit_records(back->history->last_stretch(), [&](const Record& record) {
    if (record.kind == RecordKind::kSegmentAlloc) details.push_back(record.detail);
  });
  EXPECT_EQ(details, (std::vector<std::uint32_t>{1, trace::kLongestDriverTime, 7, 0}));
}

TEST_F(TimedMemoryTest, WithoutARecordingItOnlyPassesOn) {
  policy::SimulatedDevice device(std::uint64_t{1} << 30);
  TimedMemory timed(device, nullptr);
  const auto address = timed.allocate(30 * kMiB);
  ASSERT_TRUE(address);
  EXPECT_EQ(device.used_bytes(), 30 * kMiB);
  timed.free(*address, 30 * kMiB);
  EXPECT_EQ(device.used_bytes(), 0U);
}

}  // namespace
}  // namespace fragscope::recorder::test
