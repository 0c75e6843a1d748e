// SPDX-License-Identifier: Apache-2.0
#include "kernels/run_stream.hpp"

#include "tests/kernels/heaps.hpp"
#include "tests/support/result_matchers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fragscope::kernels {
namespace {

using test::FailsWith;
using test::IsOk;
using ::testing::HasSubstr;

constexpr ScanOptions kCpu{Device::kCpu, 1};

TEST(RunStream, FindsWhatOneScanOfTheWholeFinds) {
  const TestHeap heap = random_heap({"", 9000, 90, 20, 50, 10}, test_seed());

  for (const ChunkRoom room : {ChunkRoom{90, 1}, ChunkRoom{100, 7}, ChunkRoom{4096, 1000}}) {
    HeapSource source(heap);
    const Result<DeviceChoice> ran =
        stream_runs(room, 0, source.fill(), source.take(), {Device::kAuto});

    ASSERT_THAT(ran, IsOk());
    EXPECT_EQ(ran->device, Device::kCpu);
    EXPECT_EQ(source.taken(), reference_runs(heap).groups);
    EXPECT_GT(source.chunks(), 1U);
  }
}

TEST(RunStream, OfNothingTakesNothing) {
  const TestHeap heap = heap_of({});
  HeapSource source(heap);

  EXPECT_THAT(stream_runs({}, 0, source.fill(), source.take(), kCpu), IsOk());
  EXPECT_EQ(source.chunks(), 0U);
}

TEST(RunStream, EndsWithTheErrorOfItsSourceOrTaker) {
  const auto fails = [](auto&&...) { return failure(ErrorCode::kForeign, "no more"); };
  const TestHeap heap = heap_of({{{{1, true}}}});
  HeapSource source(heap);

  EXPECT_THAT(stream_runs({}, 0, fails, source.take(), kCpu), FailsWith(ErrorCode::kForeign));
  EXPECT_THAT(stream_runs({}, 0, source.fill(), fails, kCpu), FailsWith(ErrorCode::kForeign));
}

TEST(RunStream, RefusesChunksThatAreNoTablesOrTooFull) {
  const auto refusal = [](std::uint64_t groups, std::vector<std::uint64_t> begins) {
    const auto fill = [&](const Chunk& chunk) -> Result<std::uint64_t> {
      for (PackedBlock& block : chunk.blocks)
        block = PackedBlock::free(1);
      for (std::size_t i = 0; i < begins.size(); ++i)
        chunk.group_begins[i] = begins[i];
      return groups;
    };
    const auto take = [](auto&&...) { return Result<void>{}; };
    const Result<DeviceChoice> ran = stream_runs({4, 2}, 0, fill, take, kCpu);
    return ran ? std::string("accepted") : ran.error().describe();
  };

  EXPECT_THAT(refusal(3, {}), HasSubstr("3 groups in room for 2"));
  EXPECT_THAT(refusal(1, {0, 5}), HasSubstr("blocks 0 to 5 in room for 4"));
  EXPECT_THAT(refusal(1, {1, 2}), HasSubstr("blocks 1 to 2"));
  EXPECT_THAT(refusal(1, {0, 2}), HasSubstr("group 0 does not begin with the first"));
}

}  // namespace
}  // namespace fragscope::kernels
