// SPDX-License-Identifier: Apache-2.0
// What goes back to the device for a request with max_split_size; here 100 MiB, of a device of 500.
#include "tests/policy/policy_fixture.hpp"

#include <initializer_list>
#include <vector>

namespace fragscope::policy::test {
namespace {

class OversizeReleaseTest : public PolicyTest {
 protected:
  void SetUp() override { use(500 * kMiB, with(100 * kMiB, false)); }
  static PolicyOptions with(std::uint64_t max_split_size, bool expandable) {
    PolicyOptions options;
    options.conf.rules.max_split_size = max_split_size;
    options.conf.rules.expandable_segments = expandable;
    return options;
  }
  void cache(std::initializer_list<std::uint64_t> mebibytes, StreamId stream = 0) {
    std::vector<const Block*> blocks;
    for (const std::uint64_t size : mebibytes)
      blocks.push_back(&allocate(size * kMiB, stream));
    for (const Block* block : blocks)
      free(*block);
  }
  const Statistics& statistics() { return policy().statistics(); }
};

// 250 of 300 would waste too much. The other 180 MiB do not do.
TEST_F(OversizeReleaseTest, GivesBackTheBlockThatIsLargeEnough) {
  cache({3, 300});
  EXPECT_EQ(allocate(250 * kMiB).size, 250 * kMiB);
  EXPECT_EQ(statistics().num_device_free, 1);
  EXPECT_EQ(statistics().num_alloc_retries, 0);
  EXPECT_EQ(policy().held_bytes(), 270 * kMiB);
}

// 150 and 120 reach 260; 110 may stay.
TEST_F(OversizeReleaseTest, GivesBackSeveralFromTheLargestDown) {
  cache({110, 120, 150});
  EXPECT_EQ(allocate(260 * kMiB).size, 260 * kMiB);
  EXPECT_EQ(statistics().num_device_free, 2);
  EXPECT_EQ(statistics().num_alloc_retries, 0);
  EXPECT_EQ(policy().held_bytes(), 370 * kMiB);
  EXPECT_EQ(statistics().oversize_segments.current, 2);
}

// In a capture nothing else is tried, so what this step did remains to be seen.
TEST_F(OversizeReleaseTest, GivesTooFewBackForNothing) {
  streams().capture(0);
  policy().begin_capture();
  static_cast<void>(allocate(200 * kMiB));
  cache({110, 120});
  EXPECT_EQ(policy().allocate(300 * kMiB, 0), nullptr);
  EXPECT_EQ(statistics().num_device_free, 2);
  EXPECT_EQ(policy().held_bytes(), 200 * kMiB);
}

TEST_F(OversizeReleaseTest, IsFollowedByTheWholeCacheWhereTooFew) {
  static_cast<void>(allocate(200 * kMiB));
  cache({50, 110, 120});
  EXPECT_NE(policy().allocate(300 * kMiB, 0), nullptr);
  EXPECT_EQ(statistics().num_device_free, 3);
  EXPECT_EQ(statistics().num_alloc_retries, 1);
}

// 98 MiB are not oversize, and those of another stream are not the request's.
TEST_F(OversizeReleaseTest, TouchesOnlyOversizeBlocksOfTheStream) {
  streams().capture(0);
  policy().begin_capture();
  cache({98, 110});
  cache({120}, 1);
  EXPECT_EQ(policy().allocate(220 * kMiB, 0), nullptr);
  EXPECT_EQ(statistics().num_device_free, 1);
  EXPECT_EQ(policy().held_bytes(), 98 * kMiB + 120 * kMiB);
}

// Its own size would be 50 MiB; what is looked for is max_split_size.
TEST_F(OversizeReleaseTest, GivesASmallRequestTheSmallestOversizeBlock) {
  cache({190, 300});
  EXPECT_EQ(allocate(50 * kMiB).size, 50 * kMiB);
  EXPECT_EQ(statistics().num_device_free, 1);
  EXPECT_EQ(policy().held_bytes(), 350 * kMiB);
}

TEST_F(OversizeReleaseTest, PassesAnExpandableBlockOver) {
  const Block& first = allocate(150 * kMiB);
  const Block& second = allocate(150 * kMiB);
  policy().set_options(with(100 * kMiB, true));
  const Block& expandable = allocate(160 * kMiB);  // eight pages
  free(first);
  free(second);
  free(expandable);
  policy().set_options(with(100 * kMiB, false));
  EXPECT_EQ(allocate(280 * kMiB).size, 280 * kMiB);
  EXPECT_EQ(statistics().num_alloc_retries, 0);
  EXPECT_EQ(policy().held_bytes(), 440 * kMiB);
}

// 150 of 300 MiB are left, split off while nothing forbade it: part of a segment cannot go back.
TEST_F(OversizeReleaseTest, PassesASplitBlockOver) {
  use(500 * kMiB);
  cache({300});
  static_cast<void>(allocate(150 * kMiB));
  policy().set_options(with(100 * kMiB, false));
  EXPECT_EQ(policy().allocate(250 * kMiB, 0), nullptr);
  EXPECT_EQ(policy().held_bytes(), 300 * kMiB);
}

TEST_F(OversizeReleaseTest, KeepsASplitBlockThatIsLargeEnough) {
  use(500 * kMiB);
  cache({300});
  static_cast<void>(allocate(150 * kMiB));
  policy().set_options(with(100 * kMiB, false));
  device().set_outside_bytes(150 * kMiB);
  EXPECT_EQ(policy().allocate(120 * kMiB, 0), nullptr);
  EXPECT_EQ(policy().held_bytes(), 300 * kMiB);
}

}  // namespace
}  // namespace fragscope::policy::test
