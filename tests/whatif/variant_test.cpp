// SPDX-License-Identifier: Apache-2.0
// Programs under other settings, worked out by hand.
#include "analyzer/whatif/variant.hpp"

#include "analyzer/whatif/program/program_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace fragscope::whatif::test {
namespace {

using policy::kGiB;
using policy::kMiB;
using ::testing::ElementsAre;

/// Three segments of 100 MiB on a card of 310; the first halves of all three are freed, and 100 MiB
/// are asked for once more, in vain.
Program comb() {
  ProgramBuilder builder;
  builder.program().device_bytes = 310 * kMiB;
  std::uint32_t event = 0;
  for (const std::uint64_t segment : {kGiB, 2 * kGiB, 3 * kGiB}) {
    builder.at(event++);
    builder.device_call(DeviceCall::Kind::kAllocate, segment, 100 * kMiB, 0, {});
    builder.at(event++);
    builder.allocate(segment, 100 * kMiB, {});
    builder.at(event++);
    builder.free(segment);
    builder.complete(segment);
    builder.at(event++);
    builder.allocate(segment, 50 * kMiB, {});
    builder.at(event++);
    builder.allocate(segment + 50 * kMiB, 50 * kMiB, {});
  }
  for (const std::uint64_t segment : {kGiB, 2 * kGiB, 3 * kGiB}) {
    builder.at(event++);
    builder.free(segment);
    builder.complete(segment);
  }
  builder.at(event++);
  builder.fail(100 * kMiB, {});
  return builder.finish();
}

Variant recorded(const Program& program) {
  return recorded_variant(program).value();
}

TEST(Variant, TheRecordedSettingsFailAsRecorded) {
  const Program program = comb();
  const Outcome outcome = run(program, recorded(program));
  ASSERT_TRUE(outcome.first_failure);
  EXPECT_EQ(program.event_of(program.ops[outcome.first_failure->op]), 18);
  EXPECT_EQ(outcome.first_failure->verdict.kind, verdict::VerdictKind::kFragmented);
  EXPECT_FALSE(outcome.is_cut_short);
  EXPECT_EQ(outcome.peak_reserved_bytes, 300 * kMiB);
  EXPECT_EQ(outcome.peak_allocated_bytes, 300 * kMiB);
  EXPECT_EQ(outcome.driver_allocations, 3U);
  EXPECT_EQ(outcome.driver_frees, 0U);
  EXPECT_EQ(outcome.retries, 1U);
}

TEST(Variant, ExpandableSegmentsServeWhatWasRefused) {
  const Program program = comb();
  const auto variant = with_options(recorded(program), "expandable_segments:True");
  ASSERT_TRUE(variant);
  const Outcome outcome = run(program, *variant);
  EXPECT_FALSE(outcome.first_failure);
  EXPECT_EQ(outcome.served_refusals, 1U);
}

TEST(Variant, ASmallerDeviceEndsTheProgramEarlier) {
  const Program program = comb();
  Variant variant = recorded(program);
  variant.device_bytes = 250 * kMiB;
  const Outcome outcome = run(program, variant);
  ASSERT_TRUE(outcome.first_failure);
  EXPECT_TRUE(outcome.is_cut_short);
  EXPECT_EQ(program.event_of(program.ops[outcome.first_failure->op]), 11);
  EXPECT_EQ(outcome.failures, 1U);
}

TEST(Variant, OthersMayTakeTheDeviceInTheMiddle) {
  const Program program = comb();
  Variant variant = recorded(program);
  variant.outside_changes = {{11, 150 * kMiB}};
  const Outcome outcome = run(program, variant);
  ASSERT_TRUE(outcome.first_failure);
  EXPECT_EQ(program.event_of(program.ops[outcome.first_failure->op]), 11);
  EXPECT_EQ(outcome.first_failure->verdict.kind, verdict::VerdictKind::kCapacity);
}

TEST(Variant, ALimitRefuses) {
  const Program program = comb();
  Variant variant = recorded(program);
  variant.limit_bytes = 200 * kMiB;
  const Outcome outcome = run(program, variant);
  ASSERT_TRUE(outcome.first_failure);
  EXPECT_EQ(outcome.first_failure->verdict.kind, verdict::VerdictKind::kLimit);
}

TEST(Variant, AFractionInTheOptionsIsALimit) {
  const Program program = comb();
  const auto variant = with_options(recorded(program), "per_process_memory_fraction:0.5");
  ASSERT_TRUE(variant);
  const Outcome outcome = run(program, *variant);
  ASSERT_TRUE(outcome.first_failure);
  EXPECT_EQ(outcome.first_failure->verdict.kind, verdict::VerdictKind::kLimit);
}

TEST(Variant, AWrongOptionIsRefusedInPytorchsWords) {
  const auto variant = with_options(recorded(comb()), "max_split_size_mb:1");
  ASSERT_FALSE(variant);
  EXPECT_NE(variant.error().message.find("max_split_size_mb"), std::string::npos);
}

TEST(Variant, TheBestComesFirst) {
  const Program program = comb();
  const Variant base = recorded(program);
  Variant small = base;
  small.name = "small";
  small.device_bytes = 150 * kMiB;
  const std::vector<Trial> trials =
      try_all(program, {small, base, *with_options(base, "expandable_segments:True")});
  std::vector<std::string> names;
  names.reserve(trials.size());
  for (const Trial& trial : trials)
    names.push_back(trial.variant.name);
  EXPECT_THAT(names, ElementsAre("expandable_segments:True", "as recorded", "small"));
  EXPECT_EQ(trials[1].peak.reserved_bytes, 300 * kMiB);
}

TEST(Variant, WithoutADeviceThereIsNone) {
  Program program = comb();
  program.device_bytes = 0;
  EXPECT_FALSE(recorded_variant(program));
  program.available_bytes = 310 * kMiB;
  ASSERT_TRUE(recorded_variant(program));
  EXPECT_TRUE(run(program, *recorded_variant(program)).first_failure);
}

TEST(Variant, AShareOfADeviceThatIsNotKnownIsNotKnown) {
  Program program = comb();
  program.conf.per_process_memory_fraction = 0.5;
  EXPECT_EQ(run(program, recorded(program)).first_failure->verdict.kind,
            verdict::VerdictKind::kLimit);
  program.device_bytes = 0;
  program.available_bytes = 310 * kMiB;
  EXPECT_FALSE(recorded_variant(program));
}

}  // namespace
}  // namespace fragscope::whatif::test
