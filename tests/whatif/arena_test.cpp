// SPDX-License-Identifier: Apache-2.0
// The plain allocators that PyTorch's rules are compared with: by hand, and against a list of what
// lies where.
#include "analyzer/whatif/arena/arena.hpp"

#include "allocator/policy/size_rules.hpp"
#include "analyzer/whatif/arena/arena_replay.hpp"
#include "analyzer/whatif/program/program_builder.hpp"
#include "analyzer/whatif/variant.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <random>
#include <string>

namespace fragscope::whatif::test {
namespace {

using policy::kGiB;
using policy::kKiB;
using policy::kMiB;

constexpr std::uint64_t kRoom = 256 * kMiB;

std::uint64_t must(std::optional<std::uint64_t> offset) {
  return offset.value_or(~std::uint64_t{0});
}

class ArenaTest : public ::testing::TestWithParam<ArenaKind> {
 protected:
  std::unique_ptr<Arena> arena_ = make_arena(GetParam());
};

INSTANTIATE_TEST_SUITE_P(Kinds,
                         ArenaTest,
                         ::testing::ValuesIn(all_arena_kinds().begin(), all_arena_kinds().end()),
                         [](const auto& kind) {
                           std::string name(to_string(kind.param));
                           std::erase(name, '-');
                           return name;
                         });

TEST_P(ArenaTest, NeverHandsOutWhatIsInUse) {
  std::mt19937_64 random(20261130);
  std::map<std::uint64_t, std::uint64_t> blocks;  // size by offset
  std::uint64_t used = 0;
  std::uint64_t refused = 0;
  for (int step = 0; step < 20000; ++step) {
    if (blocks.empty() || random() % 5 < 3) {
      const std::uint64_t bytes = 1 + random() % (random() % 3 == 0 ? 20 * kMiB : 40 * kKiB);
      const auto offset = arena_->allocate(bytes, kRoom);
      if (!offset) {
        ++refused;
        continue;
      }
      const std::uint64_t size = arena_->block_bytes(bytes);
      ASSERT_GE(size, bytes);
      ASSERT_EQ(*offset % kArenaGrain, 0U);
      ASSERT_LE(*offset + size, kRoom);
      const auto [block, is_new] = blocks.emplace(*offset, size);
      ASSERT_TRUE(is_new);
      const auto next = std::next(block);
      if (next != blocks.end()) {
        ASSERT_LE(*offset + size, next->first);
      }
      if (block != blocks.begin()) {
        ASSERT_LE(std::prev(block)->first + std::prev(block)->second, *offset);
      }
      used += size;
    } else {
      auto block = blocks.lower_bound(random() % kRoom);
      if (block == blocks.end()) block = blocks.begin();
      arena_->free(block->first);
      used -= block->second;
      blocks.erase(block);
    }
    ASSERT_EQ(arena_->used_bytes(), used);
  }
  EXPECT_GT(refused, 0U);
}

TEST_P(ArenaTest, IsOneHoleOnceAllIsFree) {
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t i = 1; i <= 300; ++i)
    offsets.push_back(must(arena_->allocate(i * 700, kRoom)));
  std::mt19937_64 random(1);
  std::ranges::shuffle(offsets, random);
  for (const std::uint64_t offset : offsets)
    arena_->free(offset);
  EXPECT_EQ(arena_->used_bytes(), 0U);
  EXPECT_EQ(arena_->largest_hole(), GetParam() == ArenaKind::kNeverReuse ? 0 : arena_->end());
}

TEST_P(ArenaTest, EndsAtItsCapacity) {
  EXPECT_EQ(must(arena_->allocate(kMiB, kMiB)), 0U);
  EXPECT_FALSE(arena_->allocate(1, kMiB));
  EXPECT_EQ(arena_->end(), kMiB);
}

TEST(BestFitArena, TakesTheSmallestHoleThatFits) {
  const auto arena = make_arena(ArenaKind::kBestFit);
  const std::uint64_t large = must(arena->allocate(8 * kKiB, kRoom));
  static_cast<void>(arena->allocate(512, kRoom));
  const std::uint64_t small = must(arena->allocate(4 * kKiB, kRoom));
  static_cast<void>(arena->allocate(512, kRoom));
  arena->free(large);
  arena->free(small);
  EXPECT_EQ(arena->allocate(3 * kKiB, kRoom), small);
  EXPECT_EQ(arena->allocate(5 * kKiB, kRoom), large);
  EXPECT_EQ(arena->allocate(kKiB, kRoom), small + 3 * kKiB);
}

// 33 KiB and 34 KiB have classes of their own (one for each KiB from 32 on); of two holes in a
// class the one that came last is taken.
TEST(SegregatedFitArena, TakesTheNewestHoleOfTheClass) {
  const auto arena = make_arena(ArenaKind::kTlsf);
  const std::uint64_t first = must(arena->allocate(34 * kKiB, kRoom));
  static_cast<void>(arena->allocate(512, kRoom));
  const std::uint64_t second = must(arena->allocate(34 * kKiB + 512, kRoom));
  static_cast<void>(arena->allocate(512, kRoom));
  arena->free(first);
  arena->free(second);
  EXPECT_EQ(arena->allocate(33 * kKiB + 512, kRoom), second);
  EXPECT_EQ(arena->allocate(34 * kKiB, kRoom), first);
}

TEST(SegregatedFitArena, PassesOverAHoleOfItsOwnClassThatMayBeTooSmall) {
  const auto arena = make_arena(ArenaKind::kTlsf);
  const std::uint64_t hole = must(arena->allocate(34 * kKiB + 512, kRoom));
  static_cast<void>(arena->allocate(512, kRoom));
  arena->free(hole);
  const std::uint64_t end = arena->end();
  EXPECT_EQ(arena->allocate(34 * kKiB + 512, kRoom), end);
}

TEST(BuddyArena, SplitsAndMergesHalves) {
  const auto arena = make_arena(ArenaKind::kBuddy);
  const std::uint64_t a = must(arena->allocate(5 * kKiB, kRoom));  // 8 KiB
  const std::uint64_t b = must(arena->allocate(8 * kKiB, kRoom));
  const std::uint64_t c = must(arena->allocate(8 * kKiB, kRoom));
  EXPECT_EQ(arena->used_bytes(), 24 * kKiB);
  EXPECT_EQ(b, 8 * kKiB);
  EXPECT_EQ(c, 16 * kKiB);
  arena->free(b);
  arena->free(c);  // Beside b, but not its other half.
  EXPECT_EQ(arena->allocate(9 * kKiB, kRoom), 16 * kKiB);
  arena->free(a);
  EXPECT_EQ(arena->allocate(16 * kKiB, kRoom), 0U);
}

TEST(BuddyArena, FindsARoomyLowBlockThoughSmallerOnesLieBehindTheCapacity) {
  const auto arena = make_arena(ArenaKind::kBuddy);
  constexpr std::uint64_t kFive = 5 * kArenaGrain;
  const std::uint64_t low = must(arena->allocate(4 * kArenaGrain, kFive));
  EXPECT_EQ(arena->allocate(kArenaGrain, kFive), 4 * kArenaGrain);
  EXPECT_FALSE(arena->allocate(kArenaGrain, kFive));
  arena->free(low);
  EXPECT_EQ(arena->allocate(kArenaGrain, kFive), 0U);
}

TEST(ArenaKinds, AreSpelledAsOnTheCommandLine) {
  for (const ArenaKind kind : all_arena_kinds())
    EXPECT_EQ(arena_kind(to_string(kind)), kind);
  EXPECT_FALSE(arena_kind("2.15"));
}

/// Twice 100 MiB and 50 MiB between them; both are freed, then 150 MiB are asked for.
Program with_a_middle() {
  ProgramBuilder builder;
  builder.program().device_bytes = 320 * kMiB;
  builder.allocate(kGiB, 100 * kMiB, {});
  builder.allocate(2 * kGiB, 50 * kMiB, {});
  builder.allocate(3 * kGiB, 100 * kMiB, {});
  builder.free(kGiB);
  builder.complete(kGiB);
  builder.free(3 * kGiB);
  builder.complete(3 * kGiB);
  builder.allocate(4 * kGiB, 150 * kMiB, {});
  return builder.finish();
}

Outcome under(const Program& program, ArenaKind kind) {
  return run(program, with_arena(recorded_variant(program).value(), kind));
}

TEST(ArenaVariant, GrowsByTheHoleAtItsEnd) {
  const Outcome outcome = under(with_a_middle(), ArenaKind::kBestFit);
  EXPECT_FALSE(outcome.first_failure);
  EXPECT_EQ(outcome.peak_reserved_bytes, 300 * kMiB);
  EXPECT_EQ(outcome.peak_allocated_bytes, 250 * kMiB);
  EXPECT_EQ(outcome.driver_allocations, 4U);
}

TEST(ArenaVariant, SumsUpWhatIsNeverReused) {
  const Program program = with_a_middle();
  const Outcome outcome = under(program, ArenaKind::kNeverReuse);
  ASSERT_TRUE(outcome.first_failure);
  EXPECT_EQ(outcome.first_failure->bytes, 150 * kMiB);
  EXPECT_EQ(outcome.first_failure->verdict.kind, verdict::VerdictKind::kCapacity);
  EXPECT_EQ(outcome.first_failure->verdict.short_by_bytes, 80 * kMiB);
  EXPECT_TRUE(outcome.is_cut_short);
}

// 128 + 64 + 128 MiB: the last one begins at 256 and would end at 384.
TEST(ArenaVariant, RoundsToPowersOfTwoUnderBuddies) {
  const Outcome outcome = under(with_a_middle(), ArenaKind::kBuddy);
  ASSERT_TRUE(outcome.first_failure);
  EXPECT_EQ(outcome.first_failure->op, 2U);
  EXPECT_EQ(outcome.first_failure->verdict.kind, verdict::VerdictKind::kFragmented);
}

TEST(ArenaVariant, OthersAndALimitTakeOfTheCapacity) {
  const Program program = with_a_middle();
  Variant variant = with_arena(recorded_variant(program).value(), ArenaKind::kBestFit);
  variant.outside_changes = {{0, 20 * kMiB}};
  EXPECT_FALSE(run(program, variant).first_failure);
  variant.limit_bytes = 299 * kMiB;
  const Outcome outcome = run(program, variant);
  ASSERT_TRUE(outcome.first_failure);
  EXPECT_EQ(outcome.first_failure->verdict.kind, verdict::VerdictKind::kFragmented);
}

TEST(ArenaVariant, RefusesWhatNoRoundingHolds) {
  ProgramBuilder builder;
  builder.program().device_bytes = kGiB;
  builder.fail(~std::uint64_t{0}, {});
  builder.fail(~std::uint64_t{0} / 2 + 2, {});
  const Program program = builder.finish();
  for (const ArenaKind kind : all_arena_kinds()) {
    const Outcome outcome = under(program, kind);
    EXPECT_EQ(outcome.failures, 2U);
    ASSERT_TRUE(outcome.first_failure);
    EXPECT_EQ(outcome.first_failure->verdict.kind, verdict::VerdictKind::kCapacity);
  }
}

/// A block that another stream used, freed, and complete only after the next request.
Program with_a_waiting_block() {
  ProgramBuilder builder;
  builder.program().device_bytes = 250 * kMiB;
  builder.allocate(kGiB, 100 * kMiB, {});
  builder.record_stream(kGiB, 7);
  builder.free(kGiB);
  builder.allocate(2 * kGiB, 100 * kMiB, {});
  builder.complete(kGiB);
  builder.allocate(3 * kGiB, 100 * kMiB, {});
  return builder.finish();
}

TEST(ArenaVariant, KeepsABlockUntilOtherStreamsAreDone) {
  const Program program = with_a_waiting_block();
  EXPECT_EQ(under(program, ArenaKind::kBestFit).peak_reserved_bytes, 200 * kMiB);
}

TEST(ArenaVariant, WaitsForOtherStreamsWhereMemoryIsShort) {
  const Program program = with_a_waiting_block();
  Variant variant = with_arena(recorded_variant(program).value(), ArenaKind::kBestFit);
  variant.device_bytes = 199 * kMiB;
  const Outcome outcome = run(program, variant);
  ASSERT_TRUE(outcome.first_failure);  // The second is served by waiting, the third is not.
  EXPECT_EQ(outcome.first_failure->op, program.ops.size() - 1);
  EXPECT_EQ(outcome.peak_reserved_bytes, 100 * kMiB);
}

TEST(ArenaVariant, SplitsTheGapAtThePeak) {
  const Program program = with_a_waiting_block();
  const Variant variant = with_arena(recorded_variant(program).value(), ArenaKind::kBestFit);
  const Outcome outcome = run(program, variant);
  const model::StateSummary peak = state_at_peak(program, variant, outcome);
  EXPECT_EQ(peak.reserved_bytes, 200 * kMiB);
  EXPECT_EQ(peak.gap.stuck_bytes + peak.gap.pending_bytes + peak.allocated_bytes.low,
            peak.reserved_bytes);
}

}  // namespace
}  // namespace fragscope::whatif::test
