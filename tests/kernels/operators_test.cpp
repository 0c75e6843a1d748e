// SPDX-License-Identifier: Apache-2.0
// What a parallel scan takes for granted of its operators.
#include "kernels/algorithm/group_runs.hpp"
#include "kernels/algorithm/open_run.hpp"
#include "kernels/algorithm/window.hpp"
#include "tests/kernels/heaps.hpp"
#include "tests/kernels/primitive_checks.hpp"

#include <gtest/gtest.h>

#include <random>

namespace fragscope::kernels {
namespace {

constexpr int kRounds = 20000;

template <class T, class Operator, class Draw>
void expect_monoid(Operator join, T identity, const Draw& draw) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < kRounds; ++round) {
    const T a = draw(random);
    const T b = draw(random);
    const T c = draw(random);
    ASSERT_EQ(join(join(a, b), c), join(a, join(b, c))) << "round " << round;
    ASSERT_EQ(join(identity, a), a) << "round " << round;
    ASSERT_EQ(join(a, identity), a) << "round " << round;
  }
}

template <class T, class Operator, class Draw>
void expect_commutative(Operator join, const Draw& draw) {
  std::mt19937_64 random(test_seed());
  for (int round = 0; round < kRounds; ++round) {
    const T a = draw(random);
    const T b = draw(random);
    ASSERT_EQ(join(a, b), join(b, a)) << "round " << round;
  }
}

/// What is open behind up to four random blocks.
OpenRun random_open_run(std::mt19937_64& random) {
  OpenRun open;
  for (std::uint64_t blocks = random() % 5; blocks > 0; --blocks) {
    const std::uint64_t size = 1 + random() % (std::uint64_t{1} << 58);
    PackedBlock block = random() % 3 == 0 ? PackedBlock::live(size) : PackedBlock::free(size);
    if (random() % 4 == 0) block = block.as_first();
    open = JoinRuns{}(open, OpenRun::of(block));
  }
  return open;
}

GroupRuns random_group_runs(std::mt19937_64& random) {
  return {random() >> 2, random() >> 2, random() >> 2, random() >> 2};
}

/// Few values, so that ties are common.
Window random_window(std::mt19937_64& random) {
  return random() % 8 == 0 ? Window{} : Window{random() % 3, random() % 3, random() % 3};
}

TEST(JoinRuns, IsAMonoid) {
  expect_monoid(JoinRuns{}, OpenRun{}, random_open_run);
}

// The reason why DeviceReduce must not be given it.
TEST(JoinRuns, LeansOnOrder) {
  const OpenRun free = OpenRun::of(PackedBlock::free(3));
  const OpenRun live = OpenRun::of(PackedBlock::live(3));

  EXPECT_NE(JoinRuns{}(free, live), JoinRuns{}(live, free));
}

TEST(AddRuns, IsACommutativeMonoid) {
  expect_monoid(AddRuns{}, GroupRuns{}, random_group_runs);
  expect_commutative<GroupRuns>(AddRuns{}, random_group_runs);
}

TEST(CheaperWindow, IsACommutativeMonoid) {
  expect_monoid(CheaperWindow{}, Window{}, random_window);
  expect_commutative<Window>(CheaperWindow{}, random_window);
}

TEST(Bicyclic, IsAMonoidThatLeansOnOrder) {
  expect_monoid(JoinBicyclic{}, Bicyclic{}, [](std::mt19937_64& random) {
    return Bicyclic{random() % 9, random() % 9};
  });
  EXPECT_NE(JoinBicyclic{}(Bicyclic{1, 0}, Bicyclic{0, 1}),
            JoinBicyclic{}(Bicyclic{0, 1}, Bicyclic{1, 0}));
}

}  // namespace
}  // namespace fragscope::kernels
