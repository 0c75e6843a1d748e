// SPDX-License-Identifier: Apache-2.0
// Frees of blocks that several streams used while a graph is captured. Stream 0 is the current one.
#include "tests/policy/policy_fixture.hpp"

#include <utility>
#include <vector>

namespace fragscope::policy::test {
namespace {

constexpr PoolId kPool{0, 1};

class CaptureTest : public PolicyTest {
 protected:
  void use_version(TorchVersion version) {
    PolicyOptions options;
    options.version = version;
    use(kGiB, options);
  }
  void use_reuse() {
    PolicyOptions options;
    options.conf.graph_capture_record_stream_reuse = true;
    use(kGiB, options);
  }
  void begin(StreamId stream = 0) {
    streams().capture(stream);
    policy().begin_capture();
  }
  void end() {
    streams().end_capture();
    policy().end_capture();
  }
  /// A block at the start of the heap that streams 0 and 2 work on, each with a node of its own.
  Block& allocate_shared() {
    Block& block = allocate(512, 0);
    streams().capture_work(0);
    streams().join_capture(0, 2);
    policy().record_stream(block, 2);
    streams().capture_work(2);
    return block;
  }
  std::int64_t active() { return policy().statistics().active.all.current; }
};

class ReuseTest : public CaptureTest {
 protected:
  void SetUp() override {
    use_reuse();
    begin();
  }
};

TEST_F(CaptureTest, ABlockOfOneStreamIsFreeAtOnce) {
  begin();
  free(allocate(512));
  EXPECT_EQ(active(), 0);
  EXPECT_EQ(allocate(512).address, kBase);
  end();
}

TEST_F(CaptureTest, OthersWaitForTheEnd) {
  begin();
  free(allocate_shared());
  EXPECT_EQ(allocate(512).address, kBase + 512);
  end();
  EXPECT_EQ(allocate(512).address, kBase);
}

// What a capture records does not run, so stream 2 has nothing to finish.
TEST_F(CaptureTest, WhatItRecordedIsNotWaitedFor) {
  begin();
  free(allocate_shared());
  end();
  streams().hold(2);
  EXPECT_EQ(allocate(512).address, kBase);
  EXPECT_EQ(active(), 1);
}

TEST_F(CaptureTest, WhatCameBeforeItIsWaitedFor) {
  Block& block = allocate(512);
  policy().record_stream(block, 2);
  streams().hold(2);
  begin();
  free(block);
  end();
  EXPECT_EQ(allocate(512).address, kBase + 512);
  EXPECT_EQ(active(), 2);
  streams().release(2);
  EXPECT_EQ(allocate(512).address, kBase);
}

TEST_F(CaptureTest, IsNoMatterToAThreadOutside) {
  Block& block = allocate(512);
  policy().record_stream(block, 2);
  begin(1);
  free(block);
  EXPECT_EQ(allocate(512).address, kBase);
  end();
}

TEST_F(CaptureTest, EmptyCacheKeepsTheDefaultPool) {
  policy().begin_allocate_to_pool(kPool, [](StreamId) { return true; });
  free(allocate(3 * kMiB));
  policy().end_allocate_to_pool(kPool);
  policy().release_pool(kPool);
  free(allocate(512));
  begin();
  EXPECT_TRUE(policy().empty_cache());
  EXPECT_EQ(policy().held_bytes(), 2 * kMiB);  // The pool without users gave its 20 back.
  EXPECT_EQ(policy().statistics().num_sync_all_streams, 0);
  end();
}

TEST_F(CaptureTest, AnOpenScopeCountsAsOneUpTo29) {
  for (const auto& [version, expected] : {std::pair{TorchVersion::kTorch26, kBase + 512},
                                          std::pair{TorchVersion::kTorch215, kBase}}) {
    use_version(version);
    Block& block = allocate(512);
    policy().record_stream(block, 2);
    policy().begin_allocate_to_pool(kPool, [](StreamId) { return false; });
    free(block);
    EXPECT_EQ(allocate(512).address, expected);
    policy().end_allocate_to_pool(kPool);
    EXPECT_EQ(broken_invariant(policy()), "");
  }
}

// It is counted before it is refused.
TEST_F(CaptureTest, EmptyCacheIsRefusedUpTo29) {
  use_version(TorchVersion::kTorch26);
  free(allocate(512));
  policy().begin_allocate_to_pool(kPool, [](StreamId) { return false; });
  EXPECT_FALSE(policy().empty_cache());
  EXPECT_EQ(policy().held_bytes(), 2 * kMiB);
  EXPECT_EQ(policy().statistics().num_sync_all_streams, 1);
  policy().end_allocate_to_pool(kPool);
  EXPECT_TRUE(policy().empty_cache());
  EXPECT_EQ(policy().held_bytes(), 0U);
}

// --- graph_capture_record_stream_reuse. ----------------------------------------------------------

TEST_F(ReuseTest, NeedsTheOption) {
  use(kGiB);
  policy().begin_capture();
  free(allocate_shared());
  streams().join_capture(2, 0);
  EXPECT_EQ(allocate(512).address, kBase + 512);
}

TEST_F(ReuseTest, WaitsUntilAllUsesAreBehind) {
  free(allocate_shared());
  EXPECT_EQ(allocate(512).address, kBase + 512);
  streams().join_capture(2, 0);  // From here on stream 0 runs after both nodes.
  EXPECT_EQ(allocate(512).address, kBase);
}

TEST_F(ReuseTest, IsForRequestsOnTheBlocksStream) {
  free(allocate_shared());
  streams().join_capture(2, 0);
  EXPECT_NE(allocate(512, 2).address, kBase);
  EXPECT_EQ(active(), 2);
}

TEST_F(ReuseTest, NeedsEveryStreamInTheCapture) {
  Block& block = allocate_shared();
  policy().record_stream(block, 3);
  free(block);
  streams().join_capture(2, 0);
  EXPECT_EQ(allocate(512).address, kBase + 512);
}

TEST_F(ReuseTest, NeedsWorkToComeAfter) {
  Block& block = allocate(512);
  streams().join_capture(0, 2);
  policy().record_stream(block, 2);
  free(block);
  EXPECT_EQ(allocate(512).address, kBase + 512);
}

// Five neighbours: each that becomes free joins those before it.
TEST_F(ReuseTest, FreesSeveralBlocksAtOnce) {
  std::vector<Block*> blocks;
  blocks.reserve(5);
  for (int i = 0; i < 5; ++i)
    blocks.push_back(&allocate_shared());
  for (const std::size_t i : {3U, 1U, 0U, 4U, 2U})
    free(*blocks[i]);
  streams().join_capture(2, 0);
  EXPECT_EQ(allocate(2560).address, kBase);
  EXPECT_EQ(active(), 1);
}

// The first capture's nodes come before nothing of the second.
TEST_F(ReuseTest, KnowsOneCaptureFromTheNext) {
  free(allocate_shared());
  end();
  begin();
  streams().capture_work(0);
  streams().capture_work(0);
  EXPECT_EQ(allocate(512).address, kBase + 512);
}

TEST_F(ReuseTest, FreesAPoolsBlocksWhenItsScopeEnds) {
  policy().begin_allocate_to_pool(kPool, [](StreamId) { return true; });
  free(allocate_shared());
  policy().begin_allocate_to_pool({0, 2}, [](StreamId) { return true; });
  policy().end_allocate_to_pool({0, 2});
  EXPECT_EQ(active(), 1);
  policy().end_allocate_to_pool(kPool);
  EXPECT_EQ(active(), 0);
}

}  // namespace
}  // namespace fragscope::policy::test
