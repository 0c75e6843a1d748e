// SPDX-License-Identifier: Apache-2.0
// What a recording measured of the driver's calls, and what that makes of a variant.
#include "analyzer/whatif/driver_time.hpp"

#include "allocator/policy/device/simulated_device.hpp"
#include "allocator/recorder/process_recorder.hpp"
#include "analyzer/whatif/program/program_builder.hpp"
#include "analyzer/whatif/program/program_of_trace.hpp"
#include "analyzer/whatif/recorded/verify.hpp"
#include "tests/recorder/recorder_fixture.hpp"
#include "trace/check.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <utility>

namespace fragscope::whatif::test {
namespace {

using policy::kGiB;
using policy::kMiB;
using Kind = DeviceCall::Kind;

constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

/// A program with calls of one kind that took so many nanoseconds, and no other ones.
Program with_calls(Kind kind, std::initializer_list<std::uint32_t> nanoseconds) {
  Program program;
  for (const std::uint32_t took : nanoseconds)
    program.device_calls.push_back({kind, 0, 0, kMiB, 0, false, took});
  return program;
}

CallTimes times_of(Kind kind, std::initializer_list<std::uint32_t> nanoseconds) {
  return driver_times(with_calls(kind, nanoseconds))[static_cast<std::size_t>(kind)];
}

TEST(DriverTimes, AreMediansByKind) {
  EXPECT_EQ(times_of(Kind::kAllocate, {30, 10, 20}).median_ns, 20U);
  EXPECT_EQ(times_of(Kind::kFree, {40, 10, 21, 30}).median_ns, 25U);
  EXPECT_EQ(times_of(Kind::kMap, {7}).median_ns, 7U);
  EXPECT_EQ(times_of(Kind::kUnmap, {0xffffffff, 0xffffffff}).median_ns, 0xffffffffU);
  const CallTimes times = times_of(Kind::kUnmap, {0xffffffff, 5, 0xffffffff});
  EXPECT_EQ(times.calls, 3U);
  EXPECT_EQ(times.total_ns, std::uint64_t{0xffffffff} * 2 + 5);
}

TEST(DriverTimes, LeaveOutWhatNobodyMeasured) {
  const DriverTimes times = driver_times(with_calls(Kind::kMap, {0, 9, 0, 5, 0}));
  EXPECT_EQ(times[static_cast<std::size_t>(Kind::kMap)].calls, 2U);
  EXPECT_EQ(times[static_cast<std::size_t>(Kind::kMap)].median_ns, 7U);
  for (const Kind kind : {Kind::kAllocate, Kind::kFree, Kind::kUnmap})
    EXPECT_EQ(times[static_cast<std::size_t>(kind)].calls, 0U);
  EXPECT_EQ(times_of(Kind::kAllocate, {0, 0}).calls, 0U);
}

/// What each kind takes; 0: not measured.
DriverTimes medians(std::uint64_t allocate,
                    std::uint64_t free,
                    std::uint64_t map,
                    std::uint64_t unmap) {
  DriverTimes times;
  std::size_t kind = 0;
  for (const std::uint64_t median : {allocate, free, map, unmap})
    times[kind++] = {median > 0 ? 1U : 0U, median, median};
  return times;
}

TEST(EstimatedTime, IsTheMediansOfAllCalls) {
  Outcome outcome;
  outcome.driver_allocations = 7;
  outcome.page_maps = 5;
  outcome.driver_frees = 4;
  outcome.page_unmaps = 1;
  EXPECT_EQ(estimated_ns(medians(100, 1000, 10'000, 100'000), {}, outcome),
            2 * 100 + 3 * 1000 + 5 * 10'000 + 100'000U);
}

TEST(EstimatedTime, NeedsEveryKindThatOccursAndNoOther) {
  Outcome outcome;
  outcome.driver_allocations = 2;
  EXPECT_EQ(estimated_ns(medians(100, 0, 0, 0), {}, outcome), 200U);
  EXPECT_FALSE(estimated_ns(medians(0, 100, 100, 100), {}, outcome));
  outcome.page_maps = 2;
  EXPECT_FALSE(estimated_ns(medians(100, 0, 0, 0), {}, outcome));
  EXPECT_EQ(estimated_ns(medians(0, 0, 100, 0), {}, outcome), 200U);
  outcome.driver_frees = 1;
  EXPECT_FALSE(estimated_ns(medians(100, 0, 100, 100), {}, outcome));
  outcome.page_unmaps = 1;
  EXPECT_FALSE(estimated_ns(medians(100, 100, 100, 0), {}, outcome));
  EXPECT_EQ(estimated_ns(medians(0, 0, 0, 0), {}, {}), 0U);
}

TEST(EstimatedTime, EndsAtAllBits) {
  Outcome outcome;
  outcome.driver_allocations = kMost / 4;
  outcome.driver_frees = 1;
  EXPECT_EQ(estimated_ns(medians(4, 3, 0, 0), {}, outcome), kMost);
  EXPECT_EQ(estimated_ns(medians(4, 4, 0, 0), {}, outcome), kMost);
  EXPECT_EQ(estimated_ns(medians(5, 1, 0, 0), {}, outcome), kMost);
  EXPECT_EQ(estimated_ns(medians(4, 1, 0, 0), {}, outcome), kMost - 2);
}

TEST(EstimatedTime, IsNotThatOfAPlainAllocator) {
  Variant arena;
  arena.arena = ArenaKind::kTlsf;
  EXPECT_FALSE(estimated_ns(medians(1, 1, 1, 1), arena, {}));
}

/// Begins with a segment of 40 MiB that is handed out; obtains one of 100 MiB, gives both back, and
/// obtains one of 60 MiB.
Program with_a_beginning(std::uint32_t nanoseconds) {
  ProgramBuilder builder;
  Program& program = builder.program();
  program.device_bytes = kGiB;
  policy::ImageSegment segment;
  segment.address = kGiB;
  segment.size = 40 * kMiB;
  segment.size_class = policy::SizeClass::kLarge;
  segment.blocks = {{kGiB, 40 * kMiB, 40 * kMiB, true}};
  program.start.segments = {segment};
  program.start_slots = {0};
  program.slot_count = 1;
  const auto obtain = [&](policy::Address address, std::uint64_t bytes) {
    builder.device_call(Kind::kAllocate, address, bytes, 0, {}, nanoseconds);
    builder.allocate(address, bytes, {});
  };
  obtain(2 * kGiB, 100 * kMiB);
  builder.free(2 * kGiB);
  builder.complete(2 * kGiB);
  builder.device_call(Kind::kFree, 2 * kGiB, 100 * kMiB, 0, {}, nanoseconds);
  builder.cache_released({});
  obtain(3 * kGiB, 60 * kMiB);
  return builder.finish();
}

TEST(EstimatedTime, CountsSegmentsAndPagesApart) {
  const Program program = with_a_beginning(0);
  const Variant plain = recorded_variant(program).value();
  const Outcome segments = run(program, plain);
  EXPECT_EQ(segments.driver_allocations, 2U);
  EXPECT_EQ(segments.driver_frees, 1U);
  EXPECT_EQ(segments.page_maps, 0U);
  EXPECT_EQ(segments.page_unmaps, 0U);
  const Outcome pages = run(program, with_options(plain, "expandable_segments:True").value());
  EXPECT_EQ(pages.driver_allocations, 2U);
  EXPECT_EQ(pages.driver_frees, 1U);
  EXPECT_EQ(pages.page_maps, 2U);
  EXPECT_EQ(pages.page_unmaps, 1U);
}

TEST(EstimatedTime, DoesNotMatterToTheComparison) {
  for (const std::uint32_t nanoseconds : {0U, 1U, 0xffffffffU}) {
    const Program program = with_a_beginning(nanoseconds);
    const Verification found = verify(program);
    EXPECT_FALSE(found.first) << found.first->what;
    EXPECT_EQ(found.agreed, program.ops.size());
  }
}

using DriverTimesOfATrace = recorder::test::RecorderTest;

TEST_F(DriverTimesOfATrace, AreThoseThatWereRecorded) {
  policy::SimulatedDevice device(kGiB);
  policy::SimulatedStreams streams;
  recorder::ProcessRecorder recorders([this] {
    recorder::RecorderOptions options;
    options.directory = directory();
    options.record_capacity = 4096;
    return options;
  }());
  recorder::DeviceRecorder* recorder = recorders.of({0, {}, "Simulated", kGiB});
  ASSERT_NE(recorder, nullptr);
  policy::CachingPolicy policy(device, streams, {}, recorder);
  // As in a trace from before anybody measured.
  ASSERT_NE(policy.allocate(30 * kMiB, 0), nullptr);
  const auto read = [&] {
    const auto back = recorder::test::read_ring(recorders.ring_path(0), false);
    FRAGSCOPE_CHECK(back.has_value());
    return program_of_trace(*back->history, back->recording).value();
  };
  for (const CallTimes& of : driver_times(read()))
    EXPECT_EQ(of.calls, 0U);
  for (const std::uint64_t took : {1000U, 9000U, 2000U}) {
    recorder->driver_took(took);
    ASSERT_NE(policy.allocate(30 * kMiB, 0), nullptr);
  }
  const Program program = read();
  const DriverTimes times = driver_times(program);
  EXPECT_EQ(times[0].calls, 3U);
  EXPECT_EQ(times[0].median_ns, 2000U);
  const Variant variant = recorded_variant(program).value();
  EXPECT_EQ(estimated_ns(times, variant, run(program, variant)), 8000U);
}

}  // namespace
}  // namespace fragscope::whatif::test
