// SPDX-License-Identifier: Apache-2.0
// Recording that ends early or finds no room: the header says why, one line on standard error, and
// everything in front of it can be read. The line itself must not hold or end the job.
#include "tests/recorder/recorded_program.hpp"
#include "tests/recorder/recorder_fixture.hpp"
#include "tests/support/result_matchers.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdint>
#include <string>
#include <vector>

namespace fragscope::recorder::test {
namespace {

using fragscope::test::IsOk;

class Stop : public RecorderTest {};

TEST_F(Stop, SaysWhyAndKeepsWhatWasBefore) {
  RecordedProgram program(4, directory());
  program.run(800);
  const std::uint64_t written = program.recorder()->header().written;
  const HeapText heap = heap_text(program.policy());

  const StandardError printed;
  program.recorder()->stop("the disk is full\nof letters");
  program.recorder()->stop("again");
  program.run(800);
  program.recorder()->mark("late", MarkKind::kPoint);
  EXPECT_EQ(program.recorder()->intern_stack(std::array{FrameText{"f", "late.py", 1}}), 0U);

  const trace::Header& header = program.recorder()->header();
  EXPECT_FALSE(program.recorder()->is_recording());
  EXPECT_EQ(header.state, trace::TraceState::kUnrecorded);
  EXPECT_EQ(std::string(header.reason.data()), "the disk is full\nof letters");
  EXPECT_GT(header.last_anchor.ticks, header.first_anchor.ticks);
  EXPECT_EQ(header.written, written);
  EXPECT_EQ(printed.text(),
            "fragscope: device 0 is not recorded: the disk is full of letters; the job goes on\n");
  const auto back = read_ring(program.ring_path(), false);
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(back->history->end_event(), static_cast<model::EventIndex>(written));
  EXPECT_EQ(heap_at_end(*back), heap);
}

TEST_F(Stop, OfManyDevicesIsOneLine) {
  const StandardError printed;
  ProcessRecorder recorders(recorder_options(directory()));
  for (std::int32_t device = 0; device < 8; ++device)
    recorders.of({device, {}, "Simulated", 0})->stop("reason " + std::to_string(device));
  const std::string text = printed.text();
  EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
}

TEST_F(Stop, WithALongReasonIsStillALine) {
  const StandardError printed;
  RecordedProgram program(4, directory());
  program.recorder()->stop(std::string(10'000, 'x'));
  EXPECT_EQ(std::string(program.recorder()->header().reason.data()), std::string(255, 'x'));
  const std::string text = printed.text();
  EXPECT_EQ(text.back(), '\n');
  EXPECT_LT(text.size(), 400U);
}

/// Runs a child whose standard error is the writing end of a pipe.
template <class Body>
int with_pipe_as_error(std::array<int, 2>& pipe_ends, Body body) {
  return in_child([&] {
    if (pipe(pipe_ends.data()) != 0) return kNotHere;
    dup2(pipe_ends[1], STDERR_FILENO);
    close(pipe_ends[1]);
    alarm(20);  // Ends a child that waits.
    return body();
  });
}

TEST_F(Stop, SurvivesAnErrorPipeWithoutAReader) {
  std::array<int, 2> ends{};
  EXPECT_EQ(with_pipe_as_error(ends,
                               [&] {
                                 std::signal(SIGPIPE, SIG_DFL);
                                 close(ends[0]);
                                 RecordedProgram program(4, directory());
                                 program.recorder()->stop("nobody reads this");
                                 program.run(100);
                                 sigset_t pending;
                                 sigpending(&pending);
                                 EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
                                 return 0;
                               }),
            0);
}

TEST_F(Stop, DoesNotWaitForAnErrorPipeThatIsFull) {
  std::array<int, 2> ends{};
  EXPECT_EQ(with_pipe_as_error(ends,
                               [&] {
                                 const int flags = fcntl(STDERR_FILENO, F_GETFL);
                                 fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK);
                                 while (write(STDERR_FILENO, "x", 1) == 1) {
                                 }
                                 fcntl(STDERR_FILENO, F_SETFL, flags);
                                 RecordedProgram program(4, directory());
                                 program.recorder()->stop("nobody reads this");
                                 program.run(100);
                                 return 0;
                               }),
            0);
}

// --- A table without room. -----------------------------------------------------------------------

TEST_F(Stop, IsNotWhatAFullTableDoes) {
  RecordedProgram program(4, directory(), {.records = 4096, .table_bytes = 4096});
  std::uint32_t last = 1;
  for (std::uint32_t line = 1; last != 0 && line < 1000; ++line) {
    const std::string name = "function " + std::to_string(line);
    const FrameText frames[] = {{name, "a.py", line}};
    last = program.recorder()->intern_stack(frames);
  }
  EXPECT_EQ(last, 0U);
  const std::uint64_t refused = program.recorder()->header().table_refused;
  EXPECT_GT(refused, 0U);

  program.recorder()->set_stack(last);
  program.run(400);  // With streams and pools.
  EXPECT_TRUE(program.recorder()->is_recording());
  EXPECT_GT(program.recorder()->header().table_refused, refused);
  const auto back = read_ring(program.ring_path(), false);
  ASSERT_THAT(back, IsOk());
  EXPECT_EQ(heap_at_end(*back), heap_text(program.policy()));
}

// A table of any size answers: a search in one that is full must end.
TEST_F(Stop, IsNotWhatATinyTableDoes) {
  alarm(60);
  for (std::uint64_t table_bytes = 0; table_bytes < 200; ++table_bytes) {
    ProcessRecorder recorders(
        recorder_options(directory(), {.records = 16, .table_bytes = table_bytes}));
    DeviceRecorder* recorder = recorders.of({0, {}, "Simulated", 0});
    ASSERT_NE(recorder, nullptr);
    const FrameText nothing[] = {{"", "", 0}};
    static_cast<void>(recorder->intern_stack(nothing));
    for (policy::StreamId stream = 1; stream < 20; ++stream) {
      recorder->on_retry(512, stream);
      recorder->mark(std::string(stream, 'm'), MarkKind::kPoint);
    }
    EXPECT_TRUE(recorder->is_recording());
  }
  alarm(0);
}

// --- More blocks than a keyframe may have. -------------------------------------------------------

TEST_F(Stop, IsNotWhatTooManyBlocksDo) {
  policy::SimulatedDevice device(std::uint64_t{64} << 30);
  policy::SimulatedStreams streams;
  ProcessRecorder recorders(recorder_options(directory(), {.records = 4096}));
  DeviceRecorder* recorder = recorders.of({0, {}, "Simulated", 0});
  ASSERT_NE(recorder, nullptr);
  policy::CachingPolicy policy(device, streams, {}, recorder);
  recorder->watch(&policy);
  std::vector<policy::Address> live;
  while (policy.block_count() <= 1600)
    live.push_back(policy.allocate(512, 0)->address);

  EXPECT_GT(policy.block_count(), 4096U / 8 * 3);
  const std::uint64_t written = recorder->header().written;
  while (recorder->header().written < written + 8000)
    live.push_back(policy.allocate(512, 0)->address);
  EXPECT_GT(recorder->header().keyframes_refused, 0U);
  // Not at each hand-out: each would count the blocks.
  EXPECT_LT(recorder->header().keyframes_refused, 20U);
  const auto back = read_ring(recorders.ring_path(0), false);
  ASSERT_FALSE(back);
  EXPECT_NE(back.error().message.find("not replayable from here"), std::string::npos)
      << back.error().describe();

  // Once there are fewer, it can be replayed again.
  for (const policy::Address address : live)
    ASSERT_TRUE(policy.free(address));
  const auto later = read_ring(recorders.ring_path(0), false);
  ASSERT_THAT(later, IsOk());
  EXPECT_EQ(heap_at_end(*later), heap_text(policy));
}

}  // namespace
}  // namespace fragscope::recorder::test
