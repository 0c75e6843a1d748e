// SPDX-License-Identifier: Apache-2.0
// A whole log: what is looked for reaches those who read it.
#include "analyzer/explain/explainer.hpp"

#include "analyzer/report/explain/explain_text.hpp"
#include "analyzer/report/terminal.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace fragscope::explain {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

const std::string kLoading =
    "INFO 03-02 10:00:00 [core.py:58] Initializing a V1 LLM engine (v0.11.0) with config: m\n"
    "Loading safetensors checkpoint shards:  50% Completed | 2/4 [00:01<00:01,  1.00it/s]\n";

std::optional<stages::Stage> failing_stage(const std::string& log) {
  const Explanation explanation = explain_log_text(log);
  EXPECT_THAT(explanation.timelines, SizeIs(1));
  return explanation.timelines.empty() ? std::nullopt : explanation.timelines[0].failing;
}

TEST(Explainer, FindsNothingInALogWithoutMessages) {
  const Explanation explanation = explain_log_text("epoch 1\nthe cat is out of memories\n");
  EXPECT_THAT(explanation.reports, IsEmpty());
  EXPECT_THAT(explanation.timelines, IsEmpty());
  EXPECT_EQ(explanation.totals.lines, 2U);
  EXPECT_EQ(explain_log_text("").totals.lines, 0U);
}

TEST(Explainer, FindsTheShellsWordOnALineOfItsOwn) {
  EXPECT_EQ(failing_stage(kLoading + "Killed\n"), stages::Stage::kCheckpointReading);
  EXPECT_EQ(failing_stage(kLoading + "Killed\r\n"), stages::Stage::kCheckpointReading);
  EXPECT_EQ(failing_stage(kLoading + "run.sh: line 4:  4242 Killed                  python a.py\n"),
            stages::Stage::kCheckpointReading);
}

TEST(Explainer, DoesNotTakeTheWordWithinALineForIt) {
  EXPECT_EQ(failing_stage(kLoading + "Killed time until the next step\n"), std::nullopt);
  EXPECT_EQ(failing_stage(kLoading + "nothing was killed\n"), std::nullopt);
}

TEST(Explainer, SaysWhenTheBytesWereNotTakenAsTheyAre) {
  Explanation explanation = explain_log_text("");
  const report::Paint plain(/*colour=*/false);
  EXPECT_THAT(report::explain_text(explanation, "a.log", plain), Not(HasSubstr("read as")));
  explanation.totals.encoding = "UTF-16";
  EXPECT_THAT(report::explain_text(explanation, "a.log", plain),
              HasSubstr("the log was read as UTF-16"));
}

TEST(Explainer, TakesNoTimeBetweenStampsOfDifferentKinds) {
  const Explanation explanation = explain_log_text(
      "INFO 03-02 10:00:00 [core.py:58] Initializing a V1 LLM engine (v0.11.0) with config: m\n"
      "INFO 03-02 10:00:10 [gpu_model_runner.py:7] Starting to load model m...\n"
      "2031-03-02 10:00:30 Model loading took 14.25 GiB and 9.1 seconds\n");
  ASSERT_THAT(explanation.timelines, SizeIs(1));
  for (const stages::StageRecord& stage : explanation.timelines[0].stages)
    EXPECT_LT(stage.seconds.value_or(0), 60) << to_string(stage.stage);
}

}  // namespace
}  // namespace fragscope::explain
