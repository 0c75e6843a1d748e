// SPDX-License-Identifier: Apache-2.0
// What is told of PyTorch's own allocator becomes its heap again: sizes, splits and merges are
// derived, at any moment, also where recording began in the middle or the ring came round.
#include "allocator/attach/native_device.hpp"

#include "tests/attach/native_program.hpp"
#include "tests/recorder/recorder_fixture.hpp"
#include "tests/support/result_matchers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace fragscope::attach::test {
namespace {

using fragscope::test::IsOk;
using model::EventIndex;
using recorder::test::heap_before;
using recorder::test::heap_text;
using recorder::test::HeapText;
using recorder::test::in_child;
using recorder::test::read_ring;
using recorder::test::ReadBack;
using recorder::test::RingSize;
using ::testing::ElementsAre;
using ::testing::Pair;

class Attached : public recorder::test::RecorderTest {
 protected:
  /// Runs on, and gives the heap at a number of moments, by how many records there were.
  static std::map<std::uint64_t, HeapText> run(NativeProgram& program, std::uint64_t steps) {
    std::map<std::uint64_t, HeapText> heaps;
    for (std::uint64_t i = 0; i < steps; ++i) {
      program.step();
      if (i % 89 == 0 || i + 1 == steps) heaps[program.written()] = heap_text(program.policy());
    }
    return heaps;
  }

  /// How many of the moments the trace shows, each of which is as it was.
  static std::size_t count_shown(const NativeProgram& program,
                                 const std::map<std::uint64_t, HeapText>& heaps,
                                 const std::set<std::string>& signals) {
    const auto back = read_ring(program.ring_path(), false);
    EXPECT_THAT(back, IsOk());
    if (!back) return 0;
    for (const model::TrustSignal& signal : back->recording.trust)
      EXPECT_TRUE(signals.contains(signal.signal)) << signal.signal << ": " << signal.effect;
    std::size_t shown = 0;
    for (const auto& [record, heap] : heaps) {
      const auto event = static_cast<EventIndex>(record);
      if (event < back->history->first_event() || !back->history->is_known_before(event)) continue;
      EXPECT_EQ(heap_before(*back, record), heap) << "before record " << record;
      ++shown;
    }
    return shown;
  }
};

TEST_F(Attached, TheHeapIsDerivedAtAnyMoment) {
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    NativeProgram program(seed, directory(), {std::uint64_t{1} << 14});
    const auto heaps = run(program, 2500);
    EXPECT_EQ(count_shown(program, heaps, {"derived-sizes", "settings-changed"}), heaps.size())
        << "seed " << seed;
  }
}

TEST_F(Attached, ARingThatCameRoundIsKnownFromItsKeyframe) {
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    NativeProgram program(seed, directory(), {std::uint64_t{1} << 11});
    const auto heaps = run(program, 6000);
    ASSERT_GT(program.written(), 1U << 12);
    EXPECT_GE(count_shown(program,
                          heaps,
                          {"derived-sizes",
                           "settings-changed",
                           "history-cut",
                           "failures-not-judged",
                           "failures-missing"}),
              3U)
        << "seed " << seed;
  }
}

TEST_F(Attached, InTheMiddleOfAProgramItBeginsWithWhatThereIs) {
  for (std::uint32_t seed = 1; seed <= 40; ++seed) {
    NativeProgram program(seed, directory(), {std::uint64_t{1} << 14});
    program.detach();
    run(program, 800);
    program.attach();
    const auto heaps = run(program, 1500);
    // The first of them may be before the first record.
    EXPECT_GE(count_shown(program, heaps, {"derived-sizes", "settings-changed"}), heaps.size() - 1)
        << "seed " << seed;
  }
}

TEST_F(Attached, AReleaseOfTheCacheIsRecordedThoughNothingWasInIt) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    NativeProgram program(seed, directory(), {std::uint64_t{1} << 14});
    run(program, 300);
    const auto frees_before = program.policy().statistics().num_device_free;
    const std::int64_t held_before = program.policy().statistics().reserved_bytes.all.current;
    program.empty_cache();
    const auto& after = program.policy().statistics();
    const auto count = static_cast<std::uint64_t>(after.num_device_free - frees_before);
    const auto bytes = static_cast<std::uint64_t>(held_before - after.reserved_bytes.all.current);
    program.empty_cache();
    const std::uint64_t written = program.written();
    run(program, 50);
    program.device().end();

    const auto back = read_ring(program.ring_path(), false);
    ASSERT_THAT(back, IsOk());
    std::vector<std::pair<std::uint64_t, std::uint64_t>> releases;
    const model::TraceHistory::Stretch stretch{static_cast<EventIndex>(written),
                                               back->history->end_event()};
    back->history->visit_records(stretch, [&](const trace::Record& record) {
      const bool is_ours = releases.size() < 2;
      if (is_ours && record.kind == trace::RecordKind::kCacheRelease)
        releases.emplace_back(record.size, record.other);
    });
    EXPECT_THAT(releases, ElementsAre(Pair(bytes, count), Pair(0U, 0U))) << "seed " << seed;
  }
}

TEST_F(Attached, AfterUntoldChangesTheHeapIsNotKnownUntilAKeyframe) {
  NativeProgram program(3, directory(), {std::uint64_t{1} << 14});
  auto before = run(program, 500);
  program.device().lose();
  program.detach();
  run(program, 100);
  program.tell_again();
  const std::uint64_t mark = program.written() - 1;
  auto after = run(program, 500);
  program.device().end();

  const auto back = read_ring(program.ring_path(), false);
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(heap_before(*back, before.rbegin()->first), before.rbegin()->second);
  EXPECT_EQ(heap_before(*back, after.rbegin()->first), after.rbegin()->second);
  EXPECT_FALSE(back->history->is_known_before(static_cast<EventIndex>(mark)));
  EXPECT_TRUE(back->history->is_known_before(static_cast<EventIndex>(mark + 1)));
}

TEST_F(Attached, AForkedChildWritesNothing) {
  NativeProgram program(5, directory(), {std::uint64_t{1} << 14});
  run(program, 300);
  const std::uint64_t written = program.written();
  EXPECT_EQ(in_child([&] {
              run(program, 300);
              return program.written() == written ? 0 : 1;
            }),
            0);
  run(program, 50);
  EXPECT_GT(program.written(), written);
}

TEST_F(Attached, WithoutARingNothingIsAskedAgain) {
  NativeProgram program(5, "/nowhere/at/all", {std::uint64_t{1} << 14});
  run(program, 300);
  EXPECT_EQ(program.written(), 0U);
  EXPECT_EQ(program.device().failure_line(), "");
  EXPECT_STREQ(program.device().ring_path(), "");
}

}  // namespace
}  // namespace fragscope::attach::test
