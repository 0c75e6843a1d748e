// SPDX-License-Identifier: Apache-2.0
// The smallest device, worked out by hand.
#include "analyzer/whatif/fit.hpp"

#include "analyzer/whatif/program/program_builder.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace fragscope::whatif::test {
namespace {

using policy::kGiB;
using policy::kMiB;

/// So many requests of 100 MiB, none of which is given back.
Program keeps(std::uint64_t requests) {
  ProgramBuilder builder;
  for (std::uint64_t i = 0; i < requests; ++i) {
    builder.device_call(DeviceCall::Kind::kAllocate, (i + 1) * kGiB, 100 * kMiB, 0, {});
    builder.allocate((i + 1) * kGiB, 100 * kMiB, {});
  }
  return builder.finish();
}

TEST(Fit, IsWhatTheProgramHolds) {
  const Program program = keeps(3);
  const auto fit = find_fit(program, recorded_variant_on(program, 0));
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->variant.device_bytes, 300 * kMiB);
  EXPECT_TRUE(fit->islands.empty());
}

TEST(Fit, OfNothingIsNothing) {
  const Program program = keeps(0);
  const auto fit = find_fit(program, recorded_variant_on(program, 0));
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->variant.device_bytes, 0U);
  EXPECT_TRUE(fit->islands.empty());
}

TEST(Fit, OthersMemoryIsPartOfIt) {
  const Program program = keeps(3);
  Variant variant = recorded_variant_on(program, 0);
  variant.outside_bytes = kGiB;
  const auto fit = find_fit(program, variant);
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->variant.device_bytes, kGiB + 300 * kMiB);
}

TEST(Fit, AShareOfTheDeviceNeedsALargerOne) {
  const Program program = keeps(3);
  const auto half =
      with_options(recorded_variant_on(program, 0), "per_process_memory_fraction:0.5");
  const auto fit = find_fit(program, half.value());
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->variant.device_bytes, 600 * kMiB);
}

TEST(Fit, AShareThatWasRecordedCountsToo) {
  Program program = keeps(3);
  program.conf.per_process_memory_fraction = 0.25;
  const auto fit = find_fit(program, recorded_variant_on(program, 0));
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->variant.device_bytes, 1200 * kMiB);
}

TEST(Fit, IsNoneWhereOthersHoldMoreThanAnyDeviceHas) {
  const Program program = keeps(3);
  Variant variant = recorded_variant_on(program, 0);
  variant.outside_bytes = ~std::uint64_t{0};
  EXPECT_FALSE(find_fit(program, variant));
}

}  // namespace
}  // namespace fragscope::whatif::test
