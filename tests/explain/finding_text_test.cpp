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

TEST(FindingText, NamesThePairThatIsUndecided) {
  // Free and request print alike; with the gap it would surely do.
  const std::string close = replaced(k22, "85.00 MiB", "1.75 GiB");
  EXPECT_THAT(found_in(close).text,
              HasSubstr("1.75 GiB free against 1.75 GiB asked for, within 10.24 MiB either way."));
  // 1.755 GiB are 1797.12 MiB; 84.995 MiB and 1.665 GiB come to 7.165 less.
  const std::string idle = replaced(k22, "11.84 GiB", "1.67 GiB");
  EXPECT_THAT(found_in(idle).text, HasSubstr("at most 7.16 MiB short."));
}

TEST(FindingText, NamesALimitThatRoundingLeavesOpen) {
  // 10.10 held and 1.12 asked for against 11.22; 12.05 are free.
  const Finding finding = found_in(replaced(k18, "10.50", "11.22"));
  EXPECT_EQ(finding.kind, Kind::kNotExplained);
  EXPECT_THAT(finding.also, ElementsAre(Kind::kUndecidable));
  EXPECT_THAT(finding.text, HasSubstr("11.22 GiB held and asked for against 11.22 GiB allowed"));
  EXPECT_THAT(finding.text, Not(HasSubstr("not printed")));

  const Finding full = found_in(replaced(replaced(k18, "10.50", "11.22"), "12.05 GiB", "0 bytes"));
  EXPECT_THAT(full.notes, Contains(HasSubstr("within rounding the limit of 11.22 GiB may")));
}

TEST(FindingText, CountsWhatMayHaveBeenFreeAsTheUpperEnd) {
  const Finding finding = found_in(
      "XPU out of memory. Tried to allocate 10.00 GiB (GPU 0; 16.00 GiB total capacity; 15.00 GiB "
      "already allocated; 15.50 GiB reserved in total by PyTorch)");
  // 0.51 GiB free and 0.51 idle at most; the smallest tensor has 9.994 GiB.
  EXPECT_EQ(finding.kind, Kind::kCapacity);
  EXPECT_THAT(finding.text, HasSubstr("at most 522.24 MiB free"));
  EXPECT_THAT(finding.text, HasSubstr("at least 8.97 GiB short"));
}

TEST(FindingText, OfWhatCannotBeReadSaysSo) {
  const Finding finding = found_in(replaced(k14, "1.12 GiB", "nan GiB"));
  EXPECT_EQ(finding.kind, Kind::kNoNumbers);
  EXPECT_THAT(finding.text, HasSubstr("cannot be read as it is printed (nan GiB)"));
  EXPECT_THAT(finding.text, HasSubstr("Of 23.69 GiB in all"));
}

TEST(FindingText, OfAnAbsurdRequestIsImpossible) {
  for (const char* request : {"17179869176.57 GiB", "8589934592.00 GiB", "2.00 EiB"})
    EXPECT_EQ(found_in(replaced(k14, "1.12 GiB", request)).kind, Kind::kImpossible) << request;
}

TEST(FindingText, TellsHostMemoryFromADevices) {
  EXPECT_THAT(found_in("RuntimeError: DefaultCPUAllocator: not enough memory: you tried to "
                       "allocate 8192 bytes.")
                  .text,
              HasSubstr("the host's memory failed, not of a device's; 8.00 KiB were asked for"));
  EXPECT_THAT(found_in("RuntimeError: CUDA driver error: device not ready").text,
              HasSubstr("has other causes, too"));
}

TEST(FindingText, SaysWhereMemoryOutsideIsThisProcesssOwn) {
  const std::string text =
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
      "capacity of 23.64 GiB of which 1.10 GiB is free. Process 7 has 22.50 GiB memory in use. Of "
      "the allocated memory 20.00 GiB is allocated by PyTorch, and 40.00 MiB is reserved by "
      "PyTorch "
      "but unallocated.";
  const Finding own = found_in(text);
  EXPECT_EQ(own.kind, Kind::kExternal);
  EXPECT_THAT(own.text, HasSubstr("this process's own"));
  EXPECT_THAT(own.next, Not(Contains(HasSubstr("compute-apps"))));

  const Finding other = found_in(replaced(text, "22.50", "2.40"));
  EXPECT_THAT(other.text, Not(HasSubstr("own")));
  EXPECT_THAT(other.next, Contains(HasSubstr("compute-apps")));
}

TEST(FindingNotes, SayWhatALimitAboveTheCardIs) {
  EXPECT_THAT(found_in(replaced(k26, "23.00 GiB allowed", "30.00 GiB allowed")).notes,
              Contains("the limit of 30.00 GiB is more than the card has, so it adds nothing"));
}

TEST(FindingNotes, SaySmallTensorsHaveSegmentsOfTheirOwn) {
  const auto is_small = HasSubstr("served from small segments");
  EXPECT_THAT(found_in(replaced(k22, "1.75 GiB", "2.00 MiB")).notes, Contains(is_small));
  EXPECT_THAT(found_in(k22).notes, Not(Contains(is_small)));
}

}  // namespace
}  // namespace fragscope::explain::test
