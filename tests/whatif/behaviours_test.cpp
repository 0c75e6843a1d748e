// SPDX-License-Identifier: Apache-2.0
// Behaviours of PyTorch's allocator that people met and reported, with the figures of their
// reports: what a replay must show again. Each test names the report.
#include "allocator/policy/caching_policy.hpp"
#include "allocator/policy/device/simulated_device.hpp"
#include "analyzer/verdict/running/policy_failure.hpp"
#include "trace/check.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fragscope::whatif::test {
namespace {

using policy::Block;
using policy::kGiB;
using policy::kMiB;
using verdict::VerdictKind;

constexpr std::uint64_t gib(double value) {
  return static_cast<std::uint64_t>(value * static_cast<double>(kGiB));
}

/// A program on a device of its own.
class Job {
 public:
  explicit Job(std::uint64_t device_bytes, const std::string& conf = "")
      : device_(device_bytes)
      , policy_(device_, streams_, options_of(conf)) {}

  [[nodiscard]] Block* ask(std::uint64_t bytes, policy::StreamId stream = 0) {
    asked_on_ = stream;
    return policy_.allocate(bytes, stream);
  }
  Block& keep(std::uint64_t bytes, policy::StreamId stream = 0) {
    Block* block = ask(bytes, stream);
    FRAGSCOPE_CHECK(block != nullptr);
    return *block;
  }
  void free(const Block& block) { FRAGSCOPE_CHECK(policy_.free(block.address)); }
  void use_and_free(std::uint64_t bytes, policy::StreamId stream = 0) { free(keep(bytes, stream)); }

  [[nodiscard]] std::uint64_t reserved() const { return policy_.held_bytes(); }
  [[nodiscard]] std::uint64_t allocated() const {
    return static_cast<std::uint64_t>(policy_.statistics().allocated_bytes.all.current);
  }
  /// Of the request that was refused last.
  [[nodiscard]] verdict::Verdict verdict() const {
    return verdict::judge_failure(policy_, 0, asked_on_, "the simulated device").verdict;
  }
  [[nodiscard]] policy::CachingPolicy& policy() { return policy_; }
  [[nodiscard]] policy::SimulatedDevice& device() { return device_; }
  [[nodiscard]] policy::SimulatedStreams& streams() { return streams_; }

 private:
  static policy::PolicyOptions options_of(const std::string& conf) {
    policy::PolicyOptions options;
    FRAGSCOPE_CHECK(!policy::apply_conf(conf, options.version, options.conf));
    return options;
  }

  policy::SimulatedDevice device_;
  policy::SimulatedStreams streams_;
  policy::CachingPolicy policy_;
  policy::StreamId asked_on_ = 0;
};

// github.com/pytorch/pytorch/issues/35901
TEST(Behaviours, H1SmallBlocksPinOneLargeSegment) {
  constexpr std::uint64_t kSegment = 11'643'387'904;
  Job job(gib(23.65));
  const Block& large = job.keep(kSegment);
  job.keep(gib(1.69));  // What else was reserved.
  job.device().set_outside_bytes(gib(23.65 - 10.26) - job.reserved());
  job.free(large);
  std::uint64_t left = 499'214'336;
  for (const std::uint64_t bytes : {16515072U, 16515072U, 11400192U, 18191360U}) {
    job.keep(bytes);
    left -= bytes;
  }
  job.keep(left);

  ASSERT_EQ(job.ask(gib(10.84)), nullptr);
  EXPECT_LT(job.policy().largest_free_block(), gib(10.84));
  EXPECT_EQ(job.reserved(), kSegment + policy::round_up(gib(1.69), 2 * kMiB));
  EXPECT_EQ(job.verdict().kind, VerdictKind::kFragmented);
  EXPECT_EQ(job.verdict().certainty, verdict::Certainty::kProven);
}

// github.com/vllm-project/vllm/pull/41268 and 51096
TEST(Behaviours, H2EachTurnStrandsARestUntilLargeBlocksAreNotSplit) {
  constexpr std::uint64_t kTurns = 10;
  const auto reserved_after = [](const std::string& conf) {
    Job job(80 * kGiB, conf);
    for (std::uint64_t turn = 0; turn < kTurns; ++turn) {
      job.use_and_free(530 * kMiB);
      job.keep(270 * kMiB);
    }
    return job.reserved();
  };
  EXPECT_EQ(reserved_after(""), kTurns * 530 * kMiB);
  EXPECT_EQ(reserved_after("max_split_size_mb:20"), 530 * kMiB + kTurns * 270 * kMiB);

  policy::AllocatorConf conf;
  ASSERT_FALSE(policy::apply_conf("max_split_size_mb:20", policy::TorchVersion::kTorch215, conf));
  ASSERT_FALSE(
      policy::apply_conf("expandable_segments:False", policy::TorchVersion::kTorch215, conf));
  EXPECT_EQ(conf.rules.max_split_size, policy::kUnlimited) << "any later string resets it";
}

// github.com/microsoft/DeepSpeed/issues/1611
TEST(Behaviours, H3TwoSegmentsDoNotBecomeOne) {
  const auto reserved_with = [](bool empties_cache) {
    Job job(80 * kGiB);
    const Block& first = job.keep(400'000'000);
    const Block& second = job.keep(400'000'000);
    job.free(first);
    job.free(second);
    if (empties_cache) static_cast<void>(job.policy().empty_cache());
    job.keep(800'000'000);
    return job.reserved();
  };
  EXPECT_EQ(reserved_with(false), 382 * kMiB * 2 + 764 * kMiB);
  EXPECT_EQ(reserved_with(true), 764 * kMiB);
}

// github.com/pytorch/pytorch/pull/44742
TEST(Behaviours, H4ManyIdleBytesInPiecesServeNothing) {
  Job job(32 * kGiB);
  std::vector<const Block*> pieces;
  // Each segment is left with 40 MiB in front, and the rest of it is held; nothing of the card is
  // left beside them.
  while (Block* whole = job.ask(100 * kMiB)) {
    job.free(*whole);
    pieces.push_back(&job.keep(40 * kMiB));
    job.keep(60 * kMiB);
  }
  job.device().set_outside_bytes(32 * kGiB - job.reserved());
  for (const Block* piece : pieces)
    job.free(*piece);
  const std::uint64_t idle = job.reserved() - job.allocated();
  EXPECT_GT(idle, 12 * kGiB);
  ASSERT_EQ(job.ask(50'000'000), nullptr);
  EXPECT_EQ(job.verdict().kind, VerdictKind::kFragmented);
}

// github.com/pytorch/pytorch/issues/159674
TEST(Behaviours, H5AnOpenPoolKeepsItsCache) {
  Job job(80 * kGiB);
  const policy::PoolId pool{0, 1};
  ASSERT_TRUE(job.policy().begin_allocate_to_pool(pool, [](policy::StreamId) { return true; }));
  job.use_and_free(60 * kGiB);
  EXPECT_EQ(job.ask(70 * kGiB), nullptr);
  ASSERT_TRUE(job.policy().end_allocate_to_pool(pool));
  ASSERT_TRUE(job.policy().release_pool(pool));
  EXPECT_NE(job.ask(70 * kGiB), nullptr);
}

// github.com/vllm-project/vllm/issues/52950
TEST(Behaviours, H6EachNewStreamHasACacheOfItsOwn) {
  constexpr std::uint64_t kStreams = 32;
  Job job(128 * kGiB);
  std::vector<std::uint64_t> reserved;
  for (std::uint64_t step = 0; step < 3 * kStreams; ++step) {
    const policy::StreamId stream = 1 + step % kStreams;
    const Block& first = job.keep(kGiB, stream);
    const Block& second = job.keep(kGiB, stream);
    job.free(first);
    job.free(second);
    EXPECT_EQ(job.allocated(), 0U);
    reserved.push_back(job.reserved());
  }
  for (std::uint64_t step = 1; step < kStreams; ++step)
    EXPECT_EQ(reserved[step] - reserved[step - 1], 2 * kGiB);
  for (std::uint64_t step = kStreams; step < reserved.size(); ++step)
    EXPECT_EQ(reserved[step], reserved[kStreams - 1]) << "a plateau, not a leak";
}

// github.com/pytorch/pytorch/issues/189504
TEST(Behaviours, H7WhatIsPendingServesTheSecondTry) {
  Job job(kGiB);
  const Block& whole = job.keep(900 * kMiB);
  job.free(whole);
  Block& front = job.keep(600 * kMiB);
  job.keep(300 * kMiB);
  job.streams().hold(7);
  job.policy().record_stream(front, 7);
  job.free(front);
  ASSERT_EQ(job.ask(500 * kMiB), nullptr);
  const std::uint64_t reserved = job.reserved();
  EXPECT_NE(job.ask(500 * kMiB), nullptr);
  EXPECT_EQ(job.reserved(), reserved);
}

// github.com/pytorch/pytorch/pull/193400 and issues/123548
TEST(Behaviours, H8NoSplittingAndExpandableSegmentsTogetherGrow) {
  const auto reserved_mib = [](const std::string& conf) {
    Job job(80 * kGiB, conf);
    job.keep(64 * kMiB);
    std::vector<std::uint64_t> samples;
    for (int cycle = 0; cycle <= 100; ++cycle) {
      const Block& first = job.keep(91 * kMiB);
      const Block& second = job.keep(91 * kMiB / 2);
      job.keep(2 * kMiB);
      job.free(first);
      job.free(second);
      if (cycle % 20 == 0) samples.push_back(job.reserved() / kMiB);
    }
    return samples;
  };
  EXPECT_EQ(reserved_mib("max_split_size_mb:128,expandable_segments:True"),
            (std::vector<std::uint64_t>{220, 2980, 5760, 8520, 11300, 14060}));
  EXPECT_LT(reserved_mib("max_split_size_mb:128").back(), 500U);
  EXPECT_LT(reserved_mib("expandable_segments:True").back(), 500U);
}

// github.com/pytorch/torchrec/pull/4584: 77 GiB allocated at most, 93 reserved, 16 stranded.
class Stranded : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kRequest = 9 * kGiB;
  static constexpr std::uint64_t kLive = 68 * kGiB;

  /// Reserved after the request, with or without a release of the cache in front of it.
  template <class Prepare>
  static std::array<std::uint64_t, 2> reserved_after(Prepare prepare) {
    std::array<std::uint64_t, 2> reserved = {};
    for (const bool empties_cache : {false, true}) {
      Job job(128 * kGiB);
      prepare(job);
      if (empties_cache) static_cast<void>(job.policy().empty_cache());
      job.keep(kRequest);
      EXPECT_EQ(job.allocated(), kLive + kRequest);
      reserved[empties_cache ? 1 : 0] = job.reserved();
    }
    return reserved;
  }
};

TEST_F(Stranded, H11SoftIdleSegmentsThatDoNotMerge) {
  const auto prepare = [](Job& job) {
    job.keep(kLive);
    std::vector<const Block*> idle;
    idle.reserve(4);
    for (int i = 0; i < 4; ++i)
      idle.push_back(&job.keep(4 * kGiB));
    for (const Block* block : idle)
      job.free(*block);
  };
  EXPECT_EQ(reserved_after(prepare), (std::array{93 * kGiB, 77 * kGiB}));
}

TEST_F(Stranded, H11SoftIsCuredByOneLargeBlockInAdvance) {
  Job job(128 * kGiB);
  job.use_and_free(16 * kGiB);  // The four then come out of one segment,
  job.keep(kLive);
  std::vector<const Block*> idle;
  idle.reserve(4);
  for (int i = 0; i < 4; ++i)
    idle.push_back(&job.keep(4 * kGiB));
  for (const Block* block : idle)
    job.free(*block);
  job.keep(kRequest);  // and become one block again.
  EXPECT_EQ(job.reserved(), kLive + 16 * kGiB);
}

TEST_F(Stranded, H11HardACombOfLiveBlocks) {
  const auto prepare = [](Job& job) {
    // Four segments of 21 GiB, each with a hole of 4 GiB between what lives.
    std::vector<const Block*> holes;
    for (int i = 0; i < 4; ++i) {
      job.use_and_free(21 * kGiB);
      job.keep(8 * kGiB);
      holes.push_back(&job.keep(4 * kGiB));
      job.keep(9 * kGiB);
    }
    for (const Block* hole : holes)
      job.free(*hole);
  };
  EXPECT_EQ(reserved_after(prepare), (std::array{93 * kGiB, 93 * kGiB}));
}

TEST_F(Stranded, H11StreamAnotherOnesIdleSegments) {
  const auto prepare = [](Job& job) {
    job.keep(kLive);
    job.use_and_free(16 * kGiB, 5);
  };
  EXPECT_EQ(reserved_after(prepare), (std::array{93 * kGiB, 77 * kGiB}));
}

// github.com/pytorch/pytorch/issues/111363
TEST(Behaviours, H12TheLimitRefusesWhatTheCardHas) {
  Job job(gib(79.15));
  job.policy().set_memory_fraction(0.5);
  job.keep(gib(39.52));
  ASSERT_EQ(job.ask(64 * kMiB), nullptr);
  EXPECT_EQ(job.verdict().kind, VerdictKind::kLimit);
  EXPECT_EQ(job.verdict().certainty, verdict::Certainty::kProven);

  Job without(gib(79.15));
  without.keep(gib(39.52));
  EXPECT_NE(without.ask(64 * kMiB), nullptr);
}

}  // namespace
}  // namespace fragscope::whatif::test
