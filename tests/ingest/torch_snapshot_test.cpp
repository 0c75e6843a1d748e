// SPDX-License-Identifier: Apache-2.0
// What the snapshot reader understands: every field, every spelling, and how much it skips.
#include "analyzer/ingest/torch_snapshot.hpp"

#include "tests/ingest/snapshot_json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fragscope::ingest {
namespace {

using model::Action;
using model::BlockState;
using model::Recording;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Recording read_or_die(const Json& snapshot) {
  auto recording = read_json(snapshot);
  if (!recording) {
    ADD_FAILURE() << recording.error().describe();
    return {};
  }
  return std::move(*recording);
}

std::vector<std::string> places(const Recording& recording, model::StackId stack) {
  std::vector<std::string> shown;
  for (const model::FrameId id : recording.stacks.stack(stack)) {
    const model::Frame& each = recording.stacks.frame(id);
    shown.push_back(std::string(recording.strings.view(each.filename)) + ":" +
                    std::to_string(each.line) + " " +
                    std::string(recording.strings.view(each.name)));
  }
  return shown;
}

/// All that matters of a recording, to compare two.
std::string facts(const Recording& recording) {
  std::string text;
  for (const model::Segment& each : recording.segments) {
    text += "segment " + std::to_string(each.address) + " " + std::to_string(each.size_bytes) +
            " " + std::to_string(each.device) + " " + std::to_string(each.block_count) + "\n";
  }
  for (const model::Block& each : recording.blocks) {
    text += "block " + std::to_string(each.address) + " " + std::to_string(each.size_bytes) + " " +
            std::to_string(each.requested_bytes) + " " +
            std::to_string(static_cast<int>(each.state)) + " " +
            std::to_string(places(recording, each.stack).size()) + "\n";
  }
  for (const model::Event& each : recording.events) {
    text += "event " + std::to_string(static_cast<int>(each.action)) + " " +
            std::to_string(each.address) + " " + std::to_string(each.size_bytes) + " " +
            std::to_string(places(recording, each.stack).size()) + "\n";
  }
  return text;
}

TEST(TorchSnapshot, ReadsASegmentAndItsBlocks) {
  const Recording recording = read_or_die(small_snapshot());

  ASSERT_EQ(recording.segments.size(), 1U);
  const model::Segment& segment = recording.segments.front();
  EXPECT_EQ(segment.address, kSegmentAddress);
  EXPECT_EQ(segment.size_bytes, kSegmentBytes);
  EXPECT_EQ(segment.size_class, model::SizeClass::kSmall);
  EXPECT_EQ(segment.pool, model::kDefaultPool);
  EXPECT_FALSE(segment.expandable);
  ASSERT_EQ(recording.blocks.size(), 3U);
  EXPECT_EQ(recording.blocks[0].state, BlockState::kLive);
  EXPECT_EQ(recording.blocks[1].state, BlockState::kPending);
  EXPECT_EQ(recording.blocks[2].state, BlockState::kFree);
  EXPECT_EQ(recording.blocks[1].address, kSegmentAddress + 512);
  EXPECT_EQ(recording.blocks[1].size_bytes, 1024U);
  EXPECT_EQ(recording.blocks[1].requested_bytes, 1012U);
  EXPECT_THAT(places(recording, recording.blocks[0].stack),
              ElementsAre("train.py:7 step", "train.py:90 main"));
}

TEST(TorchSnapshot, ReadsTheTrace) {
  const Recording recording = read_or_die(small_snapshot());

  ASSERT_EQ(recording.traces.size(), 1U);
  const auto events = recording.events_of(recording.traces.front());
  ASSERT_EQ(events.size(), 5U);
  EXPECT_EQ(events[0].action, Action::kSegmentAlloc);
  EXPECT_EQ(events[1].action, Action::kAlloc);
  EXPECT_EQ(events[3].action, Action::kFreeRequested);
  EXPECT_EQ(events[3].address, kSegmentAddress + 512);
  EXPECT_EQ(events[3].size_bytes, 1012U);
  EXPECT_EQ(events[3].time_us, 1'700'000'000'000'000);
  EXPECT_EQ(events[3].pool, model::kUnknownPool);
  EXPECT_THAT(places(recording, events[3].stack), ElementsAre("train.py:7 step"));
  EXPECT_EQ(events[4].action, Action::kOom);
  EXPECT_EQ(events[4].address, 123'456'789U);
  EXPECT_TRUE(events[4].has_address);
}

TEST(TorchSnapshot, ReadsTheSettings) {
  const model::Settings settings = read_or_die(small_snapshot()).settings;

  EXPECT_EQ(settings.rules.max_split_size, 128U << 20);
  EXPECT_EQ(settings.rules.roundup_divisions[0], 0U);
  EXPECT_EQ(settings.rules.roundup_divisions[8], 2U);
  EXPECT_FALSE(settings.rules.expandable_segments);
}

TEST(TorchSnapshot, TakesTheParsedSettingsOverTheString) {
  Json snapshot = small_snapshot();
  snapshot["allocator_settings"]["max_split_size"] = -1;
  snapshot["allocator_settings"]["expandable_segments"] = true;

  const model::Settings settings = read_or_die(snapshot).settings;

  EXPECT_EQ(settings.rules.max_split_size, policy::kUnlimited);
  EXPECT_TRUE(settings.rules.expandable_segments);
}

TEST(TorchSnapshot, ReadsTheFractionAndTheLargeSegmentSizeFromTheString) {
  Json snapshot = small_snapshot();
  snapshot["allocator_settings"]["PYTORCH_CUDA_ALLOC_CONF"] =
      "per_process_memory_fraction:0.25,large_segment_size_mb:64";

  const model::Settings settings = read_or_die(snapshot).settings;

  ASSERT_TRUE(settings.memory_fraction);
  EXPECT_DOUBLE_EQ(*settings.memory_fraction, 0.25);
  EXPECT_EQ(settings.rules.large_segment_size, 64U << 20);
}

TEST(TorchSnapshot, SkipsUnknownKeysEverywhere) {
  const std::string plain = facts(read_or_die(small_snapshot()));
  const Json future = {{"a", {1, 2.5, nullptr, "x"}}, {"b", {{"c", true}}}};
  Json snapshot = small_snapshot();
  snapshot["zz_future"] = future;
  snapshot["segments"][0]["zz_future"] = future;
  snapshot["segments"][0]["blocks"][0]["zz_future"] = future;
  snapshot["segments"][0]["blocks"][0]["frames"][0]["fx_node_op"] = "call_function";
  snapshot["segments"][0]["blocks"][0]["forward_frames"] = {"a.py:1 f", "b.py:2 g"};
  snapshot["device_traces"][0][1]["zz_future"] = future;
  snapshot["device_traces"][0][1]["user_metadata"] = "";
  snapshot["allocator_settings"]["zz_future"] = 7;
  snapshot["external_annotations"].push_back(
      {{"name", "step 1"}, {"stage", "START"}, {"device", 0}, {"time_us", 5}});

  EXPECT_EQ(facts(read_or_die(snapshot)), plain);
}

// Annotations carry whatever keys a program gave them; a key that means something elsewhere in a
// snapshot means nothing there.
TEST(TorchSnapshot, SkipsAnnotationsWhateverTheirKeysAre) {
  const std::string plain = facts(read_or_die(small_snapshot()));
  for (const std::string_view key : {"state", "action", "blocks", "real_size", "line", "conf"}) {
    Json snapshot = small_snapshot();
    snapshot["external_annotations"].push_back(
        {{"name", "step 1"}, {"stage", "START"}, {"device", 0}, {"time_us", 5}, {key, "x"}});

    EXPECT_EQ(facts(read_or_die(snapshot)), plain) << key;
  }
}

TEST(TorchSnapshot, CountsUnknownActionsAndKeepsTheirPlace) {
  Json snapshot = small_snapshot();
  Json& trace = snapshot["device_traces"][0];
  trace.insert(trace.begin() + 1, Json{{"action", "user_defined"}, {"addr", 0}, {"size", 0}});
  trace.insert(trace.begin() + 2, Json{{"action", "workspace_snapshot"}});

  const Recording recording = read_or_die(snapshot);

  ASSERT_EQ(recording.events.size(), 7U);
  EXPECT_EQ(recording.events[1].action, Action::kOther);
  EXPECT_EQ(recording.events[2].action, Action::kOther);
  EXPECT_EQ(recording.events[3].action, Action::kAlloc);
  ASSERT_EQ(recording.trust.size(), 1U);
  EXPECT_EQ(recording.trust[0].signal, "unknown-actions");
  EXPECT_THAT(recording.trust[0].effect, HasSubstr("2 trace entries"));
  EXPECT_THAT(recording.trust[0].effect, HasSubstr("user_defined, workspace_snapshot"));
}

TEST(TorchSnapshot, KnowsBothSpellingsOfPending) {
  for (const std::string_view word : {"active_pending_free", "active_awaiting_free"}) {
    Json snapshot = small_snapshot();
    snapshot["segments"][0]["blocks"][1]["state"] = word;

    EXPECT_EQ(read_or_die(snapshot).blocks.at(1).state, BlockState::kPending) << word;
  }
}

TEST(TorchSnapshot, ReadsPoolIdsAsTuplesAndAsLists) {
  Json snapshot = small_snapshot();
  snapshot["segments"][0]["segment_pool_id"] = {3, 0};
  snapshot["device_traces"][0][1]["pool_id"] = {0, 5};
  for (const bool as_lists : {false, true}) {
    testing::PickleWriter writer;
    writer.pools_as_lists(as_lists).value(snapshot).stop();

    const auto recording = read_bytes(writer.bytes());

    ASSERT_TRUE(recording) << recording.error().describe();
    EXPECT_EQ(recording->pools[model::index_of(recording->segments[0].pool)],
              (model::PoolId{3, 0}));
    EXPECT_EQ(recording->pools[model::index_of(recording->events[1].pool)], (model::PoolId{0, 5}));
  }
}

TEST(TorchSnapshot, ComputesAddressesThatBlocksLack) {
  Json snapshot = small_snapshot();
  for (Json& each : snapshot["segments"][0]["blocks"])
    each.erase("address");

  const Recording recording = read_or_die(snapshot);

  EXPECT_EQ(recording.blocks.at(1).address, kSegmentAddress + 512);
  EXPECT_EQ(recording.blocks.at(2).address, kSegmentAddress + 1536);
}

TEST(TorchSnapshot, TakesTheNewestOwnerOutOfAHistory) {
  Json snapshot = small_snapshot();
  Json& owner = snapshot["segments"][0]["blocks"][0];
  owner.erase("frames");
  owner["history"] = Json::array();
  owner["history"].push_back(
      {{"addr", 1}, {"real_size", 500}, {"frames", Json::array({frame("new", "n.py", 1)})}});
  owner["history"].push_back(
      {{"addr", 1}, {"real_size", 400}, {"frames", Json::array({frame("old", "o.py", 2)})}});

  const Recording recording = read_or_die(snapshot);

  EXPECT_THAT(places(recording, recording.blocks.at(0).stack), ElementsAre("n.py:1 new"));
}

TEST(TorchSnapshot, ReadsABareListOfSegments) {
  const Recording recording = read_or_die(small_snapshot()["segments"]);

  EXPECT_EQ(recording.segments.size(), 1U);
  EXPECT_TRUE(recording.events.empty());
  EXPECT_EQ(recording.writer, "PyTorch 1.13 or earlier");
}

TEST(TorchSnapshot, ReadsAnEmptyList) {
  const Recording recording = read_or_die(Json::array());

  EXPECT_TRUE(recording.segments.empty());
}

TEST(TorchSnapshot, KnowsWhichRequestedSizesAreMissing) {
  Json snapshot = small_snapshot();
  for (Json& each : snapshot["segments"][0]["blocks"])
    each.erase("requested_size");

  EXPECT_TRUE(read_or_die(small_snapshot()).has_requested_sizes);
  EXPECT_FALSE(read_or_die(snapshot).has_requested_sizes);
}

TEST(TorchSnapshot, SortsSegmentsByDeviceAndAddress) {
  Json snapshot = small_snapshot();
  Json& segments = snapshot["segments"];
  Json lower = segments[0];
  lower["address"] = kSegmentAddress - kSegmentBytes;
  for (Json& each : lower["blocks"])
    each["address"] = each["address"].get<std::uint64_t>() - kSegmentBytes;
  Json other = segments[0];
  other["device"] = 1;
  segments = Json::array({other, segments[0], lower});

  const Recording recording = read_or_die(snapshot);

  ASSERT_EQ(recording.segments.size(), 3U);
  EXPECT_EQ(recording.segments[0].address, kSegmentAddress - kSegmentBytes);
  EXPECT_EQ(recording.segments[1].address, kSegmentAddress);
  EXPECT_EQ(recording.segments[2].device, 1);
  for (const model::Segment& each : recording.segments)
    EXPECT_EQ(recording.blocks_of(each).front().address, each.address);
}

TEST(TorchSnapshot, NumbersDevicesByThePlaceOfTheirTrace) {
  Json snapshot = small_snapshot();
  Json& traces = snapshot["device_traces"];
  traces = Json::array({Json::array(), traces[0], Json::array(), traces[0]});

  const Recording recording = read_or_die(snapshot);

  ASSERT_EQ(recording.traces.size(), 2U);
  EXPECT_EQ(recording.traces[0].device, 1);
  EXPECT_EQ(recording.traces[1].device, 3);
  EXPECT_EQ(recording.events_of(recording.traces[1]).size(), 5U);
}

TEST(TorchSnapshot, KeepsAddressesBeyondTheSignBit) {
  const std::uint64_t high = 0xffff'ff00'0000'0000;
  Json snapshot = small_snapshot();
  const Json blocks = Json::array({block(high, kSegmentBytes, "inactive")});
  snapshot["segments"] = Json::array({segment(high, blocks)});
  snapshot["device_traces"][0] = Json::array({entry("segment_alloc", high, kSegmentBytes)});

  const Recording recording = read_or_die(snapshot);

  EXPECT_EQ(recording.segments.at(0).address, high);
  EXPECT_EQ(recording.events.at(0).address, high);
}

}  // namespace
}  // namespace fragscope::ingest
