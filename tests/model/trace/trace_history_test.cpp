// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/trace/trace_history.hpp"

#include "analyzer/analysis/analysis.hpp"
#include "tests/support/result_matchers.hpp"
#include "tests/trace_file/some_trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace fragscope::model {
namespace {

using test::FailsWith;
using test::IsOk;
using test::kBase;
using test::kSegment;
using test::numbered;
using test::record;
using test::some_keyframe;
using test::some_records;
using test::TraceBuilder;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = trace::RecordKind;

/// A trace with what was read of it.
class Opened {
 public:
  explicit Opened(const TraceBuilder& builder)
      : bytes_(builder.bytes())
      , history_(TraceHistory::open(bytes_, recording)) {}

  [[nodiscard]] const Result<std::unique_ptr<TraceHistory>>& result() const { return history_; }
  [[nodiscard]] const TraceHistory& operator*() const { return **history_; }
  [[nodiscard]] std::vector<std::string> signals() const {
    std::vector<std::string> signals;
    signals.reserve(recording.trust.size());
    for (const TrustSignal& signal : recording.trust)
      signals.push_back(signal.signal);
    return signals;
  }
  [[nodiscard]] Result<analysis::Analysis> analyzed(const analysis::Options& options) {
    return analysis::analyze(recording, analysis::Histories{history_->get()}, options);
  }

  Recording recording;

 private:
  test::Bytes bytes_;
  Result<std::unique_ptr<TraceHistory>> history_;
};

TEST(TraceHistory, ShowsTheHeapBeforeAnyEvent) {
  const Opened opened(TraceBuilder().records(numbered(some_records())).end());
  ASSERT_THAT(opened.result(), IsOk());
  std::vector<std::size_t> blocks;

  (*opened).visit_states_until(std::vector<EventIndex>{0, 1, 2, 3, 4},
                               [&](EventIndex, const HeapState& state) {
                                 blocks.push_back(state.blocks.size());
                                 return true;
                               });

  EXPECT_THAT(blocks, ElementsAre(0U, 1U, 2U, 2U, 2U));
  EXPECT_THAT(opened.signals(), IsEmpty());
  EXPECT_EQ((*opened).peak().allocated_bytes, 512U);
}

TEST(TraceHistory, KnowsNothingFromAGapToTheNextKeyframe) {
  const Opened opened(TraceBuilder()
                          .records(numbered(some_records()))
                          .records(numbered({record(Kind::kAlloc, {kBase + 512, 512, 9})}, 20))
                          .records(numbered(some_keyframe(), 21))
                          .end());
  ASSERT_THAT(opened.result(), IsOk());

  EXPECT_TRUE((*opened).is_known_before(4));
  for (EventIndex event = 5; event < 25; ++event)
    EXPECT_FALSE((*opened).is_known_before(event)) << event;
  EXPECT_TRUE((*opened).is_known_before(25));
  EXPECT_TRUE((*opened).is_known_before(26));
  EXPECT_THAT(opened.signals(), ElementsAre("lost-records"));
  EXPECT_EQ((*opened).failed_requests().size(), 2U);
}

TEST(TraceHistory, CrossesTheDarkInOneWalk) {
  const Opened opened(TraceBuilder()
                          .records(numbered(some_records()))
                          .records(numbered(some_keyframe(), 20))
                          .end());
  ASSERT_THAT(opened.result(), IsOk());
  std::vector<std::size_t> blocks;

  (*opened).visit_states_until(std::vector<EventIndex>{1, 4, 24, 25},
                               [&](EventIndex, const HeapState& state) {
                                 blocks.push_back(state.blocks.size());
                                 return true;
                               });

  EXPECT_THAT(blocks, ElementsAre(1U, 2U, 2U, 2U));
}

TEST(TraceHistory, RefusesAQuestionAboutTheDark) {
  Opened opened(TraceBuilder()
                    .records(numbered(some_records()))
                    .records(numbered(some_keyframe(), 20))
                    .end());
  ASSERT_THAT(opened.result(), IsOk());
  analysis::Options options;
  options.request_bytes = 512;
  options.at = analysis::Moment{analysis::Moment::Kind::kEvent, 12};

  const auto analyzed = opened.analyzed(options);

  ASSERT_THAT(analyzed, FailsWith(ErrorCode::kUsage));
  EXPECT_EQ(analyzed.error().message,
            "the heap before event 12 is not known: records in front of it are lost, and no "
            "keyframe follows them in time");
}

TEST(TraceHistory, ShowsTheLastKnownHeapAsTheEnd) {
  const Opened opened(TraceBuilder()
                          .records(numbered(some_records()))
                          .records(numbered({record(Kind::kOutOfMemory, {0, 512, 9})}, 9))
                          .end());

  ASSERT_THAT(opened.result(), IsOk());
  EXPECT_THAT(opened.signals(),
              ElementsAre("lost-records", "end-not-known", "failures-not-judged"));
  EXPECT_EQ(opened.recording.blocks.size(), 2U);
  EXPECT_EQ((*opened).failed_requests().size(), 1U);
}

TEST(TraceHistory, BeginsAtTheFirstKeyframeOfARingThatCameRound) {
  const Opened opened(TraceBuilder().records(numbered(some_keyframe(), 500)).end());

  ASSERT_THAT(opened.result(), IsOk());
  EXPECT_FALSE((*opened).is_known_before(500));
  EXPECT_TRUE((*opened).is_known_before(504));
  EXPECT_THAT(opened.signals(), ElementsAre("history-cut"));
}

TEST(TraceHistory, RefusesWhatCannotBeReplayed) {
  const Opened round(TraceBuilder().records(numbered(some_records(), 3)).end());
  const Opened empty(TraceBuilder().end());

  ASSERT_THAT(round.result(), FailsWith(ErrorCode::kDamaged));
  EXPECT_NE(round.result().error().message.find("no whole keyframe"), std::string::npos);
  ASSERT_THAT(empty.result(), FailsWith(ErrorCode::kDamaged));
  EXPECT_EQ(empty.result().error().message, "the trace has no records");
}

TEST(TraceHistory, CountsRecordsThatItDoesNotTake) {
  std::vector<trace::Record> records = some_records();
  records.push_back(record(static_cast<Kind>(99)));
  records.push_back(record(Kind::kNone));
  records.push_back(record(Kind::kAlloc, {kBase, 512, 9}));
  records.back().device = 3;
  records.push_back(record(Kind::kAlloc, {kBase, 512, 9}));
  const Opened opened(TraceBuilder().records(numbered(records)).end());

  ASSERT_THAT(opened.result(), IsOk());
  EXPECT_THAT(opened.signals(),
              ElementsAre("records-contradict", "unknown-kinds", "other-devices"));
  EXPECT_EQ(opened.recording.trust[0].effect.substr(0, 19), "device 0: 1 record ");
  EXPECT_EQ(opened.recording.trust[1].effect.substr(0, 19), "device 0: 2 records");
}

TEST(TraceHistory, KeepsTheOptionsThatItKnows) {
  // A text that the table has no room for must not read as "no options at all".
  trace::Header header = test::trace_header();
  const std::string conf = "max_split_size_mb:100";
  conf.copy(header.conf.data(), conf.size());
  std::vector<trace::Record> records = some_records();
  records.push_back(record(Kind::kSettings, {7, 0, 0}));
  const Opened opened(TraceBuilder(header).records(numbered(records)).end());

  ASSERT_THAT(opened.result(), IsOk());
  EXPECT_EQ(opened.recording.settings.rules.max_split_size, std::uint64_t{100} << 20);
  EXPECT_THAT(opened.signals(), ElementsAre("unknown-settings"));
}

TEST(TraceHistory, NamesStreamsAndPoolsThatTheTableLacks) {
  std::vector<trace::Record> records = some_records();
  records[2].stream = 4;
  records[3].pool = 2;
  const Opened opened(TraceBuilder().records(numbered(records)).end());

  ASSERT_THAT(opened.result(), IsOk());
  EXPECT_THAT(opened.signals(), ElementsAre("unknown-homes"));
}

}  // namespace
}  // namespace fragscope::model
