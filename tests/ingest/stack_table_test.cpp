// SPDX-License-Identifier: Apache-2.0
#include "analyzer/recording/stack_table.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace fragscope::model {
namespace {

TEST(StringTable, NamesEachTextOnce) {
  StringTable table;

  const StringId first = table.intern("step");
  const StringId other = table.intern("main");

  EXPECT_EQ(table.intern(std::string("st") + "ep"), first);
  EXPECT_NE(first, other);
  EXPECT_EQ(table.view(first), "step");
}

TEST(StringTable, KeepsEmptyBinaryAndVeryLongTexts) {
  StringTable table;
  const std::string binary("\0\xff\n", 3);
  const std::string long_text(1 << 20, 'x');

  const StringId empty_id = table.intern("");
  const StringId binary_id = table.intern(binary);
  const StringId long_id = table.intern(long_text);

  EXPECT_EQ(table.view(empty_id), "");
  EXPECT_EQ(table.view(binary_id), binary);
  EXPECT_EQ(table.view(long_id), long_text);
}

// Views are handed out while the table grows; none may move.
TEST(StringTable, ViewsStayWhileItGrows) {
  StringTable table;
  const std::string_view first = table.view(table.intern("the first"));
  for (int i = 0; i < 50'000; ++i)
    static_cast<void>(table.intern("text number " + std::to_string(i)));
  StringTable moved = std::move(table);

  EXPECT_EQ(first, "the first");
  EXPECT_EQ(moved.view(moved.intern("the first")).data(), first.data());
  EXPECT_EQ(index_of(moved.intern("one more")), 50'001U);
}

TEST(StringTable, SaysHowMuchItHolds) {
  StringTable table;
  static_cast<void>(table.intern(std::string(1 << 20, 'x')));

  EXPECT_GE(table.held_bytes(), std::size_t{1} << 20);
}

TEST(StackTable, NamesEachFrameAndEachSequenceOnce) {
  StackTable table;
  const FrameId a = table.intern_frame({StringId{1}, StringId{2}, 3});
  const FrameId b = table.intern_frame({StringId{1}, StringId{2}, 4});
  const std::vector<FrameId> ab = {a, b};
  const std::vector<FrameId> ba = {b, a};

  const StackId first = table.intern_stack(ab);

  EXPECT_EQ(table.intern_frame({StringId{1}, StringId{2}, 3}), a);
  EXPECT_EQ(table.intern_stack(ab), first);
  EXPECT_NE(table.intern_stack(ba), first);
  EXPECT_NE(table.intern_stack(std::vector<FrameId>{a}), first);
  EXPECT_THAT(table.stack(first), ::testing::ElementsAre(a, b));
  EXPECT_EQ(table.frame(b).line, 4);
}

TEST(StackTable, TheEmptyStackIsNoStack) {
  StackTable table;

  EXPECT_EQ(table.intern_stack({}), kNoStack);
  EXPECT_TRUE(table.stack(kNoStack).empty());
}

TEST(StackTable, FindsEveryStackAgainAfterGrowing) {
  StackTable table;
  std::vector<FrameId> frames;
  frames.reserve(300);
  for (int line = 0; line < 300; ++line)
    frames.push_back(table.intern_frame({StringId{0}, StringId{0}, line}));
  std::vector<std::pair<StackId, std::vector<FrameId>>> stacks;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    for (std::size_t j = 0; j < 40; ++j) {
      std::vector<FrameId> sequence = {frames[i], frames[(i * 7 + j) % frames.size()], frames[j]};
      const StackId id = table.intern_stack(sequence);
      stacks.emplace_back(id, std::move(sequence));
    }
  }

  for (const auto& [id, sequence] : stacks) {
    EXPECT_EQ(table.intern_stack(sequence), id);
    EXPECT_THAT(table.stack(id), ::testing::ElementsAreArray(sequence));
  }
}

}  // namespace
}  // namespace fragscope::model
