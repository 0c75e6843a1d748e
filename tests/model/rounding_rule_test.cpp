// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/rounding_rule.hpp"

#include "tests/support/recording_builder.hpp"

#include <gtest/gtest.h>

namespace fragscope::model {
namespace {

using testing::hole;
using testing::kMiB;
using testing::live;
using testing::pending;
using testing::RecordingBuilder;

Recording with_small_blocks(const std::vector<testing::BlockSpec>& blocks) {
  return RecordingBuilder().segment({2 * kMiB, SizeClass::kSmall}, blocks).build();
}

TEST(RoundingRule, FitsPyTorchsOwn) {
  EXPECT_EQ(find_rounding_rule(with_small_blocks({live(512, 1), live(512, 512), live(1024, 513)})),
            RoundingRule::kCuda);
}

TEST(RoundingRule, FitsTheDivisionsOfTheSettings) {
  Recording recording = with_small_blocks({live(768 * policy::kKiB, 600 * policy::kKiB)});
  EXPECT_EQ(find_rounding_rule(recording), RoundingRule::kUnknown);

  recording.settings.rules.roundup_divisions[0] = 2;  // 512K, 768K, 1M

  EXPECT_EQ(find_rounding_rule(recording), RoundingRule::kCuda);
}

TEST(RoundingRule, FitsTheForkThatPads) {
  EXPECT_EQ(
      find_rounding_rule(with_small_blocks({live(512, 480), live(1024, 481), live(1024, 512)})),
      RoundingRule::kPadded32);
}

// Where both rules fit the few blocks there are, PyTorch's is the likelier.
TEST(RoundingRule, PrefersPyTorchsWhereBothFit) {
  EXPECT_EQ(find_rounding_rule(with_small_blocks({live(512, 100)})), RoundingRule::kCuda);
}

TEST(RoundingRule, IsUnknownWhereNeitherFits) {
  EXPECT_EQ(find_rounding_rule(with_small_blocks({live(2048, 100)})), RoundingRule::kUnknown);
}

// A large block may hold an unsplit rest, a hole keeps a stale size, and a pending one may have
// been resized by its fork: only live blocks of class small tell.
TEST(RoundingRule, AsksOnlyLiveSmallBlocks) {
  Recording recording = RecordingBuilder()
                            .segment({2 * kMiB, SizeClass::kSmall}, {hole(2 * kMiB)})
                            .segment({20 * kMiB}, {live(20 * kMiB, 19 * kMiB + 500)})
                            .build();
  EXPECT_EQ(find_rounding_rule(recording), RoundingRule::kUntested);

  recording = with_small_blocks({live(512, 500)});
  recording.blocks[0].has_requested = false;
  EXPECT_EQ(find_rounding_rule(recording), RoundingRule::kUntested);
}

TEST(RoundedSize, IsExactForPyTorch) {
  const BoundedSize size = rounded_size(1000, RoundingRule::kCuda, {});

  EXPECT_EQ(size.bytes, 1024U);
  EXPECT_EQ(size.slack_bytes, 0U);
}

// Of a request of 490 bytes the fork makes 1024, PyTorch 512; of 400 both make 512.
TEST(RoundedSize, ReachesFromThePlainToThePaddedSize) {
  EXPECT_EQ(rounded_size(490, RoundingRule::kPadded32, {}).bytes, 512U);
  EXPECT_EQ(rounded_size(490, RoundingRule::kPadded32, {}).slack_bytes, 512U);
  EXPECT_EQ(rounded_size(400, RoundingRule::kPadded32, {}).slack_bytes, 0U);
}

TEST(RoundedSize, AllowsOneStepMoreForAnUnknownWriter) {
  const BoundedSize size = rounded_size(0, RoundingRule::kUnknown, {});

  EXPECT_EQ(size.bytes, 512U);
  EXPECT_EQ(size.slack_bytes, 512U);
}

}  // namespace
}  // namespace fragscope::model
