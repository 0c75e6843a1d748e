// SPDX-License-Identifier: Apache-2.0
// A keyframe makes a heap known, or confirms it; one that cannot be true does neither.
#include "analyzer/model/trace/heap/trace_heap.hpp"
#include "tests/support/trace_builder.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace fragscope::model {
namespace {

using test::record;
using trace::Record;
using Kind = trace::RecordKind;

constexpr std::uint64_t kBase = 0x200000000000;
constexpr std::uint64_t kSegment = std::uint64_t{2} << 20;
constexpr std::uint64_t kSpace = 0x300000000000;
constexpr std::uint8_t kFirst = trace::kFlagFirst;
constexpr std::uint8_t kLive = trace::kFlagAllocated;
constexpr std::uint8_t kPages = trace::kFlagExpandable;
constexpr std::uint8_t kNoPages = trace::kFlagExpandable | trace::kFlagUnmapped;

/// A segment with a live block and a hole; a space whose first and last pages are there.
std::vector<Record> keyframe() {
  return {record(Kind::kKeyframeBegin, {1, 5, 2 * kSegment}),
          record(Kind::kKeyframeBlock, {kBase, 512, 100}, kFirst | kLive),
          record(Kind::kKeyframeBlock, {kBase + 512, kSegment - 512, 0}),
          record(Kind::kKeyframeBlock, {kSpace, 4096, 0}, kFirst | kPages),
          record(Kind::kKeyframeBlock, {kSpace + 4096, 4096, 0}, kNoPages),
          record(Kind::kKeyframeBlock, {kSpace + 8192, 4096, 50}, kPages | kLive),
          record(Kind::kKeyframeEnd, {1, 5, 0})};
}

void feed(TraceHeap& heap, const std::vector<Record>& records, std::uint64_t first = 0) {
  for (const Record& each : test::numbered(records, first))
    heap.apply(each);
}

TEST(TraceHeapKeyframe, MakesAHeapKnown) {
  TraceHeap heap;

  feed(heap, keyframe());

  EXPECT_TRUE(heap.is_known());
  EXPECT_EQ(heap.keyframes(), 1U);
  EXPECT_EQ(heap.contradictions(), 0U);
  EXPECT_EQ(heap.levels().reserved, kSegment + 8192);
  EXPECT_EQ(heap.levels().allocated, 512U + 4096U);
  EXPECT_EQ(heap.levels().requested, 150U);
  EXPECT_EQ(heap.levels().inactive_split, kSegment - 512);
}

/// As `keyframe`, and another space without pages, which is older than the rest.
std::vector<Record> numbered_keyframe() {
  std::vector<Record> records = keyframe();
  records[0].size = records[6].size = 6;
  records[1].detail = 7;
  records[3].detail = 8;
  records.insert(records.begin() + 6,
                 record(Kind::kKeyframeBlock, {2 * kSpace, 8192, 0}, kFirst | kNoPages));
  records[6].detail = 5;
  return records;
}

HeapState state_of(const TraceHeap& heap) {
  Recording recording;
  return heap.state(TraceNames({}, recording));
}

// Its pages may come later; its place in the order of segments is the one that it had.
TEST(TraceHeapKeyframe, TellsOfAddressSpaceWithoutPages) {
  TraceHeap heap;
  heap.trust_spaces();
  feed(heap, numbered_keyframe());

  const HeapState before = state_of(heap);
  feed(heap, {record(Kind::kSegmentMap, {2 * kSpace, 4096, 2 * kSpace}, kPages)}, 100);
  const HeapState after = state_of(heap);
  feed(heap, {record(Kind::kSegmentUnmap, {2 * kSpace, 4096, 2 * kSpace}, kNoPages)}, 101);

  ASSERT_EQ(before.reserved_spaces.size(), 2U);
  EXPECT_EQ(before.reserved_spaces[0].address, kSpace);
  EXPECT_EQ(before.reserved_spaces[0].size_bytes, 3 * 4096U);
  EXPECT_EQ(before.reserved_spaces[0].number, 8U);
  EXPECT_EQ(before.reserved_spaces[1].size_bytes, 8192U);
  EXPECT_EQ(before.reserved_spaces[1].number, 5U);
  EXPECT_EQ(after.segments.back().address, 2 * kSpace);
  EXPECT_EQ(after.segments.back().number, 5U);
  EXPECT_EQ(state_of(heap).reserved_spaces.size(), 1U) << "it went with its last page";
  EXPECT_EQ(heap.contradictions(), 0U);
}

TEST(TraceHeapKeyframe, TellsOfNoAddressSpaceThatItMayNotListToItsEnd) {
  TraceHeap heap;
  feed(heap, numbered_keyframe());
  EXPECT_TRUE(state_of(heap).reserved_spaces.empty());
}

// A walk from the beginning knows segments by their first pages.
TEST(TraceHeapKeyframe, SaysInWhichOrderSegmentsWereObtained) {
  TraceHeap heap;
  heap.begin_empty();
  feed(heap,
       {record(Kind::kSegmentMap, {kSpace, 4096, kSpace}, kPages),
        record(Kind::kSegmentAlloc, {kBase, 512, 0})});
  std::vector<Record> records = {record(Kind::kKeyframeBegin, {1, 2, 4096 + 512}),
                                 record(Kind::kKeyframeBlock, {kBase, 512, 0}, kFirst),
                                 record(Kind::kKeyframeBlock, {kSpace, 4096, 0}, kFirst | kPages),
                                 record(Kind::kKeyframeEnd, {1, 2, 0})};
  records[1].detail = 3;
  records[2].detail = 4;

  const HeapState before = state_of(heap);
  feed(heap, records, 2);
  const HeapState after = state_of(heap);

  EXPECT_GT(before.segments[0].number, before.segments[1].number);
  EXPECT_EQ(after.segments[0].number, 3U);
  EXPECT_EQ(after.segments[1].number, 4U);
  EXPECT_EQ(heap.contradictions(), 0U);
}

TEST(TraceHeapKeyframe, LeavesAHeapThatGoesOn) {
  TraceHeap heap;
  feed(heap, keyframe());

  feed(heap,
       {record(Kind::kSegmentMap, {kSpace + 4096, 4096, kSpace}),
        record(Kind::kMerge, {kSpace, 8192, kSpace + 4096}),
        record(Kind::kFreeRequested, {kBase, 512, 100}),
        record(Kind::kFreeCompleted, {kBase, 512, 100}),
        record(Kind::kMerge, {kBase, kSegment, kBase + 512}),
        record(Kind::kSegmentFree, {kBase, kSegment, 0})},
       7);

  EXPECT_EQ(heap.contradictions(), 0U);
  EXPECT_EQ(heap.levels().reserved, 3U * 4096U);
  EXPECT_EQ(heap.levels().inactive_split, 0U);
}

TEST(TraceHeapKeyframe, ConfirmsTheSameHeap) {
  TraceHeap heap;
  feed(heap, keyframe());

  feed(heap, keyframe(), 7);

  EXPECT_EQ(heap.keyframes(), 2U);
  EXPECT_EQ(heap.contradictions(), 0U);
}

TEST(TraceHeapKeyframe, CorrectsAnotherHeapAndSaysSo) {
  TraceHeap heap;
  feed(heap, keyframe());
  std::vector<Record> other = keyframe();
  other[1].flags = kFirst | trace::kFlagPending;

  feed(heap, other, 7);

  EXPECT_EQ(heap.contradictions(), 1U);
  EXPECT_EQ(heap.first_contradiction(), 13U);
  EXPECT_EQ(heap.levels().allocated, 4096U);
  EXPECT_EQ(heap.levels().active, 512U + 4096U);
}

struct Broken {
  const char* name;
  std::function<void(std::vector<Record>&)> change;
};

class TraceHeapKeyframeRefuses : public ::testing::TestWithParam<Broken> {};

TEST_P(TraceHeapKeyframeRefuses, AndStaysInTheDark) {
  std::vector<Record> records = keyframe();
  GetParam().change(records);
  TraceHeap heap;

  feed(heap, records);

  EXPECT_FALSE(heap.is_known());
  EXPECT_EQ(heap.keyframes(), 0U);
  EXPECT_EQ(heap.contradictions(), 1U);
}

TEST_P(TraceHeapKeyframeRefuses, AndKeepsWhatItKnew) {
  std::vector<Record> records = keyframe();
  GetParam().change(records);
  TraceHeap heap;
  feed(heap, keyframe());

  feed(heap, records, 7);

  EXPECT_TRUE(heap.is_known());
  EXPECT_EQ(heap.levels().reserved, kSegment + 8192);
  EXPECT_GE(heap.contradictions(), 1U);
}

const Broken kBroken[] = {
    {"ABlockLess", [](auto& all) { all.erase(all.begin() + 2); }},
    {"ABlockMore",
     [](auto& all) {
       all.insert(all.end() - 1, record(Kind::kKeyframeBlock, {kSpace + 12288, 512, 0}, kPages));
     }},
    {"AnotherNumber", [](auto& all) { all.back().address = 2; }},
    {"AGap", [](auto& all) { all[2].address += 512; }},
    {"AnOverlap", [](auto& all) { all[2].address -= 256; }},
    {"TheSameBlockTwice", [](auto& all) { all[2] = all[1]; }},
    {"SegmentsInOneAnother",
     [](auto& all) {
       for (std::size_t i = 3; i < 6; ++i)
         all[i].address += kBase + 4096 - kSpace;
     }},
    {"NoFirst", [](auto& all) { all[1].flags = kLive; }},
    {"NothingInABlock", [](auto& all) { all[1].size = 0; }},
    {"OverTheEnd", [](auto& all) { all[2].size = ~std::uint64_t{0}; }},
    {"LiveAndPending", [](auto& all) { all[1].flags |= trace::kFlagPending; }},
    {"MoreRequestedThanThere", [](auto& all) { all[1].other = 513; }},
    {"UnmappedAndLive", [](auto& all) { all[4].flags |= kLive; }},
    {"UnmappedInASegment", [](auto& all) { all[2].flags |= trace::kFlagUnmapped; }},
    {"PagesInASegment", [](auto& all) { all[2].flags |= kPages; }},
    {"SomethingBetween",
     [](auto& all) {
       all.insert(all.begin() + 2, record(Kind::kFreeRequested, {kBase, 512, 100}));
     }},
};

INSTANTIATE_TEST_SUITE_P(Keyframes,
                         TraceHeapKeyframeRefuses,
                         ::testing::ValuesIn(kBroken),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(TraceHeapKeyframe, IsNotTakenFromItsMiddleOn) {
  const std::vector<Record> all = keyframe();
  TraceHeap heap;

  feed(heap, {all.begin() + 2, all.end()});

  EXPECT_FALSE(heap.is_known());
  EXPECT_EQ(heap.contradictions(), 0U);
}

TEST(TraceHeapKeyframe, MayBeEmpty) {
  TraceHeap heap;

  feed(heap, {record(Kind::kKeyframeBegin, {1, 0, 0}), record(Kind::kKeyframeEnd, {1, 0, 0})});

  EXPECT_TRUE(heap.is_known());
}

}  // namespace
}  // namespace fragscope::model
