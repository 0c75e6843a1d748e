// SPDX-License-Identifier: Apache-2.0
#include "analyzer/servability/runs/free_runs.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace fragscope::servability {
namespace {

using model::Home;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// The runs as they were told.
class ToldRuns final : public RunListener {
 public:
  void run_comes(const SegmentRange& segment, Range run) override {
    EXPECT_GE(run.begin, segment.range.begin);
    EXPECT_LE(run.end, segment.range.end);
    EXPECT_LT(run.begin, run.end);
    EXPECT_TRUE(runs.emplace(run.begin, run.end).second) << "told twice";
  }
  void run_goes(const SegmentRange& /*segment*/, Range run) override {
    const auto found = runs.find(run.begin);
    ASSERT_NE(found, runs.end()) << "a run goes that never came";
    EXPECT_EQ(found->second, run.end);
    runs.erase(found);
  }
  [[nodiscard]] std::vector<std::string> list() const {
    std::vector<std::string> list;
    list.reserve(runs.size());
    for (const auto& [begin, end] : runs)
      list.push_back(std::to_string(begin) + "-" + std::to_string(end));
    return list;
  }

  std::map<std::uint64_t, std::uint64_t> runs;
};

Home plain() {
  return {};
}
Home expandable(std::int64_t stream = 0) {
  return {model::kDefaultPool, model::SizeClass::kLarge, true, stream};
}

class FreeRunsTest : public ::testing::Test {
 protected:
  ToldRuns told_;
  FreeRuns runs_{told_};
};

TEST_F(FreeRunsTest, ASegmentIsOneRunAndATakenRangeCutsIt) {
  runs_.add_segment({100, 200}, plain());
  runs_.take({120, 130});
  EXPECT_THAT(told_.list(), ElementsAre("100-120", "130-200"));
  runs_.give({120, 130});
  EXPECT_THAT(told_.list(), ElementsAre("100-200"));
}

TEST_F(FreeRunsTest, NeighboursOfTwoSegmentsAreTwoRuns) {
  runs_.add_segment({100, 200}, plain());
  runs_.add_segment({200, 300}, plain());
  runs_.take({150, 250});
  runs_.give({150, 250});
  EXPECT_THAT(told_.list(), ElementsAre("100-200", "200-300"));
}

TEST_F(FreeRunsTest, PagesOfOneHomeGrowTogetherOthersDoNot) {
  runs_.add_segment({100, 200}, expandable());
  runs_.add_segment({300, 400}, expandable());
  runs_.add_segment({400, 500}, expandable(7));
  runs_.add_segment({200, 300}, expandable());
  EXPECT_THAT(told_.list(), ElementsAre("100-400", "400-500"));
}

TEST_F(FreeRunsTest, PagesGoFromTheMiddle) {
  runs_.add_segment({100, 400}, expandable());
  runs_.remove_segment({200, 300});
  EXPECT_THAT(told_.list(), ElementsAre("100-200", "300-400"));
  runs_.give({150, 350});  // what lies in no segment is passed over
  EXPECT_THAT(told_.list(), ElementsAre("100-200", "300-400"));
  runs_.remove_segment({100, 200});
  runs_.remove_segment({300, 400});
  EXPECT_THAT(told_.list(), IsEmpty());
}

TEST_F(FreeRunsTest, ASegmentOnAnotherIsPassedOver) {
  runs_.add_segment({100, 200}, plain());
  runs_.add_segment({150, 250}, plain());
  runs_.add_segment({50, 120}, plain());
  runs_.add_segment({100, 200}, plain());
  runs_.remove_segment({150, 250});
  runs_.remove_segment({500, 600});
  EXPECT_THAT(told_.list(), ElementsAre("100-200"));
}

TEST_F(FreeRunsTest, ItBeginsAgainWithAState) {
  model::HeapState state;
  state.segments.push_back({100, 100, plain(), 0, 3, false, 0});
  state.blocks.push_back({100, 50, 0, 0, model::kNoStack, model::BlockState::kFree});
  state.blocks.push_back({150, 20, 20, 0, model::kNoStack, model::BlockState::kPending});
  state.blocks.push_back({170, 30, 0, 0, model::kNoStack, model::BlockState::kFree});
  runs_.begin(state, false);
  EXPECT_THAT(told_.list(), ElementsAre("100-150", "170-200"));
  told_.runs.clear();
  runs_.begin(state, true);
  EXPECT_THAT(told_.list(), ElementsAre("100-200"));
}

TEST_F(FreeRunsTest, AStateWithASegmentInAnotherKeepsTheFirst) {
  model::HeapState state;
  state.segments.push_back({100, 100, plain(), 0, 1, false, 0});
  state.segments.push_back({140, 20, expandable(), 1, 1, false, 0});
  state.blocks.push_back({100, 100, 0, 0, model::kNoStack, model::BlockState::kFree});
  state.blocks.push_back({140, 20, 0, 0, model::kNoStack, model::BlockState::kFree});
  runs_.begin(state, false);
  EXPECT_THAT(told_.list(), ElementsAre("100-200"));
  runs_.take({170, 180});
  EXPECT_THAT(told_.list(), ElementsAre("100-170", "180-200"));
}

TEST_F(FreeRunsTest, NothingGoesWithAnEmptyRange) {
  runs_.add_segment({100, 200}, plain());
  EXPECT_EQ(runs_.remove_segment({150, 150}), std::nullopt);
  runs_.take({160, 170});
  EXPECT_THAT(told_.list(), ElementsAre("100-160", "170-200"));
}

/// Bytes as they are, one by one: 0 outside every segment.
class ByteMap {
 public:
  static constexpr std::uint64_t kBytes = 256;

  [[nodiscard]] bool is_free_of_segments(Range range) const {
    return std::all_of(segment_.begin() + static_cast<std::ptrdiff_t>(range.begin),
                       segment_.begin() + static_cast<std::ptrdiff_t>(range.end),
                       [](int number) { return number == 0; });
  }
  void set_segment(Range range, int number) {
    for (std::uint64_t at = range.begin; at < range.end; ++at) {
      segment_[at] = number;
      is_free_[at] = number != 0;
    }
  }
  void set_free(Range range, bool is_free) {
    for (std::uint64_t at = range.begin; at < range.end; ++at)
      is_free_[at] = is_free && segment_[at] != 0;
  }
  [[nodiscard]] std::map<std::uint64_t, std::uint64_t> runs() const {
    std::map<std::uint64_t, std::uint64_t> runs;
    for (std::uint64_t at = 0; at < kBytes; ++at) {
      if (!is_free_[at]) continue;
      const std::uint64_t begin = at;
      while (at + 1 < kBytes && is_free_[at + 1] && segment_[at + 1] == segment_[begin])
        ++at;
      runs[begin] = at + 1;
    }
    return runs;
  }

 private:
  std::vector<int> segment_ = std::vector<int>(kBytes);
  std::vector<bool> is_free_ = std::vector<bool>(kBytes);
};

TEST_F(FreeRunsTest, AnySequenceOfChangesIsAsByteByByte) {
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    std::mt19937 random(seed);
    ToldRuns told;
    FreeRuns runs(told);
    ByteMap bytes;
    std::vector<Range> segments;
    for (int step = 0; step < 300; ++step) {
      const std::uint64_t begin = random() % ByteMap::kBytes;
      const Range range{begin, std::min<std::uint64_t>(begin + 1 + random() % 40, ByteMap::kBytes)};
      const auto what = random() % 10;
      if (what == 0 && bytes.is_free_of_segments(range)) {
        runs.add_segment(range, plain());
        bytes.set_segment(range, step + 1);
        segments.push_back(range);
      } else if (what == 1 && !segments.empty()) {
        const Range gone = segments.back();
        runs.remove_segment(gone);
        bytes.set_segment(gone, 0);
        segments.pop_back();
      } else if (what < 6) {
        runs.take(range);
        bytes.set_free(range, false);
      } else {
        runs.give(range);
        bytes.set_free(range, true);
      }
      ASSERT_EQ(told.runs, bytes.runs()) << "step " << step;
    }
  }
}

}  // namespace
}  // namespace fragscope::servability
