// SPDX-License-Identifier: Apache-2.0
// The words of a finding: the numbers in them, the observations beside them, and what to do next.
#include "analyzer/explain/finding_text.hpp"

#include "analyzer/explain/judge.hpp"
#include "tests/explain/message/sample_messages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace fragscope::explain::test {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Finding found_in(std::string_view log) {
  return judge_message(only(log));
}

std::string replaced(std::string_view text, std::string_view what, std::string_view with) {
  std::string copy(text);
  return copy.replace(copy.find(what), what.size(), with);
}

TEST(ShownFigure, IsTheOneThatWasPrinted) {
  EXPECT_EQ(shown(printed(1.00, 30)), "1.00 GiB");
  EXPECT_EQ(shown(printed(1.28, 30)), "1.28 GiB");
  EXPECT_EQ(shown(printed(23.69, 30)), "23.69 GiB");
  EXPECT_EQ(shown(printed(85.00, 20)), "85.00 MiB");
  EXPECT_EQ(shown(printed(1024, 20)), "1.00 GiB");
  EXPECT_EQ(shown({512, 512}), "512 B");
}

TEST(ShownFigure, IsARangeWhereItIsADifference) {
  EXPECT_EQ(shown(printed(2.50, 30) - printed(2.40, 30)), "92.16 MiB to 112.64 MiB");
  EXPECT_EQ(shown(printed(0, 30)), "0 B to 5.12 MiB");
}

TEST(FindingText, SaysByHowMuchCapacityFallsShort) {
  // 23.10 - 22.30 is 0.81 at most, 829.44 MiB, and 85.005 free; the smallest tensor has 1140 MiB.
  const Finding finding = found_in(replaced(k14, "19.30", "22.30"));
  EXPECT_EQ(finding.kind, Kind::kCapacity);
  EXPECT_THAT(finding.text, HasSubstr("at least 225.56 MiB short"));
}

TEST(FindingText, NamesBothFiguresOfThePossible) {
  EXPECT_THAT(found_in(k14).text,
              HasSubstr("1.12 GiB were asked for, and the allocator held 3.80 GiB"));
  EXPECT_THAT(found_in(k14).text, HasSubstr("possible, not proven"));
}

TEST(FindingText, SaysWhichFigureIsMissing) {
  EXPECT_THAT(found_in(kXpu).text, HasSubstr("does not say what the device had free"));
  EXPECT_THAT(found_in(k22.substr(0, k22.find(" Of the allocated"))).text,
              HasSubstr("does not say what this allocator held idle"));
  EXPECT_THAT(found_in(kJax).text, HasSubstr("Only what was asked for is printed (8.00 GiB)"));
}

TEST(FindingText, OfMpsSpeaksOfItsOwnLimit) {
  EXPECT_THAT(found_in(kMps).text, HasSubstr("against 18.13 GiB"));
  EXPECT_THAT(found_in(replaced(kMps, "18.13", "18.31")).text, HasSubstr("Within rounding"));
  EXPECT_THAT(found_in(replaced(kMps, "18.13", "17179869184.00")).text,
              HasSubstr("No limit is printed"));
  EXPECT_THAT(found_in(replaced(kMps, "18.13", "28.13")).text,
              HasSubstr("are within the 28.13 GiB allowed"));
}

TEST(FindingNotes, NameWhatLiesOutsideAndWho) {
  const Finding finding = found_in(k21);
  EXPECT_THAT(finding.notes, Contains(HasSubstr("lie outside this allocator")));
  EXPECT_THAT(finding.notes, Contains("process 4711 uses 2.50 GiB"));
}

TEST(FindingNotes, KnowThisProcessUnderAnotherNumber) {
  EXPECT_THAT(found_in(replaced(k21,
                                "Process 4711 has 2.50 GiB memory in use. Including non-PyTorch "
                                "memory, this process has 21.10",
                                "Process 1 has 21.60"))
                  .notes,
              Contains(HasSubstr("fits this very process seen from a container")));
}

TEST(FindingNotes, NameIdlePrivatePools) {
  EXPECT_THAT(found_in(k26).notes, Contains(HasSubstr("40.00 MiB lie idle in private pools")));
}

TEST(FindingNotes, SayWhetherALimitBinds) {
  EXPECT_THAT(found_in(k26).notes, Contains("the limit of 23.00 GiB does not bind"));
  EXPECT_THAT(found_in(replaced(k26, "23.00 GiB allowed", "23.69 GiB allowed")).notes,
              Contains("the limit equals the card, so it adds nothing"));
  EXPECT_THAT(found_in(k18).notes, Not(Contains(HasSubstr("does not bind"))));
}

TEST(FindingNotes, TellTheTensorFromTheRequestOnlyWhereTheyDiffer) {
  EXPECT_THAT(found_in(kHip).notes, Contains(HasSubstr("the tensor has 4.49 GiB to 4.50 GiB")));
  EXPECT_THAT(found_in(kLlama).notes, IsEmpty());
  EXPECT_THAT(found_in(kAsync).notes, Not(Contains(HasSubstr("tensor"))));
}

TEST(FindingNotes, NameTheCapOnSingleBlocks) {
  EXPECT_THAT(found_in(kXpuLargeBlock).notes, Contains(HasSubstr("any single block over 4 GB")));
}

TEST(NextSteps, RecordWhatIsOpenWithTheWritersOwnTools) {
  EXPECT_THAT(found_in(k22).next,
              ElementsAre(HasSubstr("torch.cuda.memory._record_memory_history()")));
  EXPECT_THAT(found_in(kNpu).next, ElementsAre(HasSubstr("torch_npu.npu.memory._dump_snapshot")));
  EXPECT_THAT(found_in(kXpu).next, ElementsAre(HasSubstr("xpu-smi")));
  EXPECT_THAT(found_in(kLlama).next, ElementsAre(HasSubstr("nvidia-smi")));
  EXPECT_THAT(found_in(kJax).next, IsEmpty()) << "no back end is named";
  EXPECT_THAT(found_in(replaced(kAsync, "21.00", "24.00")).next,
              ElementsAre(HasSubstr("backend:native instead of cudaMallocAsync")));
}

TEST(NextSteps, AskNothingWhereTheVerdictIsCertain) {
  EXPECT_THAT(found_in(k18).next, IsEmpty()) << "limit";
  EXPECT_THAT(found_in(kMps).next, IsEmpty()) << "limit";
  EXPECT_THAT(found_in(kBeyond).next, IsEmpty()) << "impossible";
  EXPECT_THAT(found_in(kAllocationAttempt).next, IsEmpty()) << "what follows decides";
}

TEST(NextSteps, LookAtTheDeviceWhereItsFiguresDoNotAddUp) {
  EXPECT_THAT(
      found_in(replaced(k22, "85.00 MiB is free", "1.90 GiB is free")).next,
      ElementsAre(HasSubstr("_record_memory_history"), HasSubstr("nvidia-smi -q -d MEMORY")))
      << "not explained";
  EXPECT_THAT(found_in(replaced(kHip, "1.40 GiB is free", "15.40 GiB is free")).next,
              Contains(HasSubstr("rocm-smi")))
      << "more free and held than the card has";
}

}  // namespace
}  // namespace fragscope::explain::test
