// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/heap_state.hpp"

#include "tests/support/recording_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <tuple>
#include <utility>
#include <vector>

namespace fragscope::model {
namespace {

using ::testing::ElementsAre;
using testing::hole;
using testing::kKiB;
using testing::kMiB;
using testing::live;
using testing::pending;
using testing::RecordingBuilder;

constexpr std::uint64_t kUnknown = ~std::uint64_t{0};

TEST(Bounds, AddAndSubtractWithoutWrapping) {
  EXPECT_EQ((Bounds{1, 2} + Bounds{10, 20}), (Bounds{11, 22}));
  EXPECT_EQ((Bounds{1, kUnknown} + Bounds{10, 20}), (Bounds{11, kUnknown}));
  EXPECT_EQ((Bounds{10, 20} - Bounds{1, 2}), (Bounds{8, 19}));
  EXPECT_EQ((Bounds{1, 2} - Bounds{10, 20}), (Bounds{0, 0}));
  EXPECT_EQ((Bounds{10, kUnknown} - Bounds{1, 2}), (Bounds{8, kUnknown}));
}

// 20 MiB: 4 live (3 asked for), 2 pending, 14 free. 30 MiB wholly free. 2 MiB small: 512 bytes of
// 100 asked for, the rest free. A wholly free one of 40 MiB in a private pool, which does not count
// as releasable.
TEST(Summarize, CountsEveryLayerOnce) {
  Recording recording =
      RecordingBuilder()
          .segment({100 * kMiB}, {live(4 * kMiB, 3 * kMiB), pending(2 * kMiB), hole(14 * kMiB)})
          .segment({200 * kMiB}, {hole(30 * kMiB)})
          .segment({300 * kMiB, SizeClass::kSmall}, {live(512, 100), hole(2 * kMiB - 512)})
          .segment({400 * kMiB, SizeClass::kLarge, false, 0, 0, PoolIndex{1}}, {hole(40 * kMiB)})
          .segment({500 * kMiB, SizeClass::kLarge, false, 0, 1}, {live(7 * kMiB)})  // device 1
          .build();
  recording.pools.push_back({1, 0});

  const StateSummary summary = summarize(end_state(recording, 0), {});

  EXPECT_EQ(summary.reserved_bytes, 92 * kMiB);
  EXPECT_EQ(summary.allocated_bytes, exactly(4 * kMiB + 512));
  EXPECT_EQ(summary.requested_bytes, 3 * kMiB + 100);
  EXPECT_EQ(summary.requested_active_bytes, 5 * kMiB + 100);
  EXPECT_EQ(summary.active_bytes, exactly(6 * kMiB + 512));
  EXPECT_EQ(summary.pending_bytes, exactly(2 * kMiB));
  EXPECT_EQ(summary.inactive_split_bytes, exactly(14 * kMiB + 2 * kMiB - 512));
  EXPECT_EQ(summary.free_bytes, exactly(86 * kMiB - 512));
  EXPECT_EQ(summary.largest_hole_bytes, exactly(40 * kMiB));
  EXPECT_EQ(summary.segments, 4U);
  EXPECT_EQ(summary.blocks, 7U);
  EXPECT_EQ(summary.holes, 4U);
}

TEST(Summarize, SplitsTheGapFourWays) {
  const Recording recording =
      RecordingBuilder()
          .segment({100 * kMiB}, {live(4 * kMiB, 3 * kMiB), pending(2 * kMiB), hole(14 * kMiB)})
          .segment({200 * kMiB}, {hole(30 * kMiB)})
          .build();

  const StateSummary summary = summarize(end_state(recording, 0), {});

  EXPECT_EQ(summary.gap.rounding_bytes, 1 * kMiB);
  EXPECT_EQ(summary.gap.pending_bytes, 2 * kMiB);
  EXPECT_EQ(summary.gap.releasable_bytes, 30 * kMiB);
  EXPECT_EQ(summary.gap.stuck_bytes, 14 * kMiB);
}

TEST(Summarize, ListsEachHome) {
  const Recording recording =
      RecordingBuilder()
          .segment({100 * kMiB}, {hole(20 * kMiB)})
          .segment({200 * kMiB}, {live(10 * kMiB), hole(20 * kMiB)})
          .segment({300 * kMiB, SizeClass::kLarge, false, 9}, {pending(20 * kMiB)})
          .segment({400 * kMiB, SizeClass::kLarge, true}, {hole(60 * kMiB)})
          .build();

  const StateSummary summary = summarize(end_state(recording, 0), {});

  std::vector<std::tuple<std::int64_t, bool, std::uint64_t, std::uint64_t, std::uint64_t>> homes;
  for (const HomeSummary& each : summary.homes) {
    EXPECT_EQ(each.free_bytes.low, each.free_bytes.high);
    homes.emplace_back(each.home.stream,
                       each.home.expandable,
                       each.free_bytes.low / kMiB,
                       each.largest_hole_bytes.low / kMiB,
                       each.pending_bytes / kMiB);
  }
  EXPECT_THAT(homes,
              ElementsAre(std::tuple(0, false, 40, 20, 0),
                          std::tuple(9, false, 0, 0, 20),
                          std::tuple(0, true, 60, 60, 0)));
}

// A block of [4, 5] MiB and the hole of [15, 16] behind it.
TEST(Summarize, KeepsBounds) {
  const Recording recording =
      RecordingBuilder().segment({100 * kMiB}, {live(4 * kMiB), hole(16 * kMiB)}).build();
  HeapState state = end_state(recording, 0);
  state.blocks[0].slack_bytes = kMiB;
  state.blocks[1].slack_bytes = kMiB;

  const StateSummary summary = summarize(state, {});

  EXPECT_EQ(summary.allocated_bytes, (Bounds{4 * kMiB, 5 * kMiB}));
  EXPECT_EQ(summary.free_bytes, (Bounds{15 * kMiB, 16 * kMiB}));
  EXPECT_EQ(summary.largest_hole_bytes, (Bounds{15 * kMiB, 16 * kMiB}));
  EXPECT_EQ(summary.inactive_split_bytes, (Bounds{15 * kMiB, 16 * kMiB}));
  EXPECT_EQ(summary.gap.stuck_bytes + *summary.gap.rounding_bytes + summary.gap.pending_bytes +
                summary.gap.releasable_bytes,
            summary.reserved_bytes - *summary.requested_bytes);
}

TEST(Summarize, LeavesRequestedUnknownWhereABlockLacksIt) {
  Recording recording = RecordingBuilder().segment({100 * kMiB}, {live(20 * kMiB)}).build();
  recording.blocks[0].has_requested = false;

  const StateSummary summary = summarize(end_state(recording, 0), {});

  EXPECT_FALSE(summary.requested_bytes);
  EXPECT_FALSE(summary.gap.rounding_bytes);
}

std::uint64_t releasable(const std::vector<testing::BlockSpec>& blocks,
                         bool expandable,
                         bool pending_is_free) {
  const Recording recording =
      RecordingBuilder().segment({1000 * kMiB, SizeClass::kLarge, expandable}, blocks).build();
  const HeapState state = end_state(recording, 0);
  return releasable_bytes(state, state.segments[0], {}, pending_is_free) / kMiB;
}

TEST(ReleasableBytes, AreAllOrNothingOfAPlainSegment) {
  EXPECT_EQ(releasable({hole(40 * kMiB)}, false, false), 40U);
  EXPECT_EQ(releasable({hole(39 * kMiB), live(kMiB)}, false, false), 0U);
  EXPECT_EQ(releasable({hole(20 * kMiB), pending(20 * kMiB)}, false, false), 0U);
  EXPECT_EQ(releasable({hole(20 * kMiB), pending(20 * kMiB)}, false, true), 40U);
}

// Pages of 20 MiB: of a hole from 10 to 70 the pages 20-40 and 40-60 lie inside.
TEST(ReleasableBytes, AreWholePagesOfAnExpandableSegment) {
  EXPECT_EQ(releasable({live(10 * kMiB), hole(60 * kMiB), live(10 * kMiB)}, true, false), 40U);
  EXPECT_EQ(releasable({live(20 * kMiB), hole(60 * kMiB)}, true, false), 60U);
  EXPECT_EQ(releasable({live(21 * kMiB), hole(18 * kMiB), live(kMiB)}, true, false), 0U);
  EXPECT_EQ(releasable({live(10 * kMiB), pending(30 * kMiB), hole(40 * kMiB)}, true, false), 40U);
  EXPECT_EQ(releasable({live(10 * kMiB), pending(30 * kMiB), hole(40 * kMiB)}, true, true), 60U);
}

TEST(FreeRuns, JoinHolesAndWhereAskedPendingBlocks) {
  const Recording recording =
      RecordingBuilder()
          .segment({0},
                   {pending(kMiB), hole(2 * kMiB), live(kMiB), hole(3 * kMiB), pending(4 * kMiB)})
          .build();
  const HeapState state = end_state(recording, 0);
  const auto runs = [&state](bool pending_is_free) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> found;
    for_each_free_run(state,
                      state.segments[0],
                      pending_is_free,
                      [&](std::uint64_t begin, std::uint64_t end, std::uint32_t) {
                        found.emplace_back(begin / kMiB, end / kMiB);
                      });
    return found;
  };

  EXPECT_THAT(runs(false), ElementsAre(std::pair(1, 3), std::pair(4, 7)));
  EXPECT_THAT(runs(true), ElementsAre(std::pair(0, 3), std::pair(4, 11)));
}

}  // namespace
}  // namespace fragscope::model
