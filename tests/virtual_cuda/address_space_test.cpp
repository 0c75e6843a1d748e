// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/device/address_space.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <random>
#include <vector>

namespace fragscope::virtual_cuda {
namespace {

constexpr std::uint64_t kUnit = 1 << 21;
constexpr std::uint64_t kBase = 0x2000'0000'0000;

AddressSpace space_of(std::uint64_t units) {
  return AddressSpace({kBase, units * kUnit}, kUnit);
}

TEST(AddressSpace, HandsOutAscendingAddresses) {
  AddressSpace space = space_of(8);

  EXPECT_EQ(space.reserve({2 * kUnit}), (AddressRange{kBase, 2 * kUnit}));
  EXPECT_EQ(space.reserve({kUnit}), (AddressRange{kBase + 2 * kUnit, kUnit}));
}

TEST(AddressSpace, RoundsSizesUpToItsGranularity) {
  AddressSpace space = space_of(8);

  EXPECT_EQ(space.reserve({1})->size_bytes, kUnit);
  EXPECT_EQ(space.reserve({kUnit + 1})->size_bytes, 2 * kUnit);
  EXPECT_EQ(space.reserved_bytes(), 3 * kUnit);
}

TEST(AddressSpace, TakesTheLowestHoleThatFits) {
  AddressSpace space = space_of(8);
  const auto first = space.reserve({kUnit});
  ASSERT_TRUE(space.reserve({kUnit}));
  const auto third = space.reserve({3 * kUnit});
  ASSERT_TRUE(space.reserve({kUnit}));
  ASSERT_TRUE(space.release(first->begin));
  ASSERT_TRUE(space.release(third->begin));

  // The first hole is too small for two units, the second is not; a later hole is not looked at.
  EXPECT_EQ(space.reserve({2 * kUnit})->begin, third->begin);
  EXPECT_EQ(space.reserve({kUnit})->begin, first->begin);
}

TEST(AddressSpace, JoinsHolesThatTouch) {
  AddressSpace space = space_of(3);
  std::vector<std::uint64_t> begins;
  begins.reserve(3);
  for (int i = 0; i < 3; ++i)
    begins.push_back(space.reserve({kUnit})->begin);

  for (const int i : {0, 2, 1})
    ASSERT_TRUE(space.release(begins[static_cast<std::size_t>(i)]));

  EXPECT_EQ(space.reserve({3 * kUnit})->begin, kBase);
}

TEST(AddressSpace, HonoursAlignmentAndKeepsWhatItSkips) {
  AddressSpace space = space_of(8);
  ASSERT_TRUE(space.reserve({kUnit}));

  EXPECT_EQ(space.reserve({kUnit, 4 * kUnit})->begin, kBase + 4 * kUnit);
  EXPECT_EQ(space.reserve({3 * kUnit})->begin, kBase + kUnit);
}

TEST(AddressSpace, RefusesWhatItCannotServe) {
  AddressSpace space = space_of(4);

  EXPECT_FALSE(space.reserve({0}));
  EXPECT_FALSE(space.reserve({5 * kUnit}));
  EXPECT_FALSE(space.reserve({~std::uint64_t{0}}));
  EXPECT_FALSE(space.reserve({kUnit, 3 * kUnit}));
  EXPECT_EQ(space.reserved_bytes(), 0U);
}

TEST(AddressSpace, ReleasesOnlyFirstAddressesOfRanges) {
  AddressSpace space = space_of(4);
  const auto range = space.reserve({2 * kUnit});

  EXPECT_FALSE(space.release(range->begin + kUnit));
  EXPECT_TRUE(space.release(range->begin));
  EXPECT_FALSE(space.release(range->begin));
}

TEST(AddressSpace, FindsTheRangeOfAnAddress) {
  AddressSpace space = space_of(4);
  const auto range = space.reserve({2 * kUnit});

  EXPECT_EQ(space.find(range->begin + kUnit), range);
  EXPECT_FALSE(space.find(range->end()));
  EXPECT_FALSE(space.find(kBase - 1));
}

// Whatever the order of calls, the rule is: the lowest place at which the request fits. Checked
// against a bitmap, with sizes that leave holes of every length.
TEST(AddressSpace, AgreesWithABitmapOnRandomCalls) {
  constexpr std::size_t kUnits = 64;
  AddressSpace space = space_of(kUnits);
  std::vector<bool> taken(kUnits, false);
  std::map<std::uint64_t, std::size_t> live;  // Begin to units.
  std::mt19937 random(20261129);

  for (int step = 0; step < 20'000; ++step) {
    if (random() % 2 == 0 && !live.empty()) {
      const auto chosen =
          std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
      ASSERT_TRUE(space.release(chosen->first));
      const std::size_t first = (chosen->first - kBase) / kUnit;
      for (std::size_t i = 0; i < chosen->second; ++i)
        taken[first + i] = false;
      live.erase(chosen);
      continue;
    }
    const std::size_t units = 1 + random() % 12;
    std::size_t place = 0;
    std::size_t run = 0;
    while (place < kUnits && run < units)
      run = taken[place++] ? 0 : run + 1;
    const auto range = space.reserve({units * kUnit});
    ASSERT_EQ(range.has_value(), run == units);
    if (!range) continue;
    ASSERT_EQ(range->begin, kBase + (place - units) * kUnit);
    for (std::size_t i = place - units; i < place; ++i)
      taken[i] = true;
    live.emplace(range->begin, units);
  }
}

}  // namespace
}  // namespace fragscope::virtual_cuda
