// SPDX-License-Identifier: Apache-2.0
// How much address space an expandable segment reserves. The device has 1 GiB, an eighth more is
// 1152 MiB; pages have 20 MiB.
#include "allocator/policy/inspect/out_of_memory_message.hpp"
#include "tests/policy/policy_fixture.hpp"

#include <gmock/gmock.h>

namespace fragscope::policy::test {
namespace {

class ReserveTest : public PolicyTest {
 protected:
  void SetUp() override { use_reserve(std::nullopt); }
  void use_reserve(std::optional<ReserveSpec> reserve) {
    PolicyOptions options;
    options.conf.rules.expandable_segments = true;
    options.conf.expandable_segments_reserve = reserve;
    options.conf.expandable_segments_reserve_by_class["tiny"] = {.value = 0.05};
    use(kGiB, options);
  }
  /// Of the segment that a first request on the stream makes.
  std::uint64_t reserved_for(StreamId stream) {
    static_cast<void>(allocate(3 * kMiB, stream));
    std::uint64_t sum = 0;
    for (const Block* block : policy().blocks()) {
      if (block->stream == stream) sum += block->size;
    }
    return sum;
  }
  std::string message() {
    return out_of_memory_message(policy().failure(), policy().options(), 0, {});
  }
};

TEST_F(ReserveTest, IsAnEighthMoreThanTheDeviceInWholePages) {
  EXPECT_EQ(reserved_for(0), 1160 * kMiB);
}

TEST_F(ReserveTest, MayBeAFractionOfTheDevice) {
  use_reserve(ReserveSpec{.value = 0.25});  // 256 MiB
  EXPECT_EQ(reserved_for(0), 260 * kMiB);
}

TEST_F(ReserveTest, MayBeGibibytes) {
  use_reserve(ReserveSpec{.is_fraction = false, .value = 0.1});  // 102.4 MiB
  EXPECT_EQ(reserved_for(0), 120 * kMiB);
}

TEST_F(ReserveTest, IsNeverMoreThanWithoutTheOption) {
  use_reserve(ReserveSpec{.value = 5});
  EXPECT_EQ(reserved_for(0), 1160 * kMiB);
  use_reserve(ReserveSpec{.is_fraction = false, .value = 1e300});  // beyond 64 bits
  EXPECT_EQ(reserved_for(0), 1160 * kMiB);
}

TEST_F(ReserveTest, IsThatOfTheStreamsClass) {
  policy().set_reserve_class(1, "tiny");  // 51.2 MiB
  EXPECT_EQ(reserved_for(1), 60 * kMiB);
  EXPECT_EQ(reserved_for(2), 1160 * kMiB);
}

TEST_F(ReserveTest, OfAnUnknownClassIsTheGeneralOne) {
  use_reserve(ReserveSpec{.value = 0.25});
  policy().set_reserve_class(1, "unknown");
  EXPECT_EQ(reserved_for(1), 260 * kMiB);
}

TEST_F(ReserveTest, ForgetsTheClassThatIsTakenAway) {
  policy().set_reserve_class(1, "tiny");
  policy().set_reserve_class(1, "");
  EXPECT_EQ(reserved_for(1), 1160 * kMiB);
}

// Two segments of 60 MiB, though one request fits in none of them.
TEST_F(ReserveTest, MayNeedSeveralSegmentsForAStream) {
  policy().set_reserve_class(1, "tiny");
  static_cast<void>(allocate(40 * kMiB, 1));
  EXPECT_EQ(allocate(40 * kMiB, 1).address, kBase + 60 * kMiB);
}

TEST_F(ReserveTest, ThatIsTooSmallFailsTheRequestAndTakesNothing) {
  policy().set_reserve_class(1, "tiny");
  EXPECT_EQ(policy().allocate(80 * kMiB, 1), nullptr);
  EXPECT_THAT(policy().blocks(), ::testing::IsEmpty());
  EXPECT_EQ(policy().failure().reserve_bytes, 53'687'091U);  // 51.2 MiB, not in whole pages
  EXPECT_EQ(policy().failure().reserve_class, "tiny");
}

TEST_F(ReserveTest, ThatIsTooSmallIsNamedByTheMessage) {
  policy().set_reserve_class(1, "tiny");
  EXPECT_EQ(policy().allocate(80 * kMiB, 1), nullptr);
  EXPECT_THAT(
      message(),
      ::testing::HasSubstr(
          " This allocation exceeds the expandable-segment reserve of 51.20 MiB for stream "
          "reserve class 'tiny', and a single allocation cannot span expandable segments. "));
}

// Whatever its reserve, a request larger than the device could not be served.
TEST_F(ReserveTest, IsNotBlamedForARequestLargerThanTheDevice) {
  policy().set_reserve_class(1, "tiny");
  EXPECT_EQ(policy().allocate(kGiB + 2 * kMiB, 1), nullptr);
  EXPECT_THAT(message(), ::testing::HasSubstr(" expandable_segments is enabled. If instead "));
}

// 2.6 takes 1160 MiB for each of its two attempts, cannot map them and keeps them.
TEST_F(ReserveTest, ThatIsTooSmallStaysUpTo29) {
  PolicyOptions options;
  options.version = TorchVersion::kTorch26;
  options.conf.rules.expandable_segments = true;
  use(kGiB, options);
  EXPECT_EQ(policy().allocate(1200 * kMiB, 0), nullptr);
  const auto blocks = policy().blocks();
  ASSERT_THAT(blocks, ::testing::SizeIs(2));
  for (const Block* block : blocks) {
    EXPECT_FALSE(block->mapped);
    EXPECT_EQ(block->size, 1160 * kMiB);
  }
  EXPECT_EQ(policy().held_bytes(), 0U);
  EXPECT_EQ(allocate(40 * kMiB).address, kBase);  // It serves what fits.
}

// 2.6 has no such option. If it is set all the same, the small segment may be mapped whole, and is
// still too small.
TEST_F(ReserveTest, ThatIsTooSmallAndCanBeMappedFailsToo) {
  PolicyOptions options;
  options.version = TorchVersion::kTorch26;
  options.conf.rules.expandable_segments = true;
  options.conf.expandable_segments_reserve = {.value = 0.05};
  use(kGiB, options);
  EXPECT_EQ(policy().allocate(80 * kMiB, 0), nullptr);
}

}  // namespace
}  // namespace fragscope::policy::test
