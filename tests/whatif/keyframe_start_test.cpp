// SPDX-License-Identifier: Apache-2.0
// A replay that begins at a keyframe: each test makes one thing happen in front of it, or around
// it, that what comes later depends on.
#include "allocator/policy/device/simulated_device.hpp"
#include "analyzer/whatif/program/program_of_trace.hpp"
#include "analyzer/whatif/recorded/proof.hpp"
#include "tests/recorder/recorded_program.hpp"
#include "tests/recorder/recorder_fixture.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace fragscope::whatif::test {
namespace {

using policy::Block;
using policy::kMiB;
using policy::StreamId;
using recorder::test::ReadBack;

/// Streams that tell when one of their events is waited for.
class ToldStreams final : public policy::StreamEvents {
 public:
  void hold(StreamId stream) { streams_.hold(stream); }
  void release(StreamId stream) { streams_.release(stream); }
  void before_wait(std::function<void()> told) { told_ = std::move(told); }

  [[nodiscard]] policy::EventId record(StreamId stream) override { return streams_.record(stream); }
  [[nodiscard]] bool is_done(policy::EventId event) override { return streams_.is_done(event); }
  void wait(policy::EventId event) override {
    if (told_) told_();
    streams_.wait(event);
  }
  [[nodiscard]] bool is_capturing() const override { return streams_.is_capturing(); }
  [[nodiscard]] std::optional<std::vector<policy::CaptureNode>> capture_ends(
      StreamId stream) const override {
    return streams_.capture_ends(stream);
  }
  [[nodiscard]] bool precede(const std::vector<policy::CaptureNode>& nodes,
                             StreamId stream) const override {
    return streams_.precede(nodes, stream);
  }

 private:
  policy::SimulatedStreams streams_;
  std::function<void()> told_;
};

/// A program on a device of 64 MiB, recorded.
class Job {
 public:
  Job(const std::string& directory, const std::string& conf)
      : device_(64 * kMiB)
      , recorders_(recorder::test::recorder_options(directory, {}, conf))
      , recorder_(recorders_.of({0, {}, "Simulated", 64 * kMiB}))
      , policy_(device_, streams_, options_of(conf), recorder_) {
    recorder_->watch(&policy_);
  }

  [[nodiscard]] Block* ask(std::uint64_t bytes) { return policy_.allocate(bytes, 0); }
  Block& keep(std::uint64_t bytes) {
    Block* block = ask(bytes);
    FRAGSCOPE_CHECK(block != nullptr);
    return *block;
  }
  void use(Block& block, StreamId stream) { policy_.record_stream(block, stream); }
  void free(const Block& block) { FRAGSCOPE_CHECK(policy_.free(block.address)); }
  void set(const std::string& conf) {
    policy_.set_options(options_of(conf, policy_.options()));
    recorder_->settings(conf);
  }
  void keyframe() { recorder_->keyframe(); }

  [[nodiscard]] policy::CachingPolicy& policy() { return policy_; }
  [[nodiscard]] policy::SimulatedDevice& device() { return device_; }
  [[nodiscard]] ToldStreams& streams() { return streams_; }
  /// The number of the next record.
  [[nodiscard]] model::EventIndex now() const {
    return static_cast<model::EventIndex>(recorder_->written());
  }
  [[nodiscard]] std::string ring_path() const { return recorders_.ring_path(0); }

 private:
  [[nodiscard]] static policy::PolicyOptions options_of(const std::string& conf,
                                                        policy::PolicyOptions options = {}) {
    FRAGSCOPE_CHECK(!policy::apply_conf(conf, options.version, options.conf));
    return options;
  }

  policy::SimulatedDevice device_;
  ToldStreams streams_;
  recorder::ProcessRecorder recorders_;
  recorder::DeviceRecorder* recorder_;
  policy::CachingPolicy policy_;
};

class KeyframeStartTest : public recorder::test::RecorderTest {
 protected:
  /// What the job does, decided again from its last keyframe on.
  [[nodiscard]] Proof from_keyframe(const std::function<void(Job&)>& work,
                                    const std::string& conf = kPlain) const {
    return prove_again(work, conf, 0);
  }
  /// The same from its beginning on.
  [[nodiscard]] Proof from_beginning(const std::function<void(Job&)>& work) const {
    return prove_again(work, kPlain, model::TraceHistory::kAllRecords);
  }

 private:
  static constexpr const char* kPlain = "expandable_segments:False";

  [[nodiscard]] Proof prove_again(const std::function<void(Job&)>& work,
                                  const std::string& conf,
                                  std::uint64_t at_most) const {
    std::string path;
    {
      Job job(directory(), conf);
      work(job);
      path = job.ring_path();
    }
    Result<ReadBack> back = recorder::test::read_ring(path);
    FRAGSCOPE_CHECK(back.has_value());
    return prove(0, program_of_trace(*back->history, back->recording, at_most));
  }
};

std::string difference_of(const Proof& proof) {
  if (!proof.reason.empty()) return proof.reason;
  return proof.found.first ? proof.found.first->what : proof.found.problem;
}

// Used on one stream in front of the keyframe and on another behind it: both are waited for, though
// only the second one is in the records. The neighbour waits for the second alone.
TEST_F(KeyframeStartTest, WaitsForUsesThatCameBefore) {
  const Proof proof = from_keyframe([](Job& job) {
    Block& block = job.keep(kMiB / 4);
    Block& neighbour = job.keep(kMiB / 8);
    job.keep(512);
    job.streams().hold(1);
    job.use(block, 1);
    job.keyframe();
    job.use(block, 2);
    job.use(neighbour, 2);
    job.free(block);
    job.free(neighbour);
    const policy::Address front = block.address;
    EXPECT_NE(job.keep(kMiB / 4).address, front);
    job.streams().release(1);
    EXPECT_EQ(job.keep(kMiB / 4).address, front);
  });

  EXPECT_EQ(difference_of(proof), "");
  EXPECT_EQ(proof.found.requests, 2U);
}

// One request waits for two frees to give the cache back; the keyframe comes between them. What the
// first one left would serve the request, which is not searched for again. The options that were
// told in front of it are in force behind it.
TEST_F(KeyframeStartTest, LeavesARequestOutThatWaitsAlready) {
  model::EventIndex behind = 0;
  const Proof proof = from_keyframe([&](Job& job) {
    job.free(job.keep(40 * kMiB));
    Block& first = job.keep(20 * kMiB);
    job.keep(20 * kMiB);
    job.free(job.keep(20 * kMiB));
    Block& second = job.keep(12 * kMiB);
    job.keep(8 * kMiB);
    job.set("max_split_size_mb:20");
    for (Block* block : {&first, &second}) {
      const StreamId stream = block == &first ? 1 : 2;
      job.streams().hold(stream);
      job.use(*block, stream);
      job.free(*block);
    }
    int waits = 0;
    job.streams().before_wait([&] {
      if (++waits == 2) job.keyframe();
    });
    EXPECT_EQ(job.ask(20 * kMiB), nullptr);
    EXPECT_EQ(waits, 2);
    behind = job.now();
    EXPECT_EQ(job.ask(13 * kMiB), nullptr) << "only an oversize block is large enough";
    EXPECT_NE(job.ask(20 * kMiB), nullptr);
  });

  EXPECT_EQ(difference_of(proof), "");
  EXPECT_EQ(proof.first_event, behind);
  EXPECT_FALSE(proof.covers(behind - 1));
  EXPECT_EQ(proof.found.requests, 2U);
  EXPECT_EQ(proof.found.refusals, 1U);
}

TEST_F(KeyframeStartTest, BeginsWithARequestWhoseFirstAttemptIsThere) {
  model::EventIndex behind = 0;
  const Proof proof = from_keyframe([&](Job& job) {
    Block& block = job.keep(40 * kMiB);
    job.streams().hold(1);
    job.use(block, 1);
    job.free(block);
    job.keyframe();
    behind = job.now();
    EXPECT_NE(job.ask(50 * kMiB), nullptr);
  });

  EXPECT_EQ(difference_of(proof), "");
  EXPECT_LT(proof.first_event, behind);
  EXPECT_EQ(proof.found.requests, 1U);
}

// The last string of options does not mention what one before it set.
TEST_F(KeyframeStartTest, KnowsOptionsOfEachChange) {
  const Proof proof = from_keyframe([](Job& job) {
    job.set("large_segment_size_mb:40");
    job.set("max_split_size_mb:50");
    job.keyframe();
    job.keep(5 * kMiB);
    EXPECT_EQ(job.policy().held_bytes(), 40 * kMiB);
  });

  EXPECT_EQ(difference_of(proof), "");
  EXPECT_EQ(proof.found.requests, 1U);
}

TEST_F(KeyframeStartTest, KnowsThatNoLimitIsLeft) {
  const Proof proof = from_keyframe(
      [](Job& job) {
        EXPECT_EQ(job.ask(40 * kMiB), nullptr);
        job.policy().set_limit(std::nullopt);
        job.keyframe();
        EXPECT_NE(job.ask(40 * kMiB), nullptr);
      },
      "per_process_memory_fraction:0.5");

  EXPECT_EQ(difference_of(proof), "");
  EXPECT_EQ(proof.found.requests, 1U);
}

TEST_F(KeyframeStartTest, DoubtsWhatIsCollectedOfBlocksThatWereFree) {
  const auto collect = [](Job& job, bool has_free) {
    const Block& block = job.keep(20 * kMiB);
    if (has_free) job.free(block);
    job.keyframe();
    job.keep(kMiB);
  };
  const std::string conf = "garbage_collection_threshold:0.8";
  for (const bool has_free : {false, true}) {
    const Proof proof = from_keyframe([&](Job& job) { collect(job, has_free); }, conf);
    EXPECT_EQ(proof.doubts.size(), has_free ? 1U : 0U);
  }
}

/// Address space that a refused request reserved is older than the segment that comes next, though
/// it gets its pages later: among blocks of one size its own is taken first.
void reserve_in_vain(Job& job, bool makes_keyframe) {
  constexpr std::uint64_t kSmall = 512;
  job.set("expandable_segments:True");
  job.device().set_outside_bytes(64 * kMiB);
  EXPECT_EQ(job.ask(kSmall), nullptr);
  job.device().set_outside_bytes(0);
  job.set("expandable_segments:False");
  const Block& in_plain = job.keep(kSmall);
  job.keep(kMiB);
  job.keep(kMiB - kSmall);
  job.set("expandable_segments:True");
  if (makes_keyframe) job.keyframe();

  job.keep(kSmall);
  const Block& in_pages = job.keep(kSmall);
  job.keep(kSmall);
  const policy::Address expected = in_pages.address;
  job.free(in_plain);
  job.free(in_pages);
  EXPECT_EQ(job.keep(kSmall).address, expected);
}

TEST_F(KeyframeStartTest, KnowsAddressSpaceWithoutPages) {
  const Proof proof = from_keyframe([](Job& job) { reserve_in_vain(job, true); });
  EXPECT_EQ(difference_of(proof), "");
  EXPECT_EQ(proof.found.requests, 4U);
}

TEST_F(KeyframeStartTest, FindsAddressSpaceWithoutPagesByThoseThatItGets) {
  const Proof proof = from_beginning([](Job& job) { reserve_in_vain(job, false); });
  EXPECT_EQ(difference_of(proof), "");
  EXPECT_EQ(proof.found.refusals, 1U);
}

/// Two blocks in address spaces of 40 MiB, the first of which they fill; then half of each is free,
/// which lie next to each other but do not become one.
void fill_small_spaces(Job& job, bool makes_second_first) {
  job.set("expandable_segments:True,expandable_segments_reserve:0.0390625G");
  job.keep(20 * kMiB);
  if (!makes_second_first) job.keyframe();
  Block& second = job.keep(20 * kMiB);
  Block& third = job.keep(20 * kMiB);
  EXPECT_EQ(third.address, second.address + 20 * kMiB);
  EXPECT_NE(third.expandable, second.expandable);
  if (makes_second_first) job.keyframe();
  job.free(second);
  job.free(third);
  job.keep(40 * kMiB);
}

TEST_F(KeyframeStartTest, KnowsHowMuchAddressSpaceWasReserved) {
  const Proof proof = from_keyframe([](Job& job) { fill_small_spaces(job, false); });
  EXPECT_EQ(difference_of(proof), "");
  EXPECT_EQ(proof.found.requests, 3U);
}

TEST_F(KeyframeStartTest, KeepsAddressSpacesOfOneHomeApart) {
  const Proof proof = from_keyframe([](Job& job) { fill_small_spaces(job, true); });
  EXPECT_EQ(difference_of(proof), "");
  EXPECT_EQ(proof.found.requests, 1U);
}

}  // namespace
}  // namespace fragscope::whatif::test
