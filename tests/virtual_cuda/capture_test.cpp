// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/timeline/timeline.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fragscope::virtual_cuda {
namespace {

using testing::ElementsAre;
using testing::UnorderedElementsAre;

class CaptureTest : public testing::Test {
 protected:
  Stream& make_stream() {
    return *timeline_.find_stream(timeline_.create_stream({.flags = kStreamNonBlocking}), 0);
  }
  Status begin(Stream& stream, CaptureMode mode = CaptureMode::kGlobal) {
    Captures::Start start;
    start.stream = &stream;
    start.mode = mode;
    return timeline_.begin_capture(std::move(start), thread_);
  }
  Status end(Stream& stream) { return timeline_.end_capture(stream, thread_, &graph_); }
  Status run_kernel(Stream& stream) {
    return timeline_.enqueue(stream, {.kind = NodeKind::kKernel}, thread_);
  }
  std::uint64_t recorded_event(Stream& stream) {
    const std::uint64_t event = timeline_.create_event(0);
    EXPECT_EQ(timeline_.record(event, stream, 0), Status::kSuccess);
    return event;
  }
  // The second stream takes part in what the first one captures.
  void fork(Stream& from, Stream& to) {
    ASSERT_EQ(timeline_.wait_event(to, recorded_event(from), 0), Status::kSuccess);
  }
  const auto& nodes() { return timeline_.find_graph(graph_)->nodes(); }

  Timeline timeline_{1};
  CaptureThread thread_;
  std::uint64_t graph_ = 0;
};

TEST_F(CaptureTest, WorkBecomesAChainOfNodes) {
  Stream& stream = make_stream();
  ASSERT_EQ(begin(stream), Status::kSuccess);
  ASSERT_EQ(run_kernel(stream), Status::kSuccess);
  ASSERT_EQ(run_kernel(stream), Status::kSuccess);

  ASSERT_EQ(end(stream), Status::kSuccess);

  ASSERT_EQ(nodes().size(), 2U);
  EXPECT_TRUE(nodes()[0]->in.empty());
  EXPECT_THAT(nodes()[1]->in, ElementsAre(nodes()[0].get()));
  EXPECT_THAT(nodes()[0]->out, ElementsAre(nodes()[1].get()));
}

TEST_F(CaptureTest, CapturedWorkTakesNoTime) {
  Stream& stream = make_stream();
  ASSERT_EQ(begin(stream), Status::kSuccess);
  Work work{.duration_ns = 1'000'000};
  ASSERT_EQ(timeline_.enqueue(stream, work, thread_), Status::kSuccess);
  ASSERT_EQ(end(stream), Status::kSuccess);

  EXPECT_EQ(timeline_.query_stream(stream, thread_), Status::kSuccess);
}

TEST_F(CaptureTest, ForksAndJoinsBecomeEdges) {
  Stream& main = make_stream();
  Stream& side = make_stream();
  ASSERT_EQ(begin(main), Status::kSuccess);
  ASSERT_EQ(run_kernel(main), Status::kSuccess);  // 0
  fork(main, side);
  ASSERT_EQ(run_kernel(side), Status::kSuccess);  // 1
  ASSERT_EQ(run_kernel(main), Status::kSuccess);  // 2
  fork(side, main);
  ASSERT_EQ(run_kernel(main), Status::kSuccess);  // 3

  ASSERT_EQ(end(main), Status::kSuccess);

  ASSERT_EQ(nodes().size(), 4U);
  EXPECT_THAT(nodes()[1]->in, ElementsAre(nodes()[0].get()));
  EXPECT_THAT(nodes()[2]->in, ElementsAre(nodes()[0].get()));
  EXPECT_THAT(nodes()[3]->in, UnorderedElementsAre(nodes()[1].get(), nodes()[2].get()));
  EXPECT_EQ(side.capture, nullptr);
}

TEST_F(CaptureTest, AStreamThatIsNotJoinedBackFailsTheCapture) {
  Stream& main = make_stream();
  Stream& side = make_stream();
  ASSERT_EQ(begin(main), Status::kSuccess);
  fork(main, side);
  ASSERT_EQ(run_kernel(side), Status::kSuccess);

  EXPECT_EQ(end(main), Status::kCaptureUnjoined);

  EXPECT_EQ(graph_, 0U);
  EXPECT_EQ(side.capture, nullptr);
}

TEST_F(CaptureTest, ACaptureEndsWhereItBegan) {
  Stream& main = make_stream();
  Stream& side = make_stream();
  ASSERT_EQ(begin(main), Status::kSuccess);
  fork(main, side);

  EXPECT_EQ(end(side), Status::kCaptureUnmatched);
  EXPECT_EQ(end(main), Status::kCaptureInvalidated);
  EXPECT_EQ(end(main), Status::kIllegalState);
}

TEST_F(CaptureTest, WaitingForAStreamThatCapturesBreaksTheCapture) {
  Stream& stream = make_stream();
  ASSERT_EQ(begin(stream), Status::kSuccess);

  EXPECT_EQ(timeline_.synchronize_stream(stream, thread_), Status::kCaptureUnsupported);
  EXPECT_EQ(run_kernel(stream), Status::kCaptureInvalidated);
  EXPECT_EQ(end(stream), Status::kCaptureInvalidated);
}

TEST_F(CaptureTest, QueryingACapturedEventBreaksTheCapture) {
  Stream& stream = make_stream();
  ASSERT_EQ(begin(stream), Status::kSuccess);

  EXPECT_EQ(timeline_.query_event(recorded_event(stream), thread_), Status::kCapturedEvent);
  EXPECT_EQ(end(stream), Status::kCaptureInvalidated);
}

TEST_F(CaptureTest, WaitingForUncapturedWorkBreaksTheCapture) {
  Stream& stream = make_stream();
  const std::uint64_t outside = recorded_event(make_stream());
  ASSERT_EQ(begin(stream), Status::kSuccess);

  EXPECT_EQ(timeline_.wait_event(stream, outside, 0), Status::kCaptureIsolation);
}

TEST_F(CaptureTest, TwoCapturesCannotMerge) {
  Stream& first = make_stream();
  Stream& second = make_stream();
  ASSERT_EQ(begin(first), Status::kSuccess);
  ASSERT_EQ(begin(second), Status::kSuccess);

  EXPECT_EQ(timeline_.wait_event(second, recorded_event(first), 0), Status::kCaptureMerge);
  EXPECT_EQ(end(first), Status::kCaptureInvalidated);
  EXPECT_EQ(end(second), Status::kCaptureInvalidated);
}

TEST_F(CaptureTest, TheLegacyStreamCannotBeCaptured) {
  EXPECT_EQ(begin(*timeline_.find_stream(0, 0)), Status::kCaptureUnsupported);
}

TEST_F(CaptureTest, AStreamThatCapturesCannotBeginAnother) {
  Stream& stream = make_stream();
  ASSERT_EQ(begin(stream), Status::kSuccess);

  EXPECT_EQ(begin(stream), Status::kIllegalState);
}

// Who may do what is unsafe while something is captured, as CUDA's documentation has it.
TEST_F(CaptureTest, ModesSayWhoMayCallWhatIsUnsafe) {
  struct Case {
    CaptureMode capture;
    CaptureMode thread;
    bool own;
    bool allowed;
  };
  constexpr auto kGlobal = CaptureMode::kGlobal;
  constexpr auto kLocal = CaptureMode::kThreadLocal;
  constexpr auto kRelaxed = CaptureMode::kRelaxed;
  const Case cases[] = {
      {kGlobal, kGlobal, true, false},
      {kGlobal, kGlobal, false, false},
      {kGlobal, kLocal, true, false},
      {kGlobal, kLocal, false, true},
      {kGlobal, kRelaxed, true, true},
      {kGlobal, kRelaxed, false, true},
      {kLocal, kGlobal, true, false},
      {kLocal, kGlobal, false, true},
      {kLocal, kLocal, true, false},
      {kLocal, kRelaxed, true, true},
      {kRelaxed, kGlobal, true, true},
      {kRelaxed, kGlobal, false, true},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(testing::Message() << int(one.capture) << int(one.thread) << one.own);
    Stream& stream = make_stream();
    ASSERT_EQ(begin(stream, one.capture), Status::kSuccess);
    CaptureThread other;
    CaptureThread& caller = one.own ? thread_ : other;
    caller.mode = one.thread;

    const Status status = timeline_.captures().check_unsafe_call(caller);

    EXPECT_EQ(status, one.allowed ? Status::kSuccess : Status::kCaptureUnsupported);
    EXPECT_EQ(end(stream), one.allowed ? Status::kSuccess : Status::kCaptureInvalidated);
    caller.mode = kGlobal;
  }
}

TEST_F(CaptureTest, AnotherThreadCannotEndACapture) {
  Stream& stream = make_stream();
  ASSERT_EQ(begin(stream), Status::kSuccess);
  const CaptureThread other;

  EXPECT_EQ(timeline_.end_capture(stream, other, &graph_), Status::kCaptureWrongThread);
  EXPECT_EQ(end(stream), Status::kSuccess);
}

TEST_F(CaptureTest, ALaunchRunsTheActionsOfTheGraph) {
  Stream& stream = make_stream();
  int runs = 0;
  ASSERT_EQ(begin(stream), Status::kSuccess);
  Work work{.kind = NodeKind::kHost, .duration_ns = 700, .action = [&runs] { ++runs; }};
  ASSERT_EQ(timeline_.enqueue(stream, work, thread_), Status::kSuccess);
  ASSERT_EQ(end(stream), Status::kSuccess);
  std::uint64_t executable = 0;
  ASSERT_EQ(timeline_.instantiate(graph_, 0, &executable), Status::kSuccess);
  ASSERT_EQ(timeline_.destroy_graph(graph_), Status::kSuccess);
  ASSERT_TRUE(timeline_.due().empty());

  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(timeline_.launch(stream, executable, thread_), Status::kSuccess);
  }
  for (const Action& action : timeline_.due())
    action();

  EXPECT_EQ(runs, 2);
  EXPECT_EQ(stream.busy_until.time_ns, 1'400U);
}

TEST_F(CaptureTest, UserObjectsLiveAsLongAsTheirLastGraph) {
  bool destroyed = false;
  auto object = std::make_shared<UserObject>([&destroyed] { destroyed = true; }, 1);
  const std::uint64_t graph = timeline_.create_graph();
  timeline_.find_graph(graph)->objects().add(object, 1);  // Moves the only reference.
  std::uint64_t executable = 0;
  ASSERT_EQ(timeline_.instantiate(graph, 0, &executable), Status::kSuccess);

  ASSERT_EQ(timeline_.destroy_graph(graph), Status::kSuccess);
  EXPECT_TRUE(timeline_.due().empty());
  ASSERT_EQ(timeline_.destroy_executable(executable), Status::kSuccess);
  ASSERT_EQ(timeline_.due().size(), 1U);
  timeline_.due().front()();
  EXPECT_TRUE(destroyed);
}

TEST_F(CaptureTest, AnExternalEventIsRecordedByTheLaunch) {
  Stream& stream = make_stream();
  const std::uint64_t event = timeline_.create_event(0);
  ASSERT_EQ(begin(stream), Status::kSuccess);
  Work work{.duration_ns = 5'000};
  ASSERT_EQ(timeline_.enqueue(stream, work, thread_), Status::kSuccess);
  ASSERT_EQ(timeline_.record(event, stream, kEventExternal), Status::kSuccess);
  ASSERT_EQ(end(stream), Status::kSuccess);
  std::uint64_t executable = 0;
  ASSERT_EQ(timeline_.instantiate(graph_, 0, &executable), Status::kSuccess);

  EXPECT_EQ(timeline_.query_event(event, thread_), Status::kSuccess);
  ASSERT_EQ(timeline_.launch(stream, executable, thread_), Status::kSuccess);
  EXPECT_EQ(timeline_.query_event(event, thread_), Status::kNotReady);
}

// Edges that a program adds by hand may point backwards; a launch must follow them all the same.
TEST_F(CaptureTest, NodesAreOrderedByTheirEdges) {
  Graph graph;
  Node* const first = graph.add({}, {});
  Node* const second = graph.add({}, {});
  Node* const third = graph.add({}, {first});
  Graph::connect(third, second);

  EXPECT_THAT(graph.in_order(), ElementsAre(first, third, second));
}

}  // namespace
}  // namespace fragscope::virtual_cuda
