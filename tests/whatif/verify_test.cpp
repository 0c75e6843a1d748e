// SPDX-License-Identifier: Apache-2.0
// A program that our policy ran, recorded, is decided again as it was; and where something else was
// recorded, that is found.
#include "analyzer/whatif/recorded/verify.hpp"

#include "allocator/policy/device/simulated_device.hpp"
#include "allocator/policy/inspect/heap_check.hpp"
#include "analyzer/verdict/running/policy_heap.hpp"
#include "analyzer/whatif/program/program_of_trace.hpp"
#include "analyzer/whatif/recorded/proof.hpp"
#include "analyzer/whatif/recorded/settle.hpp"
#include "analyzer/whatif/replay.hpp"
#include "tests/recorder/recorded_program.hpp"
#include "tests/recorder/recorder_fixture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace fragscope::whatif::test {
namespace {

using recorder::test::ReadBack;
using recorder::test::RecordedProgram;

class VerifyTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(directory_); }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  /// A random program of so many steps, as its ring shows it.
  [[nodiscard]] ReadBack recorded_ring(std::uint32_t seed,
                                       std::uint64_t steps,
                                       recorder::test::RingSize size = {}) const {
    std::string path;
    {
      RecordedProgram job(seed, directory_, size, true);
      job.run(steps);
      path = job.ring_path();
    }
    Result<ReadBack> back = recorder::test::read_ring(path);
    FRAGSCOPE_CHECK(back.has_value());
    std::filesystem::remove(path);
    return std::move(*back);
  }
  [[nodiscard]] Program recorded(std::uint32_t seed, std::uint64_t steps) const {
    const ReadBack back = recorded_ring(seed, steps);
    Result<Program> program = program_of_trace(*back.history, back.recording);
    FRAGSCOPE_CHECK(program.has_value());
    settle(*program);
    return std::move(*program);
  }
  /// The end of a program whose ring came round.
  [[nodiscard]] Program recorded_end(std::uint32_t seed) const {
    const ReadBack back =
        recorded_ring(seed, 6000, {std::uint64_t{1} << 12, std::uint64_t{1} << 16});
    Result<Program> program = program_of_trace(*back.history, back.recording);
    FRAGSCOPE_CHECK(program.has_value());
    settle(*program);
    return std::move(*program);
  }

 private:
  std::string directory_ = ::testing::TempDir() + "/fragscope_verify_" + std::to_string(::getpid());
};

/// How many random programs are tried; FRAGSCOPE_SEEDS sets it.
std::uint32_t seeds(std::uint32_t usual) {
  const char* text = std::getenv("FRAGSCOPE_SEEDS");
  return text == nullptr ? usual : static_cast<std::uint32_t>(std::stoul(text));
}

std::string what_differs(const Program& program) {
  const Verification found = verify(program);
  if (!found.first) return found.problem;
  return "op " + std::to_string(found.first->op) + ": " + found.first->what;
}

TEST_F(VerifyTest, DecidesRandomProgramsAsTheyWereDecided) {
  for (std::uint32_t seed = 1; seed <= seeds(60); ++seed) {
    SCOPED_TRACE(seed);
    const Program program = recorded(seed, 1500);
    EXPECT_EQ(what_differs(program), "");
    EXPECT_GT(program.ops.size(), 500U);
  }
}

// What the collector gave back before a second try, or without one, was complete before the
// request.
TEST_F(VerifyTest, DecidesWhatIsCollectedRightAfterAFreeAsItWasDecided) {
  for (const std::uint32_t seed : {322U, 718U, 1143U}) {
    SCOPED_TRACE(seed);
    EXPECT_EQ(what_differs(recorded(seed, 1500)), "");
  }
}

// Address space was reserved for a request that was refused, and used later.
TEST_F(VerifyTest, DecidesAsItWasDecidedWithAddressSpaceThatStayedEmptyAtFirst) {
  EXPECT_EQ(what_differs(recorded(2588, 1500)), "");
}

/// "0x2000 L512 P1024 H2048": a heap's blocks by address.
std::string blocks_of(const model::HeapState& heap) {
  std::string text;
  for (const model::HeapSegment& segment : heap.segments) {
    text += "\n" + std::to_string(segment.address);
    std::uint64_t hole = 0;  // what belongs together may not be merged yet
    for (const model::HeapBlock& block : heap.blocks_of(segment)) {
      const bool is_free = block.state == model::BlockState::kFree;
      hole = is_free ? hole + block.size_bytes : 0;
      text += is_free ? "" : " U" + std::to_string(block.size_bytes);
      text += is_free ? "" : "/" + std::to_string(block.requested_bytes);
      const bool ends = &block == &heap.blocks_of(segment).back() ||
                        (&block + 1)->state != model::BlockState::kFree;
      if (is_free && ends) text += " H" + std::to_string(hole);
    }
  }
  return text;
}

TEST_F(VerifyTest, BeginsWithTheHeapOfARingThatCameRound) {
  for (std::uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    const ReadBack back =
        recorded_ring(seed, 6000, {std::uint64_t{1} << 12, std::uint64_t{1} << 16});
    const auto program = program_of_trace(*back.history, back.recording);
    ASSERT_TRUE(program);
    EXPECT_GT(program->first_event, 0);
    EXPECT_TRUE(program->doubts.empty()) << program->doubts.front();
    policy::SimulatedDevice device(program->total_bytes());
    const Replay replay(*program, Replay::settings_of(*program), device);
    EXPECT_EQ(policy::broken_invariant(replay.policy()), "");
    const std::array begin = {program->first_event};
    back.history->visit_states_until(begin, [&](model::EventIndex, model::HeapState& heap) {
      EXPECT_EQ(blocks_of(verdict::heap_of(replay.policy()).heap), blocks_of(heap));
      return false;
    });
  }
}

TEST_F(VerifyTest, DecidesWhatComesAfterAKeyframeAsItWasDecided) {
  for (std::uint32_t seed = 1; seed <= seeds(50); ++seed) {
    SCOPED_TRACE(seed);
    EXPECT_EQ(what_differs(recorded_end(seed)), "");
  }
}

// Each begins with something that its keyframe alone does not show, or not at once: a block that
// was used on another stream before, a request under way, address space without pages.
TEST_F(VerifyTest, DecidesWhatDependsOnMoreThanTheBlocksAsItWasDecided) {
  for (const std::uint32_t seed : {55U, 919U, 962U, 1052U, 1556U, 3984U, 4121U, 4285U}) {
    SCOPED_TRACE(seed);
    EXPECT_EQ(what_differs(recorded_end(seed)), "");
  }
}

TEST_F(VerifyTest, RunsTheEndOfALongHistoryFromAKeyframe) {
  const ReadBack back = recorded_ring(7, 20000, {std::uint64_t{1} << 15, std::uint64_t{1} << 16});
  const auto whole = back.history->last_stretch();
  constexpr std::uint64_t kAtMost = 8000;
  const Proof proof = prove(0, program_of_trace(*back.history, back.recording, kAtMost));
  ASSERT_EQ(proof.reason, "");
  EXPECT_FALSE(proof.found.first) << proof.found.first->what;
  EXPECT_GT(proof.first_event, whole.begin);
  EXPECT_LE(whole.end - proof.first_event, static_cast<model::EventIndex>(kAtMost));
  EXPECT_TRUE(proof.covers(whole.end - 1));
  EXPECT_TRUE(proof.covers(proof.first_event));
  EXPECT_FALSE(proof.covers(proof.first_event - 1));
}

TEST_F(VerifyTest, BeginsAtTheLastKeyframeIfEvenThatIsTooMuch) {
  const ReadBack back = recorded_ring(7, 20000, {std::uint64_t{1} << 15, std::uint64_t{1} << 16});
  const auto last = back.history->last_stretch(0);
  EXPECT_LT(last.begin, last.end);
  EXPECT_GE(last.begin, back.history->last_stretch(8000).begin);
  EXPECT_GT(last.begin, back.history->last_stretch().begin);
}

TEST(ProofTest, SaysWhyNothingWasRun) {
  const Proof proof = prove(2, failure(ErrorCode::kForeign, "the snapshot has no history"));
  EXPECT_EQ(proof.device, 2);
  EXPECT_EQ(proof.reason, "the snapshot has no history");
  EXPECT_FALSE(proof.covers(0));
}

TEST_F(VerifyTest, CoversWhatLiesBeforeTheFirstDifference) {
  Program program = recorded(3, 1500);
  const auto last =
      std::ranges::find_if(program.ops.rbegin(), program.ops.rend(), [](const Op& op) {
        return op.kind == OpKind::kAllocate && !op.failed;
      });
  last->failed = true;
  const model::EventIndex event = program.event_of(*last);
  const Proof proof = prove(0, std::move(program));
  EXPECT_EQ(proof.differs_at, event);
  EXPECT_TRUE(proof.covers(event - 1));
  EXPECT_FALSE(proof.covers(event));
}

TEST_F(VerifyTest, FindsARecordedDecisionThatTheRulesDoNotMake) {
  Program program = recorded(3, 1500);
  const auto handed_out = std::ranges::find_if(
      program.ops, [](const Op& op) { return op.kind == OpKind::kAllocate && !op.failed; });
  const auto at = static_cast<std::size_t>(handed_out - program.ops.begin()) + 500;
  const auto changed =
      std::find_if(program.ops.begin() + static_cast<std::ptrdiff_t>(at),
                   program.ops.end(),
                   [](const Op& op) { return op.kind == OpKind::kAllocate && !op.failed; }) -
      program.ops.begin();
  program.addresses[static_cast<std::size_t>(changed)] += 512;
  const Verification found = verify(program);
  ASSERT_TRUE(found.first);
  EXPECT_EQ(found.first->op, static_cast<std::size_t>(changed));
  EXPECT_EQ(found.agreed, static_cast<std::size_t>(changed));
}

TEST_F(VerifyTest, FindsARefusalThatTheRulesDoNotMake) {
  Program program = recorded(3, 1500);
  const auto last =
      std::ranges::find_if(program.ops.rbegin(), program.ops.rend(), [](const Op& op) {
        return op.kind == OpKind::kAllocate && !op.failed;
      });
  last->failed = true;
  const Verification found = verify(program);
  ASSERT_TRUE(found.first);
  EXPECT_NE(found.first->what.find("refuses"), std::string::npos) << found.first->what;
}

TEST_F(VerifyTest, FindsASegmentOfAnotherSize) {
  Program program = recorded(5, 1500);
  ASSERT_FALSE(program.device_calls.empty());
  program.device_calls.back().size += policy::kMiB;
  EXPECT_TRUE(verify(program).first);
}

}  // namespace
}  // namespace fragscope::whatif::test
