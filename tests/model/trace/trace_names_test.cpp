// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/trace/trace_names.hpp"

#include "tests/support/trace_builder.hpp"

#include <gtest/gtest.h>

namespace fragscope::model {
namespace {

TEST(TraceNames, TranslatesIds) {
  test::TableBuilder builder;
  builder.text("step");
  const std::uint32_t frames[] = {builder.frame({1, 0, 3}), 77};
  builder.stack(frames);
  builder.stream(0x9000);
  builder.pool({0, 4});
  trace::Table table;
  table.extend(builder.bytes());
  Recording recording;

  const TraceNames names(table, recording);

  EXPECT_EQ(names.stream(1), 0x9000);
  EXPECT_EQ(recording.pools[index_of(names.pool(1))], (PoolId{0, 4}));
  EXPECT_NE(names.stack(1), kNoStack);
  EXPECT_TRUE(names.has_pool(1) && names.has_stream(1));
}

TEST(TraceNames, TakesTheDefaultForWhatTheTableLacks) {
  Recording recording;

  const TraceNames names({}, recording);

  EXPECT_EQ(names.stream(3), 0);
  EXPECT_EQ(names.pool(trace::kUnknownPool), kDefaultPool);
  EXPECT_EQ(names.stack(9), kNoStack);
  EXPECT_FALSE(names.has_pool(trace::kUnknownPool));
  EXPECT_FALSE(names.has_stream(trace::kUnknownStream));
  EXPECT_TRUE(names.has_pool(0) && names.has_stream(0));
}

TEST(TraceNames, KnowsThatTwoIdsAreOnePool) {
  test::TableBuilder builder;
  for (const trace::TablePool pool : {trace::TablePool{0, 4}, {0, 4}, {0, 0}})
    builder.pool(pool);
  trace::Table table;
  table.extend(builder.bytes());
  Recording recording;

  const TraceNames names(table, recording);

  EXPECT_EQ(names.pool(1), names.pool(2));
  EXPECT_EQ(names.pool(3), kDefaultPool);
  EXPECT_EQ(recording.pools.size(), 2U);
}

}  // namespace
}  // namespace fragscope::model
