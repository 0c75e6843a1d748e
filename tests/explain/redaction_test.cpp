// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/redaction.hpp"

#include <gmock/gmock.h>

#include <string>
#include <string_view>

namespace fragscope::explain {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::string_view kFigures =
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
    "capacity of 79.25 GiB of which 1.50 GiB is free. Process 4711 has 40.00 GiB memory in use. "
    "Process 4712 has 37.00 GiB memory in use. Of the allocated memory 36.00 GiB is allocated by "
    "PyTorch, and 200.00 MiB is reserved by PyTorch but unallocated.\n";

std::string redacted_message(const std::string& log) {
  const Explanation explanation = redacted(explain_log_text(log));
  EXPECT_EQ(explanation.reports.size(), 1U);
  return explanation.reports.empty() ? std::string() : explanation.reports[0].message.text;
}

TEST(Redaction, DropsWhatStandsInFrontOfTheMessage) {
  const std::string text =
      redacted_message("(Worker pid=77) project-falcon failed: " + std::string(kFigures));
  EXPECT_THAT(text, HasSubstr("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate"));
  EXPECT_EQ(text.find("torch.OutOfMemoryError"), 0U) << text;
}

TEST(Redaction, MasksProcessesByNumberEverywhere) {
  const Explanation explanation =
      redacted(explain_log_text("[rank3]: " + std::string(kFigures) +
                                "[rank5]: " + "CUDA out of memory. Tried to allocate 4.00 GiB.\n"));
  ASSERT_EQ(explanation.reports.size(), 2U);
  const Report& first = explanation.reports[0];
  EXPECT_EQ(first.message.process, "process-1");
  EXPECT_EQ(explanation.reports[1].message.process, "process-2");
  ASSERT_EQ(first.message.figures.processes.size(), 2U);
  EXPECT_EQ(first.message.figures.processes[0].pid, "pid-1");
  EXPECT_THAT(first.message.text, HasSubstr("Process pid-1 has 40.00 GiB"));
  for (const std::string& note : first.finding.notes)
    EXPECT_THAT(note, Not(HasSubstr("4711")));
}

TEST(Redaction, KeepsFiguresAndVerdict) {
  const Explanation plain = explain_log_text(kFigures);
  const Explanation masked = redacted(plain);
  ASSERT_EQ(masked.reports.size(), 1U);
  EXPECT_EQ(masked.reports[0].finding.kind, plain.reports[0].finding.kind);
  EXPECT_EQ(masked.reports[0].finding.text, plain.reports[0].finding.text);
}

TEST(Redaction, MasksPathsAndAddressesWithinAMessage) {
  const std::string text = redacted_message(
      "RuntimeError: CUDA error: out of memory while trying to allocate 2.00 GiB "
      "/srv/falcon/run.py on 10.1.2.3:29500 by ann@example.org\n");
  EXPECT_THAT(text, Not(HasSubstr("falcon")));
  EXPECT_THAT(text, Not(HasSubstr("10.1.2.3")));
  EXPECT_THAT(text, Not(HasSubstr("ann@")));
}

// Lines of other programs fall in between; nothing of them is known to be harmless.
TEST(Redaction, MasksWhatFellIntoAMessage) {
  const std::string text(kFigures);
  const std::size_t middle = text.find("Process 4712");
  const std::string shown = redacted_message(
      text.substr(0, middle) + "\nuser=alice project: Falcon token hf_ABCDEFGH customer Acme\n" +
      text.substr(middle));
  for (const char* secret : {"alice", "Falcon", "hf_", "Acme", "customer"})
    EXPECT_THAT(shown, Not(HasSubstr(secret)));
  EXPECT_THAT(shown, HasSubstr("200.00 MiB is reserved by PyTorch but unallocated"));
}

TEST(Redaction, DropsTheBuildersPartOfAVersion) {
  const Explanation explanation = redacted(explain_log_text(
      "INFO 03-02 10:00:00 [core.py:58] Initializing a V1 LLM engine (v0.11.0+acme.git12) with "
      "config: model='x'\n"));
  ASSERT_EQ(explanation.timelines.size(), 1U);
  EXPECT_EQ(explanation.timelines[0].version, "0.11.0");
}

TEST(Redaction, MasksTheProcessesOfStages) {
  const Explanation explanation = redacted(explain_log_text(
      "(EngineCore pid=42) INFO 03-02 10:00:00 [core.py:58] Initializing a V1 LLM engine (v0.11.0) "
      "with config: model='x'\n"
      "(EngineCore pid=42) INFO 03-02 10:00:20 [gpu_model_runner.py:7] Model loading took 14.25 "
      "GiB "
      "and 9.1 seconds\n"));
  ASSERT_EQ(explanation.timelines.size(), 1U);
  std::vector<std::string> processes;
  for (const stages::StageRecord& stage : explanation.timelines[0].stages) {
    for (const stages::StageFact& fact : stage.facts)
      processes.push_back(fact.process);
  }
  EXPECT_THAT(processes, ElementsAre("process-1"));
}

}  // namespace
}  // namespace fragscope::explain
