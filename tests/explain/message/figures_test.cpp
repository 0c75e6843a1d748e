// SPDX-License-Identifier: Apache-2.0
// What a printed figure stands for, in bytes: its interval, the sentinel, the tensors behind it.
#include "analyzer/explain/message/joined_cursor.hpp"
#include "analyzer/explain/message/message_format.hpp"
#include "tests/explain/message/sample_messages.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>

namespace fragscope::explain::test {
namespace {

std::optional<Bounds> size_in(std::string_view text) {
  return JoinedCursor(text, 0).size();
}

// 0.005 GiB = 5368709.12 bytes, 0.005 MiB = 5242.88 bytes, 0.005 KiB = 5.12 bytes.
TEST(PrintedSize, IsTheIntervalOfItsRounding) {
  EXPECT_EQ(size_in("2.00 GiB"), (Bounds{2147483648 - 5368709, 2147483648 + 5368709}));
  EXPECT_EQ(size_in("20.00 MiB"), (Bounds{20971520 - 5242, 20971520 + 5242}));
  EXPECT_EQ(size_in("1024.00 KiB"), (Bounds{1048576 - 5, 1048576 + 5}));
  EXPECT_EQ(size_in("512 bytes"), (Bounds{512, 512}));
  EXPECT_EQ(size_in("0 bytes"), (Bounds{0, 0}));
  EXPECT_EQ(size_in("0.00 GiB"), (Bounds{0, 5368709}));
}

// 1.125 GiB = 1152 MiB prints as 1.12, 1.375 GiB as 1.38: such sizes are common.
TEST(PrintedSize, HasItsEndsWhereARequestLiesOnThem) {
  EXPECT_EQ(size_in("1.12 GiB")->high, 1152 * kMiB);
  EXPECT_EQ(size_in("1.38 GiB")->low, 1408 * kMiB);
}

TEST(PrintedSize, KeepsTheDecimalsThatItShows) {
  EXPECT_EQ(size_in("17.8 GiB"), (Bounds{19058917376, 19166291558}));
  EXPECT_EQ(size_in("4GB"), (Bounds{7 * kGiB / 2, 9 * kGiB / 2}));
}

// No writer prints such figures, but a damaged text may hold them.
TEST(PrintedSize, IsNeverAnEmptyInterval) {
  EXPECT_EQ(size_in("23.69 B"), (Bounds{23, 24}));
  EXPECT_EQ(size_in("1.0001 KiB"), (Bounds{1024, 1025}));
}

TEST(PrintedSize, TakesOnlyTheSentinelForUnknown) {
  for (const char* text : {"17179869184.00 GiB",
                           "17179869183.99 GiB",
                           "17592186044416.00 MiB",
                           "16.00 EiB",
                           "18446744073709551615 bytes"}) {
    ASSERT_TRUE(size_in(text)) << text;
    EXPECT_EQ(size_in(text)->high, policy::kUnlimited) << text;
  }
  EXPECT_EQ(size_in("130674.91 GiB"), printed(130674.91, 30));
}

// A negative number printed as an unsigned one; sizes that no card has are still sizes.
TEST(PrintedSize, ReadsAbsurdFiguresAsTheyAre) {
  EXPECT_EQ(size_in("2.00 EiB"), printed(2, 60));
  EXPECT_EQ(size_in("8589934592.00 GiB"), printed(8589934592, 30));
  EXPECT_GT(size_in("17179869176.57 GiB")->low, 17179869176 * kGiB);
  EXPECT_LT(size_in("17179869176.57 GiB")->high, 17179869177 * kGiB);
  EXPECT_EQ(size_in("99999999999999.00 GiB"), (Bounds{kBeyondBytes, kBeyondBytes}));
}

TEST(PrintedSize, ReadsSeparatorsThatMeanOneThing) {
  EXPECT_EQ(size_in("1,024.00 MiB"), printed(1024, 20));
  EXPECT_EQ(size_in("1.024,50 MiB"), printed(1024.5, 20));
  EXPECT_EQ(size_in("17,179,869 KiB")->low, size_in("17179869 KiB")->low);
  EXPECT_EQ(size_in("1,95 GiB"), printed(1.95, 30));
  EXPECT_EQ(size_in("0,125 GiB"), size_in("0.125 GiB"));
  EXPECT_FALSE(size_in("1,024 MiB")) << "a thousand, or one";
  for (const char* text : {"1,02,4.00 MiB", "1,95,1 GiB", "1.95,2.1 GiB", ",5 GiB", "1,GiB"})
    EXPECT_FALSE(size_in(text)) << text;
}

TEST(UnreadableSize, IsPassedWhole) {
  for (const char* text : {"nan GiB", "-1.00 GiB", "1e400 GiB", "1,024 MiB", "-inf GiB"}) {
    JoinedCursor cursor(text, 0);
    EXPECT_FALSE(cursor.size()) << text;
    EXPECT_EQ(cursor.unreadable_size(), text);
    EXPECT_TRUE(cursor.at_end()) << text;
  }
  EXPECT_EQ(JoinedCursor("memory GiB", 0).unreadable_size(), "");
  EXPECT_EQ(JoinedCursor("1,024 blocks", 0).unreadable_size(), "");
}

TEST(PrintedSize, NeedsNumberAndUnit) {
  for (const char* text : {"",
                           "GiB",
                           "3",
                           "3.5",
                           "-3.00 GiB",
                           "nan GiB",
                           "inf GiB",
                           "1.2.3 GiB",
                           "3.00 parsec",
                           ". GiB"}) {
    EXPECT_FALSE(size_in(text)) << text;
  }
}

TEST(PrintedSize, MayBeBrokenAnywhere) {
  const std::string whole = "1023.75 MiB";
  for (std::size_t at = 1; at < whole.size(); ++at) {
    for (const char* line_end : {"\n", "\r\n", " \n", "\n    "}) {
      const std::string broken = whole.substr(0, at) + line_end + whole.substr(at);
      EXPECT_EQ(size_in(broken), size_in(whole)) << broken;
    }
  }
}

TEST(PrintedSize, DoesNotTakeTheFullStopOfASentence) {
  JoinedCursor cursor("12. GPU 0", 0);
  EXPECT_EQ(cursor.count(), 12U);
  EXPECT_EQ(cursor.at(), 2U);
}

TEST(TensorBehind, UpToOneMebibyteTakesTwo) {
  EXPECT_EQ(tensor_behind(printed(2, 20)), (Bounds{1, kMiB}));
}

// 1 to 10 MiB take 20; so do 18 to 20 MiB.
TEST(TensorBehind, UpToTenMebibytesTakesTwenty) {
  EXPECT_EQ(tensor_behind(printed(20, 20)), (Bounds{kMiB + 1, 20 * kMiB}));
}

TEST(TensorBehind, TenMebibytesExactlyAreAskedForAsTheyAre) {
  EXPECT_EQ(tensor_behind(printed(10, 20)), (Bounds{10 * kMiB - 511, 10 * kMiB}));
}

TEST(TensorBehind, FromThereOnIsRoundedUpToTwo) {
  EXPECT_EQ(tensor_behind(printed(12, 20)), (Bounds{10 * kMiB + 1, 12 * kMiB}));
  EXPECT_EQ(tensor_behind(printed(714, 20)), (Bounds{712 * kMiB + 1, 714 * kMiB}));
}

// 1.12 GiB is printed for 1141.76 to 1152 MiB; multiples of 2 MiB in it: 1142 to 1152.
TEST(TensorBehind, CoversEveryRequestThatPrintsTheFigure) {
  EXPECT_EQ(tensor_behind(printed(1.12, 30)), (Bounds{1140 * kMiB + 1, 1152 * kMiB}));
}

// PyTorch 1.0 asked for the size itself, rounded to 128 KiB, and to 512 bytes up to 1 MiB.
TEST(TensorBehind, OfOtherFiguresIsThatOfTheOldestVersion) {
  EXPECT_EQ(tensor_behind(printed(12.5, 20)),
            (Bounds{printed(12.5, 20).low - 128 * kKiB + 1, printed(12.5, 20).high}));
  EXPECT_EQ(tensor_behind(printed(1024, 10)), (Bounds{kMiB - 5 - 511, kMiB + 5}));
  EXPECT_EQ(tensor_behind({512, 512}), (Bounds{1, 512}));
  EXPECT_EQ(tensor_behind({kBeyondBytes, kBeyondBytes}), (Bounds{kBeyondBytes, kBeyondBytes}));
  EXPECT_EQ(tensor_behind(printed(4, 20)).high, printed(4, 20).high)
      << "no later version asks for 4 MiB";
}

}  // namespace
}  // namespace fragscope::explain::test
