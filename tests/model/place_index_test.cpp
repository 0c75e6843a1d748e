// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/place_index.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <iterator>
#include <random>
#include <set>
#include <vector>

namespace fragscope::model {
namespace {

TEST(PlaceIndex, RanksAddresses) {
  PlaceIndex index;
  const std::uint32_t high = index.add(0xffff'0000'0000'0000);
  const std::uint32_t low = index.add(0);
  const std::uint32_t middle = index.add(4096);
  EXPECT_EQ(index.add(4096), middle);

  const std::vector<Place> places = index.rank();

  EXPECT_EQ(index.size(), 3U);
  EXPECT_EQ(places[low], 0U);
  EXPECT_EQ(places[middle], 1U);
  EXPECT_EQ(places[high], 2U);
  EXPECT_EQ(index.address(2), 0xffff'0000'0000'0000);
  EXPECT_EQ(index.address(1), 4096U);
}

TEST(PlaceIndex, MayBeEmpty) {
  PlaceIndex index;

  EXPECT_TRUE(index.rank().empty());
  EXPECT_EQ(index.size(), 0U);
}

void expect_same(const PlaceSet& tested, const std::set<Place>& model, Place place) {
  const auto next = model.lower_bound(place);
  ASSERT_EQ(tested.next(place), next == model.end() ? kNoPlace : *next) << place;
  const auto behind = model.upper_bound(place);
  ASSERT_EQ(tested.previous(place), behind == model.begin() ? kNoPlace : *std::prev(behind))
      << place;
}

// The sizes lie at the borders of one, two and three levels of 64.
TEST(PlaceSet, AnswersAsAnOrderedSetDoes) {
  for (const std::uint32_t size : {1U, 2U, 63U, 64U, 65U, 4095U, 4096U, 4097U, 300'000U}) {
    for (const std::uint32_t seed : {1U, 2U, 3U}) {
      std::mt19937 random(seed * 1000 + size);
      PlaceSet tested(size);
      std::set<Place> model;
      for (int step = 0; step < 3000; ++step) {
        const Place place = static_cast<Place>(random() % size);
        // Long phases of growing and of shrinking, so that the set gets both full and empty.
        const bool grows = (step / 500) % 2 == 0;
        if (random() % 4 != 0 ? grows : !grows) {
          tested.insert(place);
          model.insert(place);
        } else {
          tested.erase(place);
          model.erase(place);
        }
        expect_same(tested, model, place);
        expect_same(tested, model, static_cast<Place>(random() % size));
      }
      expect_same(tested, model, 0);
      expect_same(tested, model, size - 1);
    }
  }
}

TEST(PlaceSet, KeepsTheFirstAndTheLastOfMany) {
  constexpr Place kLast = 300'000 - 1;
  PlaceSet tested(kLast + 1);
  tested.insert(0);
  tested.insert(kLast);

  EXPECT_EQ(tested.next(1), kLast);
  EXPECT_EQ(tested.previous(kLast - 1), 0U);
  tested.erase(kLast);
  EXPECT_EQ(tested.next(1), kNoPlace);
}

}  // namespace
}  // namespace fragscope::model
