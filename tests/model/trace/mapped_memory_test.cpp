// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/trace/heap/mapped_memory.hpp"

#include <gtest/gtest.h>

namespace fragscope::model {
namespace {

TEST(MappedMemory, RefusesWhatIsThereAlready) {
  MappedMemory memory;
  ASSERT_TRUE(memory.add({100, 50}, 100));

  EXPECT_FALSE(memory.add({100, 50}, 100));
  EXPECT_FALSE(memory.add({149, 1}, 149));
  EXPECT_FALSE(memory.add({50, 51}, 50));
  EXPECT_FALSE(memory.add({50, 500}, 50));
  EXPECT_FALSE(memory.add({120, 5}, 120));
  EXPECT_TRUE(memory.add({150, 10}, 150));
  EXPECT_TRUE(memory.add({90, 10}, 90));
}

TEST(MappedMemory, JoinsNeighboursOfOneBaseOnly) {
  MappedMemory memory;
  ASSERT_TRUE(memory.add({100, 10}, 100));
  ASSERT_TRUE(memory.add({120, 10}, 100));
  ASSERT_TRUE(memory.add({110, 10}, 100));
  ASSERT_TRUE(memory.add({130, 10}, 130));

  EXPECT_FALSE(memory.remove({125, 10}));
  EXPECT_TRUE(memory.remove({105, 20}));
}

TEST(MappedMemory, TakesPiecesOutOfTheMiddle) {
  MappedMemory memory;
  ASSERT_TRUE(memory.add({100, 100}, 100));

  ASSERT_TRUE(memory.remove({140, 20}));

  EXPECT_FALSE(memory.remove({139, 2}));
  EXPECT_FALSE(memory.remove({150, 5}));
  EXPECT_TRUE(memory.add({140, 20}, 7));
  EXPECT_TRUE(memory.remove({100, 40}));
  EXPECT_TRUE(memory.remove({160, 40}));
  EXPECT_FALSE(memory.remove({99, 1}));
}

}  // namespace
}  // namespace fragscope::model
