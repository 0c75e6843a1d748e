// SPDX-License-Identifier: Apache-2.0
#include "allocator/recorder/mark_log.hpp"

#include "tests/recorder/recorded_program.hpp"
#include "tests/recorder/recorder_fixture.hpp"
#include "tests/support/result_matchers.hpp"
#include "trace/file/trace_reader.hpp"
#include "trace/ring/clock.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <string>
#include <thread>
#include <vector>

namespace fragscope::recorder::test {
namespace {

using fragscope::test::IsOk;
using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using trace::Record;
using trace::RecordKind;

std::vector<SaidMark> taken(MarkLog& log, std::uint64_t from = 0) {
  std::vector<SaidMark> marks;
  static_cast<void>(log.take(from, [&marks](const SaidMark& mark) { marks.push_back(mark); }));
  return marks;
}

std::vector<std::string> texts(const std::vector<SaidMark>& marks) {
  std::vector<std::string> all;
  all.reserve(marks.size());
  for (const SaidMark& mark : marks)
    all.push_back(mark.text);
  return all;
}

void annotate(MarkLog& log, const std::string& name, MarkKind kind) {
  log.say(name, kind, MarkSource::kAnnotation);
}

TEST(MarkLog, KeepsTheLastOfWhatWasSaid) {
  MarkLog log;
  for (int i = 0; i < 1000; ++i)
    log.say(std::to_string(i), MarkKind::kPoint, MarkSource::kProgram);
  const auto marks = taken(log);
  ASSERT_EQ(marks.size(), MarkLog::kMost);
  EXPECT_EQ(marks.front().text, std::to_string(1000 - MarkLog::kMost));
  EXPECT_EQ(marks.back().text, "999");
  for (std::size_t i = 1; i < marks.size(); ++i)
    EXPECT_GE(marks[i].ticks, marks[i - 1].ticks);
}

TEST(MarkLog, GivesEachReaderWhatItHasNotHad) {
  MarkLog log;
  log.say("a", MarkKind::kPoint, MarkSource::kProgram);
  const std::uint64_t after = log.take(0, [](const SaidMark&) {});
  EXPECT_EQ(after, log.said());
  log.say("b", MarkKind::kPoint, MarkSource::kProgram);
  EXPECT_NE(after, log.said());
  EXPECT_THAT(texts(taken(log, after)), ElementsAre("b"));
  EXPECT_THAT(texts(taken(log)), ElementsAre("a", "b"));
}

TEST(MarkLog, ForgetsEmptyAnnotationsWhereManyWait) {
  MarkLog log;
  log.say("begin", MarkKind::kBegin, MarkSource::kProgram);
  annotate(log, "outer", MarkKind::kBegin);
  for (int i = 0; i < 100'000; ++i) {
    annotate(log, "empty", MarkKind::kBegin);
    annotate(log, "empty", MarkKind::kEnd);
  }
  log.say("point", MarkKind::kPoint, MarkSource::kProgram);
  const auto marks = taken(log);
  EXPECT_LT(marks.size(), 16U);
  EXPECT_EQ(marks[0].text, "begin");
  EXPECT_EQ(marks[1].text, "outer");
  EXPECT_EQ(marks.back().text, "point");
}

TEST(MarkLog, NeverForgetsWhatSomebodyHas) {
  MarkLog log;
  for (int i = 0; i < 20; ++i)
    annotate(log, "filler", MarkKind::kBegin);
  annotate(log, "had", MarkKind::kBegin);
  const std::uint64_t after = log.take(0, [](const SaidMark&) {});
  annotate(log, "had", MarkKind::kEnd);
  EXPECT_THAT(texts(taken(log, after)), ElementsAre("had"));
}

TEST(MarkLog, ForgetsNoPairThatIsNone) {
  MarkLog log;
  for (int i = 0; i < 20; ++i)
    annotate(log, "filler", MarkKind::kBegin);
  annotate(log, "a", MarkKind::kBegin);
  annotate(log, "b", MarkKind::kEnd);
  log.say("c", MarkKind::kBegin, MarkSource::kProgram);
  annotate(log, "c", MarkKind::kEnd);
  annotate(log, "d", MarkKind::kBegin);
  std::thread([&log] { annotate(log, "d", MarkKind::kEnd); }).join();
  const auto all = texts(taken(log, 20));
  EXPECT_THAT(all, ElementsAre("a", "b", "c", "c", "d", "d"));
}

TEST(MarkLog, CutsTextsBetweenCharacters) {
  MarkLog log;
  std::string text(253, 'x');
  log.say(text + "\xe2\x82\xac\xe2\x82\xac", MarkKind::kPoint, MarkSource::kProgram);
  log.say(std::string(1000, '\x80'), MarkKind::kPoint, MarkSource::kProgram);
  const auto marks = taken(log);
  EXPECT_EQ(marks[0].text, text);
  EXPECT_LE(marks[1].text.size(), MarkLog::kMostBytes);
}

TEST(MarkLog, PutsEarlierMarksWhereTheyWere) {
  const std::uint64_t before_ns = trace::clock_ns(CLOCK_MONOTONIC);
  const trace::ClockKind clock = trace::best_clock();
  const std::uint64_t before = trace::ticks_now(clock);
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  MarkLog log;
  log.say_earlier("early", MarkKind::kPoint, before_ns, 7);
  for (std::uint64_t later = 1; later < 100; ++later)
    log.say_earlier("early", MarkKind::kPoint, before_ns + later * 1000, 7);
  log.say("now", MarkKind::kPoint, MarkSource::kProgram);
  std::this_thread::sleep_for(std::chrono::milliseconds(40));
  const auto marks = taken(log);
  ASSERT_EQ(marks.size(), 101U);
  EXPECT_EQ(marks[0].thread, 7U);
  for (std::size_t i = 1; i < marks.size(); ++i)
    EXPECT_GE(marks[i].ticks, marks[i - 1].ticks);
  const auto passed = static_cast<double>(marks.back().ticks - before);
  EXPECT_NEAR(static_cast<double>(marks[0].ticks) - static_cast<double>(before), 0, passed / 10);
}

// --- In rings. -----------------------------------------------------------------------------------

class Marks : public RecorderTest {
 protected:
  [[nodiscard]] static std::vector<Record> marks_of(const ReadBack& back) {
    auto reader = trace::TraceReader::open(back.file);
    EXPECT_THAT(reader, IsOk());
    std::vector<Record> marks;
    for (std::size_t i = 0; i < reader->chunk_count(); ++i) {
      const auto records = reader->records(i);
      for (const Record& record : *records)
        if (record.kind == RecordKind::kMark) marks.push_back(record);
    }
    return marks;
  }
  [[nodiscard]] static std::vector<std::string> names_of(const ReadBack& back) {
    const auto reader = trace::TraceReader::open(back.file);
    EXPECT_THAT(reader, IsOk());
    std::vector<std::string> names;
    for (const Record& mark : marks_of(back))
      names.emplace_back(reader->table().text(mark.address));
    return names;
  }
};

TEST_F(Marks, FromBeforeTheRingAreItsFirst) {
  MarkLog& log = MarkLog::of_process();
  log.say("loading", MarkKind::kBegin, MarkSource::kProgram);
  std::thread([&log] { log.say("there", MarkKind::kPoint, MarkSource::kProgram); }).join();
  annotate(log, "forward", MarkKind::kBegin);
  RecordedProgram program(3, directory());
  program.run(10);

  const auto back = read_ring(program.ring_path(), false);
  ASSERT_THAT(back, IsOk());
  EXPECT_THAT(names_of(*back), IsSupersetOf({"loading", "there", "forward"}));
  const auto marks = marks_of(*back);
  const Record& last = marks.back();
  const Record& there = marks[marks.size() - 2];
  EXPECT_EQ(last.size, 1U);
  EXPECT_EQ(last.other, 1U);
  EXPECT_EQ(there.other, 0U);
  EXPECT_NE(there.thread, last.thread);
  EXPECT_LT(there.ticks, program.recorder()->header().first_anchor.ticks);
  // The process's log is that of the next test, too.
  annotate(log, "forward", MarkKind::kEnd);
  log.say("loading", MarkKind::kEnd, MarkSource::kProgram);
}

TEST_F(Marks, SayWhatAFailureWasIn) {
  RecordedProgram program(5, directory());
  program.run(50);
  DeviceRecorder& recorder = *program.recorder();
  MarkLog& log = MarkLog::of_process();
  log.say("training", MarkKind::kBegin, MarkSource::kProgram);
  annotate(log, "step 1", MarkKind::kBegin);
  annotate(log, "step 1", MarkKind::kEnd);
  annotate(log, "step 2", MarkKind::kBegin);
  std::thread([&log] { annotate(log, "beside", MarkKind::kBegin); }).join();
  recorder.take_marks();
  program.allocate(std::uint64_t{1} << 40);
  annotate(log, "step 2", MarkKind::kEnd);
  recorder.take_marks();
  program.allocate(std::uint64_t{1} << 40);

  const auto back = read_ring(program.ring_path(), false);
  ASSERT_THAT(back, IsOk());
  const auto failed = back->history->failed_requests();
  ASSERT_GE(failed.size(), 2U);
  const model::FailedRequest& first = failed[failed.size() - 2];
  ASSERT_EQ(first.stages.size(), 3U);
  EXPECT_EQ(first.stages[0].name, "training");
  EXPECT_FALSE(first.stages[0].is_annotation);
  EXPECT_EQ(first.stages[1].name, "step 2");
  EXPECT_TRUE(first.stages[1].is_annotation);
  EXPECT_EQ(first.stages[1].thread, first.thread);
  EXPECT_EQ(first.stages[2].name, "beside");
  EXPECT_NE(first.stages[2].thread, first.thread);
  EXPECT_EQ(failed.back().stages.size(), 2U);
}

TEST_F(Marks, OfAMillionNamesLeaveRoomForStacks) {
  RecordedProgram program(6, directory());
  DeviceRecorder& recorder = *program.recorder();
  for (int i = 0; i < 1'000'000; ++i)
    recorder.mark("step " + std::to_string(i) + " of a long run", MarkKind::kPoint);
  EXPECT_LT(recorder.header().table_used, recorder.header().table_bytes / 4);
  EXPECT_EQ(recorder.header().table_refused, 0U);
  const FrameText frames[] = {{"forward", "model.py", 7}};
  EXPECT_NE(recorder.intern_stack(frames), 0U);
  // Names without a number in common.
  std::string name(20, 'a');
  for (int i = 0; i < 10'000; ++i) {
    for (std::size_t at = 0, rest = static_cast<std::size_t>(i); rest > 0; rest /= 26)
      name[at++] = static_cast<char>('a' + rest % 26);
    recorder.mark(name, MarkKind::kPoint);
  }
  EXPECT_LT(recorder.header().table_used, recorder.header().table_bytes / 4);
  EXPECT_GT(recorder.header().table_refused, 0U);

  const auto back = read_ring(program.ring_path(), false);
  ASSERT_THAT(back, IsOk());
  EXPECT_THAT(names_of(*back), ::testing::Contains("step # of a long run"));
}

TEST_F(Marks, OfAnnotationsAloneDoNotFillTheRing) {
  RecordedProgram program(8, directory());
  program.run(100);
  DeviceRecorder& recorder = *program.recorder();
  MarkLog& log = MarkLog::of_process();
  const std::uint64_t before = recorder.written();
  for (int i = 0; i < 50'000; ++i) {
    for (const MarkKind kind : {MarkKind::kBegin, MarkKind::kEnd}) {
      annotate(log, "empty", kind);
      if (recorder.has_room_for_annotations()) recorder.take_marks();
    }
  }
  EXPECT_GT(recorder.written(), before);
  EXPECT_LT(recorder.written(), before + recorder.capacity() / 16);
  recorder.take_marks();
  EXPECT_FALSE(recorder.is_behind());
}

TEST_F(Marks, OfAParentAreNotItsChilds) {
  MarkLog& log = MarkLog::of_process();
  log.say("the parent's", MarkKind::kPoint, MarkSource::kProgram);
  const int status = in_child([&] {
    EXPECT_EQ(log.said(), 0U);
    log.say("the child's", MarkKind::kPoint, MarkSource::kProgram);
    EXPECT_THAT(texts(taken(log)), ElementsAre("the child's"));
    EXPECT_EQ(taken(log)[0].thread, static_cast<std::uint32_t>(::getpid()));
    return 0;
  });
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace fragscope::recorder::test
