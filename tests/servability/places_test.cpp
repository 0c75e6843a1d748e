// SPDX-License-Identifier: Apache-2.0
#include "analyzer/servability/runs/places.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace fragscope::servability {
namespace {

using Ends = std::pair<std::uint64_t, std::uint64_t>;

std::optional<Ends> first_of(const Places& places, std::uint64_t bytes, std::uint64_t behind) {
  const std::optional<Range> found = places.first_of(bytes, behind);
  return found ? std::optional(Ends{found->begin, found->end}) : std::nullopt;
}

TEST(Places, AreEndlessBehindTheLastUse) {
  Places places;
  EXPECT_EQ(first_of(places, 1, 0), std::nullopt);
  places.begin_at(100);
  places.use({100, 200});
  EXPECT_EQ(first_of(places, std::uint64_t{1} << 50, 0), Ends(200, Places::kEndless));
}

TEST(Places, BeginFurtherDownWhereALowerAddressCame) {
  Places places;
  places.begin_at(100);
  places.use({100, 200});
  places.begin_at(40);
  places.begin_at(60);
  EXPECT_EQ(first_of(places, 60, 0), Ends(40, 100));
}

TEST(Places, TheFirstOfASizeIsWhatALookAtAllFinds) {
  constexpr std::uint64_t kEnd = 96;
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    Places places;
    places.begin_at(0);
    std::vector<bool> used(kEnd, false);
    for (int step = 0; step < 60; ++step) {
      const std::uint64_t begin = random() % kEnd;
      const std::uint64_t end = begin + random() % (kEnd - begin + 1);
      const bool is_use = random() % 2 == 0;
      is_use ? places.use({begin, end}) : places.leave({begin, end});
      for (std::uint64_t at = begin; at < end; ++at)
        used[at] = is_use;
      const std::uint64_t bytes = 1 + random() % 12;
      const std::uint64_t behind = random() % kEnd;
      std::optional<Ends> expected;
      for (std::uint64_t at = 0; at < kEnd && !expected; ++at) {
        if (used[at] || (at > 0 && !used[at - 1])) continue;
        std::uint64_t end_of = at;
        while (end_of < kEnd && !used[end_of])
          ++end_of;
        const Ends place{at, end_of == kEnd ? Places::kEndless : end_of};
        if (at >= behind && place.second - at >= bytes) expected = place;
      }
      if (!expected && used[kEnd - 1]) expected = Ends{kEnd, Places::kEndless};
      ASSERT_EQ(first_of(places, bytes, behind), expected) << "seed " << seed << ", step " << step;
    }
  }
}

TEST(Places, ForgetSizesWithoutForgettingPlaces) {
  Places places;
  places.begin_at(0);
  places.use({1000, 2000});
  for (std::uint64_t bytes = 1; bytes <= 1000; ++bytes)
    EXPECT_EQ(places.first_of(bytes, 0)->begin, 0U);
  places.use({0, 500});
  EXPECT_EQ(places.first_of(500, 0)->begin, 500U);
  EXPECT_EQ(places.first_of(501, 0)->begin, 2000U);
}

}  // namespace
}  // namespace fragscope::servability
