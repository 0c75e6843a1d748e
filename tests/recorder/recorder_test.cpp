// SPDX-License-Identifier: Apache-2.0
// What was recorded is what the policy did: the heap read back from the ring is the policy's own,
// at any moment, also after the ring came round many times.
#include "tests/recorder/recorded_program.hpp"
#include "tests/recorder/recorder_fixture.hpp"
#include "tests/support/result_matchers.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

namespace fragscope::recorder::test {
namespace {

using fragscope::test::IsOk;
using model::EventIndex;
using model::HeapState;

class Recorder : public RecorderTest {
 protected:
  /// Runs a program and compares what was recorded with what was so, at a number of moments.
  void compare(std::uint32_t seed, std::uint64_t steps, RingSize size) {
    RecordedProgram program(seed, directory(), size);
    ASSERT_NE(program.recorder(), nullptr);
    std::map<EventIndex, HeapText> heaps;
    for (std::uint64_t i = 0; i < steps; ++i) {
      program.step();
      if (i % 97 == 0 || i + 1 == steps) {
        heaps[static_cast<EventIndex>(program.recorder()->header().written)] =
            heap_text(program.policy());
      }
    }
    const auto back = read_ring(program.ring_path(), false);
    ASSERT_THAT(back, IsOk());
    for (const model::TrustSignal& signal : back->recording.trust) {
      EXPECT_TRUE(signal.signal == "history-cut" || signal.signal == "failures-not-judged" ||
                  signal.signal == "failures-missing")
          << signal.signal << ": " << signal.effect;
    }
    std::size_t compared = 0;
    for (const auto& entry : heaps) {
      const EventIndex event = entry.first;
      const HeapText& heap = entry.second;
      if (event < back->history->first_event() || !back->history->is_known_before(event)) continue;
      back->history->visit_states_until(std::span(&event, 1),
                                        [&](EventIndex, const HeapState& state) {
                                          EXPECT_EQ(heap_text(state, back->recording), heap)
                                              << "seed " << seed << ", event " << event;
                                          return true;
                                        });
      ++compared;
    }
    EXPECT_GE(compared, 1U);
    EXPECT_EQ(heaps.rbegin()->first, back->history->end_event());
  }
};

TEST_F(Recorder, ShowsTheHeapAtAnyMoment) {
  for (std::uint32_t seed = 1; seed <= 60; ++seed)
    compare(seed, 1500, {});
}

TEST_F(Recorder, ShowsTheHeapAfterTheRingCameRound) {
  for (std::uint32_t seed = 100; seed < 140; ++seed)
    compare(seed, 6000, {.records = 4096, .table_bytes = std::uint64_t{1} << 16});
}

TEST_F(Recorder, KnowsThePeaksThatTheStatisticsKnow) {
  for (std::uint32_t seed = 200; seed < 240; ++seed) {
    RecordedProgram program(seed, directory());
    program.run(1500);
    const auto back = read_ring(program.ring_path(), false);
    ASSERT_THAT(back, IsOk());
    const policy::Statistics& statistics = program.policy().statistics();
    const model::PeakLevels& levels = back->history->peak_levels();
    const auto peak = [](const policy::ClassCounters& counters) {
      return static_cast<std::uint64_t>(counters.all.peak);
    };
    EXPECT_EQ(levels.reserved_bytes, peak(statistics.reserved_bytes)) << seed;
    EXPECT_EQ(levels.allocated_bytes, model::exactly(peak(statistics.allocated_bytes))) << seed;
    EXPECT_EQ(levels.active_bytes, model::exactly(peak(statistics.active_bytes))) << seed;
    EXPECT_EQ(levels.requested_active_bytes, peak(statistics.requested_bytes)) << seed;
    EXPECT_EQ(levels.inactive_split_bytes, model::exactly(peak(statistics.inactive_split_bytes)))
        << seed;
  }
}

TEST_F(Recorder, CountsFailuresAndKeepsWhatTheyAskedFor) {
  RecordedProgram program(7, directory());
  program.run(300);
  const std::int64_t before = program.policy().statistics().num_ooms;
  program.allocate(std::uint64_t{1} << 40);
  ASSERT_EQ(program.policy().statistics().num_ooms, before + 1);
  EXPECT_EQ(program.recorder()->header().failures, static_cast<std::uint64_t>(before) + 1);

  const auto back = read_ring(program.ring_path(), false);
  ASSERT_THAT(back, IsOk());
  const auto failed = back->history->failed_requests();
  ASSERT_EQ(failed.size(), static_cast<std::size_t>(before) + 1);
  const policy::AllocationFailure& failure = program.policy().failure();
  EXPECT_EQ(failed.back().asked_bytes, failure.requested_size);
  EXPECT_EQ(failed.back().size_bytes, failure.rounded_size);
  EXPECT_EQ(failed.back().device_free_bytes, failure.capacity.free_bytes);
  EXPECT_EQ(failed.back().device_total_bytes, failure.capacity.total_bytes);
  EXPECT_EQ(failed.back().limit_bytes, failure.limit_bytes);
}

TEST_F(Recorder, KeepsWhoUsedTheDeviceAtAFailure) {
  RecordedProgram program(7, directory());
  program.run(300);
  const policy::Capacity capacity = program.policy().failure().capacity;
  const ProcessOnDevice others[] = {{7, 700, false, "python"}, {8, std::nullopt, false, ""}};
  const ProcessOnDevice all[] = {{7, 700, false, "python"}, {9, 900, true, ""}, {8, 0, false, ""}};
  program.recorder()->fact("driver", "570.1");
  program.recorder()->device_use(capacity, others, "");  // of no failure
  program.allocate(std::uint64_t{1} << 40);
  program.recorder()->device_use(capacity, all, "");
  program.recorder()->device_use(capacity, others, "");  // of no failure any more
  program.allocate(std::uint64_t{1} << 40);
  program.recorder()->device_use(capacity, {}, "Not Supported");
  program.allocate(std::uint64_t{1} << 40);
  program.recorder()->mark("step", MarkKind::kPoint);
  program.recorder()->device_use(capacity, others, "");  // of the mark

  const auto back = read_ring(program.ring_path(), false);
  ASSERT_THAT(back, IsOk());
  ASSERT_EQ(back->recording.facts.size(), 1U);
  EXPECT_EQ(back->recording.facts[0].value, "570.1");
  const auto failed = back->history->failed_requests();
  ASSERT_GE(failed.size(), 3U);
  const auto& use = failed[failed.size() - 3].use;
  ASSERT_TRUE(use);
  ASSERT_EQ(use->processes.size(), 3U);
  EXPECT_EQ(use->processes[0].name, "python");
  EXPECT_EQ(use->processes[0].used_bytes, 700U);
  EXPECT_TRUE(use->processes[1].is_this);
  EXPECT_EQ(use->processes[2].used_bytes, std::nullopt);
  ASSERT_TRUE(failed[failed.size() - 2].use);
  EXPECT_EQ(failed[failed.size() - 2].use->refused, "Not Supported");
  EXPECT_FALSE(failed.back().use);
}

}  // namespace
}  // namespace fragscope::recorder::test
