// SPDX-License-Identifier: Apache-2.0
// A record that cannot be true is counted and changes nothing; what can be, moves the sums.
#include "analyzer/model/trace/heap/trace_heap.hpp"

#include "tests/support/trace_builder.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

namespace fragscope::model {
namespace {

using test::Place;
using test::record;
using trace::Record;
using trace::RecordKind;
using Kind = RecordKind;

constexpr std::uint64_t kBase = 0x200000000000;
constexpr std::uint64_t kSegment = std::uint64_t{2} << 20;
constexpr std::uint64_t kSpace = 0x300000000000;
constexpr std::uint64_t kLast = ~std::uint64_t{0};

/// "0x...: L512/100 H1024" for each segment.
std::string text_of(const TraceHeap& heap) {
  Recording recording;
  const HeapState state = heap.state(TraceNames({}, recording));
  std::string text;
  for (const HeapSegment& segment : state.segments) {
    text += std::to_string(segment.address) + ":";
    for (const HeapBlock& block : state.blocks_of(segment)) {
      text += block.state == BlockState::kLive      ? " L"
              : block.state == BlockState::kPending ? " P"
                                                    : " H";
      text += std::to_string(block.size_bytes) + "/" + std::to_string(block.requested_bytes);
    }
    text += '\n';
  }
  const TraceLevels& levels = heap.levels();
  for (const std::uint64_t level :
       {levels.reserved, levels.allocated, levels.active, levels.requested, levels.inactive_split})
    text += std::to_string(level) + " ";
  return text;
}

/// A heap after these records, none of which may be refused.
TraceHeap heap_after(const std::vector<Record>& records) {
  TraceHeap heap;
  heap.begin_empty();
  for (const Record& each : test::numbered(records))
    heap.apply(each);
  EXPECT_EQ(heap.contradictions(), 0U);
  return heap;
}

/// A plain segment: live, pending, live, hole. An address space with two ranges.
TraceHeap some_heap() {
  return heap_after({record(Kind::kSegmentAlloc, {kBase, kSegment, 0}),
                     record(Kind::kSplit, {kBase, 512, kSegment - 512}),
                     record(Kind::kAlloc, {kBase, 512, 100}),
                     record(Kind::kSplit, {kBase + 512, 1024, kSegment - 1536}),
                     record(Kind::kAlloc, {kBase + 512, 1024, 1000}),
                     record(Kind::kFreeRequested, {kBase + 512, 1024, 1000}),
                     record(Kind::kSplit, {kBase + 1536, 512, kSegment - 2048}),
                     record(Kind::kAlloc, {kBase + 1536, 512, 512}),
                     record(Kind::kSegmentMap, {kSpace, kSegment, kSpace}),
                     record(Kind::kSegmentMap, {kSpace + 3 * kSegment, kSegment, kSpace})});
}

TEST(TraceHeap, KeepsItsSumsAndBlocks) {
  EXPECT_EQ(text_of(some_heap()),
            std::to_string(kBase) + ": L512/100 P1024/1000 L512/512 H2095104/0\n" +
                std::to_string(kSpace) + ": H2097152/0\n" + std::to_string(kSpace + 3 * kSegment) +
                ": H2097152/0\n" + "6291456 1024 2048 1612 2095104 ");
}

TEST(TraceHeap, ComesBackToNothing) {
  TraceHeap heap = some_heap();
  for (const Record& each :
       test::numbered({record(Kind::kFreeCompleted, {kBase + 512, 1024, 1000}),
                       record(Kind::kFreeRequested, {kBase, 512, 100}),
                       record(Kind::kFreeCompleted, {kBase, 512, 100}),
                       record(Kind::kMerge, {kBase, 1536, kBase + 512}),
                       record(Kind::kFreeRequested, {kBase + 1536, 512, 512}),
                       record(Kind::kFreeCompleted, {kBase + 1536, 512, 512}),
                       record(Kind::kMerge, {kBase, 2048, kBase}),
                       record(Kind::kMerge, {kBase, kSegment, kBase + 2048}),
                       record(Kind::kSegmentFree, {kBase, kSegment, 0}),
                       record(Kind::kSegmentUnmap, {kSpace, kSegment, kSpace}),
                       record(Kind::kSegmentUnmap, {kSpace + 3 * kSegment, kSegment, kSpace})},
                      10))
    heap.apply(each);

  EXPECT_EQ(heap.contradictions(), 0U);
  EXPECT_EQ(text_of(heap), "0 0 0 0 0 ");
}

TEST(TraceHeap, JoinsPagesThatMeet) {
  TraceHeap heap = some_heap();
  for (const Record& each :
       test::numbered({record(Kind::kSegmentMap, {kSpace + kSegment, 2 * kSegment, kSpace}),
                       record(Kind::kMerge, {kSpace, 3 * kSegment, kSpace + kSegment}),
                       record(Kind::kMerge, {kSpace, 4 * kSegment, kSpace + 3 * kSegment}),
                       record(Kind::kSplit, {kSpace, kSegment, 3 * kSegment}),
                       record(Kind::kSplit, {kSpace + kSegment, kSegment, 2 * kSegment}),
                       record(Kind::kSegmentUnmap, {kSpace + kSegment, kSegment, kSpace})},
                      10))
    heap.apply(each);

  EXPECT_EQ(heap.contradictions(), 0U);
  EXPECT_NE(text_of(heap).find(std::to_string(kSpace + 2 * kSegment) + ": H4194304/0"),
            std::string::npos);
}

struct Impossible {
  const char* name;
  Record record;
};

class TraceHeapRefuses : public ::testing::TestWithParam<Impossible> {};

TEST_P(TraceHeapRefuses, AndLeavesOut) {
  TraceHeap heap = some_heap();
  const std::string before = text_of(heap);
  Record wrong = GetParam().record;
  wrong.commit = trace::commit_word(41);

  heap.apply(wrong);

  EXPECT_EQ(heap.contradictions(), 1U);
  EXPECT_EQ(heap.first_contradiction(), 41U);
  EXPECT_EQ(text_of(heap), before);
}

const Impossible kImpossible[] = {
    {"SegmentOfNothing", record(Kind::kSegmentAlloc, {kBase + 2 * kSegment, 0, 0})},
    {"SegmentThere", record(Kind::kSegmentAlloc, {kBase, kSegment, 0})},
    {"SegmentInside", record(Kind::kSegmentAlloc, {kBase + 4096, 512, 0})},
    {"SegmentAround", record(Kind::kSegmentAlloc, {kBase - 512, 2 * kSegment, 0})},
    {"SegmentOverTheEnd", record(Kind::kSegmentAlloc, {kLast - 511, 1024, 0})},
    {"SegmentOnASpace", record(Kind::kSegmentAlloc, {kSpace, kSegment, 0})},
    {"SegmentFreeUsed", record(Kind::kSegmentFree, {kBase, kSegment, 0})},
    {"SegmentFreeUnknown", record(Kind::kSegmentFree, {kBase + 7, kSegment, 0})},
    {"SegmentFreePages", record(Kind::kSegmentFree, {kSpace, kSegment, 0})},
    {"MapThere", record(Kind::kSegmentMap, {kSpace, kSegment, kSpace})},
    {"MapAcross", record(Kind::kSegmentMap, {kSpace + kSegment, 3 * kSegment, kSpace})},
    {"MapBeforeItsSpace", record(Kind::kSegmentMap, {kSpace - kSegment, kSegment, kSpace})},
    {"MapIntoASegment", record(Kind::kSegmentMap, {kBase + 4096, kSegment, kSpace - kSegment})},
    {"MapOfASegment", record(Kind::kSegmentMap, {kBase + kSegment, kSegment, kBase})},
    {"UnmapUsed", record(Kind::kSegmentUnmap, {kBase, 512, kBase})},
    {"UnmapPart", record(Kind::kSegmentUnmap, {kSpace, 4096, kSpace})},
    {"UnmapSegment", record(Kind::kSegmentUnmap, {kBase + 2048, kSegment - 2048, kBase})},
    {"AllocUsed", record(Kind::kAlloc, {kBase, 512, 100})},
    {"AllocOtherSize", record(Kind::kAlloc, {kBase + 2048, 512, 100})},
    {"AllocMoreThanItsSize", record(Kind::kAlloc, {kBase + 2048, kSegment - 2048, kSegment})},
    {"AllocNowhere", record(Kind::kAlloc, {kBase + 7, 512, 100})},
    {"SplitUsed", record(Kind::kSplit, {kBase, 256, 256})},
    {"SplitNotAddingUp", record(Kind::kSplit, {kBase + 2048, 512, 512})},
    {"SplitIntoNothing", record(Kind::kSplit, {kBase + 2048, 0, kSegment - 2048})},
    {"SplitLeavingNothing", record(Kind::kSplit, {kBase + 2048, kSegment - 2048, 0})},
    {"MergeUsed", record(Kind::kMerge, {kBase, 1536, kBase + 512})},
    {"MergeNotNeighbours", record(Kind::kMerge, {kSpace, 2 * kSegment, kSpace + 3 * kSegment})},
    {"MergeOfAnotherSize", record(Kind::kMerge, {kSpace, 3 * kSegment, kSpace})},
    {"FreePending", record(Kind::kFreeRequested, {kBase + 512, 1024, 1000})},
    {"FreeHole", record(Kind::kFreeRequested, {kBase + 2048, kSegment - 2048, 0})},
    {"FreeOtherSize", record(Kind::kFreeRequested, {kBase, 1024, 100})},
    {"FreeNowhere", record(Kind::kFreeRequested, {kBase + 7, 512, 100})},
    {"CompleteLive", record(Kind::kFreeCompleted, {kBase, 512, 100})},
    {"CompleteHole", record(Kind::kFreeCompleted, {kBase + 2048, kSegment - 2048, 0})},
    {"CompleteOtherSize", record(Kind::kFreeCompleted, {kBase + 512, 512, 1000})},
};

INSTANTIATE_TEST_SUITE_P(Records,
                         TraceHeapRefuses,
                         ::testing::ValuesIn(kImpossible),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(TraceHeap, NeverJoinsASegmentWithPages) {
  TraceHeap heap =
      heap_after({record(Kind::kSegmentAlloc, {kBase, kSegment, 0}),
                  record(Kind::kSegmentMap, {kBase + kSegment, kSegment, kBase + kSegment})});
  heap.apply(test::numbered({record(Kind::kMerge, {kBase, 2 * kSegment, kBase + kSegment})}, 2)[0]);

  EXPECT_EQ(heap.contradictions(), 1U);
}

TEST(TraceHeap, IgnoresWhatDoesNotConcernBlocks) {
  TraceHeap heap = some_heap();
  const std::string before = text_of(heap);
  for (const Kind kind : {Kind::kNone,
                          Kind::kOutOfMemory,
                          Kind::kCacheRelease,
                          Kind::kRetry,
                          Kind::kSettings,
                          Kind::kLimit,
                          Kind::kMark,
                          Kind::kSnapshot,
                          Kind::kDeviceMemory,
                          Kind::kRecordStream,
                          Kind::kClock,
                          static_cast<Kind>(200)})
    heap.apply(record(kind, {kBase, 512, 100}));

  EXPECT_EQ(heap.contradictions(), 0U);
  EXPECT_EQ(text_of(heap), before);
}

TEST(TraceHeap, JudgesNothingThatItDoesNotKnow) {
  TraceHeap heap;

  heap.apply(record(Kind::kAlloc, {kBase, 512, 100}));

  EXPECT_FALSE(heap.is_known());
  EXPECT_EQ(heap.contradictions(), 0U);
}

}  // namespace
}  // namespace fragscope::model
