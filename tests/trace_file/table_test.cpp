// SPDX-License-Identifier: Apache-2.0
#include "trace/file/table.hpp"

#include "tests/trace_file/some_trace.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <span>

namespace fragscope::trace {
namespace {

using test::Bytes;
using test::some_table;
using test::TableBuilder;

void expect_all(const Table& table) {
  EXPECT_EQ(table.text(1), "step");
  EXPECT_EQ(table.text(2), "train.py");
  EXPECT_EQ(table.frame(1).file, 2U);
  EXPECT_EQ(table.frame(1).line, 12U);
  EXPECT_EQ(table.stack(1), std::vector<std::uint32_t>{1});
  EXPECT_EQ(table.stream(1), 0x55U);
  EXPECT_EQ(table.pool(1).first, 1U);
  EXPECT_EQ(table.damage(), "");
}

TEST(Table, GivesBackWhatWasPutIn) {
  Table table;

  table.extend(some_table().bytes());

  expect_all(table);
}

TEST(Table, TakesPiecesCutAnywhere) {
  const Bytes bytes = some_table().bytes();
  for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
    Table table;

    table.extend(std::span(bytes).first(cut));
    table.extend(std::span(bytes).subspan(cut));

    expect_all(table);
  }
}

TEST(Table, HasFacts) {
  TableBuilder builder;
  const std::uint32_t fact = builder.fact({builder.text("driver"), builder.text("570.1")});
  Table table;
  table.extend(builder.bytes());

  ASSERT_EQ(table.count(TableKind::kFact), 1U);
  EXPECT_EQ(table.text(table.fact(fact).name), "driver");
  EXPECT_EQ(table.text(table.fact(fact).value), "570.1");
  EXPECT_EQ(table.fact(2).name, 0U);
}

TEST(Table, GivesNothingForIdsThatAreNotThere) {
  Table table;
  table.extend(some_table().bytes());

  EXPECT_EQ(table.text(0), "");
  EXPECT_EQ(table.text(3), "");
  EXPECT_EQ(table.frame(7).name, 0U);
  EXPECT_TRUE(table.stack(2).empty());
  EXPECT_EQ(table.stream(0xffffffff), 0U);
  EXPECT_EQ(table.pool(0).second, 0U);
}

TEST(Table, PassesOverKindsThatComeLater) {
  Bytes bytes = some_table().bytes();
  TableEntry later;
  later.kind = static_cast<TableKind>(77);
  later.bytes = 8;
  Bytes more;
  test::append(more, std::as_bytes(std::span(&later, 1)));
  more.resize(more.size() + 8);
  test::append(more, bytes);
  Table table;

  table.extend(more);

  expect_all(table);
}

TEST(Table, EndsAtAnIdOutOfTurn) {
  Bytes bytes = some_table().bytes();
  Bytes twice = bytes;
  test::append(twice, bytes);
  Table table;

  table.extend(twice);

  EXPECT_EQ(table.count(TableKind::kText), 2U);
  EXPECT_EQ(table.damage(),
            "table, byte " + std::to_string(bytes.size()) + ": expected id 3, found 1");
}

TEST(Table, SurvivesEveryChangedByte) {
  const Bytes bytes = some_table().bytes();
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    for (const int change : {1, 0x80, 0xff}) {
      Bytes changed = bytes;
      changed[at] ^= static_cast<std::byte>(change);
      Table table;

      table.extend(changed);

      for (std::uint32_t id = 0; id < 4; ++id) {
        static_cast<void>(table.text(id).size() + table.frame(id).line + table.stack(id).size());
        static_cast<void>(table.stream(id) + table.pool(id).first);
      }
      EXPECT_LE(table.count(TableKind::kText), 2U);
    }
  }
}

}  // namespace
}  // namespace fragscope::trace
