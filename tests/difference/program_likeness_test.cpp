// SPDX-License-Identifier: Apache-2.0
#include "analyzer/difference/program_likeness.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

namespace fragscope::difference {
namespace {

using ::testing::HasSubstr;
using whatif::Op;
using whatif::OpKind;

/// A program by hand; slots are what the recording happened to give.
class Asked {
 public:
  Asked& alloc(std::uint64_t bytes, std::uint32_t slot, std::uint32_t stream = 0) {
    Op op;
    op.bytes = bytes;
    op.slot = slot;
    op.stream = stream;
    program_.ops.push_back(op);
    return *this;
  }
  Asked& refused(std::uint64_t bytes) {
    alloc(bytes, 0);
    program_.ops.back().failed = true;
    return *this;
  }
  Asked& free(std::uint32_t slot) {
    Op op;
    op.kind = OpKind::kFree;
    op.slot = slot;
    program_.ops.push_back(op);
    return *this;
  }
  Asked& empty_cache() {
    program_.ops.emplace_back().kind = OpKind::kEmptyCache;
    return *this;
  }
  Asked& in_the_middle() {
    program_.start.segments.emplace_back();
    return *this;
  }
  [[nodiscard]] Requests requests() const { return requests_of(program_); }

 private:
  whatif::Program program_;
};

ProgramLikeness compared(const Asked& first, const Asked& second) {
  return compare(first.requests(), second.requests());
}

TEST(ProgramLikeness, IsByRequestsAndNotByWhereTheyWent) {
  const Asked first = Asked().alloc(10, 0).alloc(20, 1).free(0).alloc(30, 0).free(1);
  const Asked second = Asked().alloc(10, 7).alloc(20, 3).free(7).empty_cache().alloc(30, 5).free(3);
  const ProgramLikeness found = compared(first, second);

  EXPECT_EQ(found.likeness, Likeness::kSame);
  EXPECT_EQ(found.common_requests, 3U);
}

TEST(ProgramLikeness, OneThatFailsEarlierIsTheSameAsFarAsItGoes) {
  const Asked first = Asked().alloc(10, 0).alloc(20, 1).refused(30).free(1).free(0);
  const Asked second = Asked().alloc(10, 0).alloc(20, 1).alloc(30, 2).alloc(40, 3).free(0).free(1);
  const ProgramLikeness found = compared(first, second);

  EXPECT_EQ(found.likeness, Likeness::kSame);
  EXPECT_THAT(found.basis, HasSubstr("goes on with 1"));
}

TEST(ProgramLikeness, AnotherSizeIsAnotherProgram) {
  const Asked first = Asked().alloc(10, 0).alloc(20, 1).alloc(30, 2);
  const Asked second = Asked().alloc(10, 0).alloc(21, 1).alloc(31, 2);
  const ProgramLikeness found = compared(first, second);

  EXPECT_EQ(found.likeness, Likeness::kOther);
  EXPECT_EQ(found.common_requests, 1U);
  EXPECT_EQ(found.paired_requests, 1U);
}

TEST(ProgramLikeness, WhatIsGivenBackCounts) {
  const Asked first = Asked().alloc(10, 0).alloc(20, 1).free(0).alloc(30, 2);
  const Asked second = Asked().alloc(10, 0).alloc(20, 1).free(1).alloc(30, 2);

  EXPECT_EQ(compared(first, second).likeness, Likeness::kSimilar);
}

TEST(ProgramLikeness, TheSameSizesInAnotherOrderCannotBeTold) {
  const Asked first = Asked().alloc(10, 0).alloc(20, 1);
  const Asked second = Asked().alloc(20, 0).alloc(10, 1);

  EXPECT_EQ(compared(first, second).likeness, Likeness::kSimilar);
}

TEST(ProgramLikeness, StreamsAreByTheirOrderAndNotByTheirNumber) {
  const Asked first = Asked().alloc(10, 0, 4).alloc(20, 1, 2);

  EXPECT_EQ(compared(first, Asked().alloc(10, 0, 1).alloc(20, 1, 9)).likeness, Likeness::kSame);
  EXPECT_EQ(compared(first, Asked().alloc(10, 0, 1).alloc(20, 1, 1)).likeness, Likeness::kSimilar);
}

TEST(ProgramLikeness, ThatBeginsInTheMiddleCannotBeTold) {
  const ProgramLikeness found =
      compared(Asked().alloc(10, 0), Asked().alloc(10, 0).in_the_middle());

  EXPECT_EQ(found.likeness, Likeness::kUnknown);
  EXPECT_THAT(found.basis, HasSubstr("the history of B does not reach back"));
}

TEST(ProgramLikeness, OfNothingCannotBeTold) {
  EXPECT_EQ(compared(Asked(), Asked().alloc(10, 0)).likeness, Likeness::kUnknown);
}

}  // namespace
}  // namespace fragscope::difference
