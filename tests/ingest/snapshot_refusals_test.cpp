// SPDX-License-Identifier: Apache-2.0
// Snapshots that must be refused: cut short, contradictory, foreign, or made to hurt.
#include "tests/ingest/snapshot_json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::ingest {
namespace {

using ::testing::HasSubstr;
using testing::PickleWriter;

struct Change {
  std::string_view name;
  std::function<void(Json&)> apply;
  ErrorCode code;
  std::string_view words;
};

Json& segment_of(Json& snapshot) {
  return snapshot["segments"][0];
}
Json& block_of(Json& snapshot, std::size_t index) {
  return snapshot["segments"][0]["blocks"][index];
}
Json& entry_of(Json& snapshot, std::size_t index) {
  return snapshot["device_traces"][0][index];
}

void expect_refusals(const std::vector<Change>& changes) {
  for (const Change& change : changes) {
    Json snapshot = small_snapshot();
    change.apply(snapshot);
    const auto recording = read_json(snapshot);
    ASSERT_FALSE(recording) << change.name << " was accepted";
    EXPECT_EQ(recording.error().code, change.code)
        << change.name << ": " << recording.error().describe();
    EXPECT_THAT(recording.error().describe(), HasSubstr(std::string(change.words))) << change.name;
  }
}

// Dumps that were cut short are what users send most. Whatever the length, the answer must be
// "damaged" and a place inside the file; never half a snapshot.
TEST(SnapshotRefusals, EveryPrefixOfASnapshotIsDamaged) {
  for (const int protocol : {2, 4}) {
    std::string whole = testing::pickle_of(small_snapshot(), protocol);
    if (protocol == 4) {
      const std::string body = whole.substr(2);
      whole = PickleWriter(4).op(0x95).number(body.size(), 8).raw(body).bytes();
    }
    ASSERT_TRUE(read_bytes(whole));
    for (std::size_t length = 1; length < whole.size(); ++length) {
      const auto recording = read_bytes(whole.substr(0, length));
      ASSERT_FALSE(recording) << "the first " << length << " bytes were accepted";
      EXPECT_EQ(recording.error().code, ErrorCode::kDamaged) << recording.error().describe();
      ASSERT_TRUE(recording.error().byte_offset);
      EXPECT_LE(*recording.error().byte_offset, length);
    }
  }
}

TEST(SnapshotRefusals, BlocksThatDoNotTile) {
  const ErrorCode code = ErrorCode::kContradictory;
  expect_refusals({
      {"hole missing", [](Json& s) { segment_of(s)["blocks"].erase(2); }, code, "belong to none"},
      {"segment longer",
       [](Json& s) { segment_of(s)["total_size"] = kSegmentBytes + 512; },
       code,
       "512 of its"},
      {"segment shorter",
       [](Json& s) { segment_of(s)["total_size"] = kSegmentBytes - 512; },
       code,
       "are left in the segment"},
      {"gap",
       [](Json& s) { block_of(s, 1)["address"] = kSegmentAddress + 1024; },
       code,
       "expected one at 0x7f0000000200, found 0x7f0000000400"},
      {"overlap",
       [](Json& s) { block_of(s, 1)["address"] = kSegmentAddress; },
       code,
       "expected one at"},
      {"no size", [](Json& s) { block_of(s, 1)["size"] = 0; }, code, "has 0 bytes"},
      {"wraps around",
       [](Json& s) { block_of(s, 1)["size"] = ~std::uint64_t{0}; },
       code,
       "are left in the segment"},
      {"no blocks",
       [](Json& s) { segment_of(s)["blocks"] = Json::array(); },
       code,
       "belong to none"},
      {"a first block elsewhere",
       [](Json& s) { block_of(s, 0)["address"] = 1; },
       code,
       "found 0x1"},
  });
}

TEST(SnapshotRefusals, SegmentsThatCannotBe) {
  const ErrorCode code = ErrorCode::kContradictory;
  expect_refusals({
      {"twice", [](Json& s) { s["segments"].push_back(s["segments"][0]); }, code, "overlaps"},
      {"inside another",
       [](Json& s) {
         const std::uint64_t inside = kSegmentAddress + 512;
         s["segments"].push_back(segment(inside, Json::array({block(inside, 512, "inactive")})));
       },
       code,
       "overlaps"},
      {"beyond the last address",
       [](Json& s) {
         const std::uint64_t last = ~std::uint64_t{0} - 100;
         s["segments"] = Json::array({segment(last, Json::array({block(last, 512, "inactive")}))});
       },
       code,
       "last address"},
      {"device below 0", [](Json& s) { segment_of(s)["device"] = -1; }, code, "device -1"},
      {"device beyond all", [](Json& s) { segment_of(s)["device"] = 1024; }, code, "device 1024"},
      {"device of 40 bits",
       [](Json& s) { segment_of(s)["device"] = std::int64_t{1} << 40; },
       code,
       "device 1099511627776"},
  });
}

TEST(SnapshotRefusals, TracesOfTooManyDevices) {
  Json snapshot = small_snapshot();
  Json traces = Json::array();
  for (int device = 0; device < 1024; ++device)
    traces.push_back(Json::array());
  traces.push_back(snapshot["device_traces"][0]);
  snapshot["device_traces"] = traces;

  const auto recording = read_json(snapshot);

  ASSERT_FALSE(recording);
  EXPECT_EQ(recording.error().code, ErrorCode::kContradictory);
  EXPECT_THAT(recording.error().message, HasSubstr("device 1024"));
}

TEST(SnapshotRefusals, FieldsOfTheWrongKind) {
  const ErrorCode code = ErrorCode::kDamaged;
  expect_refusals({
      {"size as text", [](Json& s) { block_of(s, 0)["size"] = "512"; }, code, "'size' of a block"},
      {"size as a fraction", [](Json& s) { block_of(s, 0)["size"] = 512.0; }, code, "no integer"},
      {"size below 0", [](Json& s) { block_of(s, 0)["size"] = -512; }, code, "negative"},
      {"size of None", [](Json& s) { block_of(s, 0)["size"] = nullptr; }, code, "no integer"},
      {"no size", [](Json& s) { block_of(s, 0).erase("size"); }, code, "without 'size'"},
      {"state", [](Json& s) { block_of(s, 0)["state"] = "idle"; }, code, "state 'idle'"},
      {"state as a number", [](Json& s) { block_of(s, 0)["state"] = 1; }, code, "state"},
      {"type", [](Json& s) { segment_of(s)["segment_type"] = "medium"; }, code, "type 'medium'"},
      {"no type", [](Json& s) { segment_of(s).erase("segment_type"); }, code, "segment_type"},
      {"no address", [](Json& s) { segment_of(s).erase("address"); }, code, "'address'"},
      {"pool",
       [](Json& s) {
         segment_of(s)["segment_pool_id"] = {1, 2, 3};
       },
       code,
       "pair"},
      {"pool below 0",
       [](Json& s) {
         segment_of(s)["segment_pool_id"] = {-1, 0};
       },
       code,
       "pair"},
      {"expandable", [](Json& s) { segment_of(s)["is_expandable"] = 1; }, code, "is_expandable"},
      {"stream", [](Json& s) { segment_of(s)["stream"] = "s"; }, code, "'stream'"},
      {"action", [](Json& s) { entry_of(s, 1)["action"] = 7; }, code, "'action'"},
      {"no addr", [](Json& s) { entry_of(s, 1).erase("addr"); }, code, "without 'addr'"},
      {"entry without size", [](Json& s) { entry_of(s, 1).erase("size"); }, code, "'size'"},
      {"entry below 0", [](Json& s) { entry_of(s, 1)["size"] = -1; }, code, "negative"},
      {"oom without size", [](Json& s) { entry_of(s, 4).erase("size"); }, code, "'size'"},
      {"time", [](Json& s) { entry_of(s, 1)["time_us"] = 1.5; }, code, "'time_us'"},
      {"frames",
       [](Json& s) {
         entry_of(s, 1)["frames"] = {1, 2, 3};
       },
       code,
       "frames"},
      {"frame name", [](Json& s) { entry_of(s, 1)["frames"][0]["name"] = 3; }, code, "frame"},
  });
}

TEST(SnapshotRefusals, OtherShapesThanASnapshot) {
  const ErrorCode code = ErrorCode::kForeign;
  expect_refusals({
      {"number", [](Json& s) { s = 5; }, code, "no memory snapshot"},
      {"text", [](Json& s) { s = "segments"; }, code, "no memory snapshot"},
      {"list of numbers",
       [](Json& s) {
         s = {1, 2, 3};
       },
       code,
       "no memory snapshot"},
      {"list of entries", [](Json& s) { s = s["device_traces"][0]; }, code, "no memory snapshot"},
      {"dict without segments", [](Json& s) { s.erase("segments"); }, code, "no memory snapshot"},
      {"a segment alone", [](Json& s) { s = Json(s["segments"][0]); }, code, "no memory snapshot"},
      {"segments as a number", [](Json& s) { s["segments"] = 7; }, code, "'segments'"},
      {"segments as a dict",
       [](Json& s) {
         s["segments"] = {{"0", 1}};
       },
       code,
       "'segments'"},
      {"entries as segments",
       [](Json& s) { s["segments"] = s["device_traces"][0]; },
       code,
       "'segments'"},
      {"traces as a dict",
       [](Json& s) {
         s["device_traces"] = {{"0", 1}};
       },
       code,
       "traces"},
      {"traces of numbers",
       [](Json& s) {
         s["device_traces"][0] = {1, 2, 3};
       },
       code,
       "traces"},
      {"traces of blocks",
       [](Json& s) { s["device_traces"][0] = s["segments"][0]["blocks"]; },
       code,
       "traces"},
      {"blocks of frames",
       [](Json& s) { segment_of(s)["blocks"] = block_of(s, 0)["frames"]; },
       code,
       "'blocks'"},
  });
}

TEST(SnapshotRefusals, NothingAtAllIsDamaged) {
  const auto recording = read_torch_snapshot({});

  ASSERT_FALSE(recording);
  EXPECT_EQ(recording.error().code, ErrorCode::kDamaged);
  EXPECT_EQ(recording.error().byte_offset, 0U);
}

TEST(SnapshotRefusals, MessagesAreOneLineOfPlainText) {
  Json snapshot = small_snapshot();
  block_of(snapshot, 0)["state"] = "x\n\x1b[31m\xff" + std::string(500, 'y');

  const auto recording = read_json(snapshot);

  ASSERT_FALSE(recording);
  const std::string line = recording.error().describe();
  EXPECT_LT(line.size(), 300U);
  for (const char c : line)
    EXPECT_TRUE(c >= ' ' && c < 127) << line;
}

void expect_quick_refusal(const std::string& bytes, ErrorCode code) {
  const auto start = std::chrono::steady_clock::now();
  const auto recording = read_bytes(bytes);
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
  ASSERT_FALSE(recording);
  EXPECT_EQ(recording.error().code, code) << recording.error().describe();
  EXPECT_LT(spent.count(), 20.0);  // a second and less, but sanitizers are slow
}

TEST(SnapshotRefusals, MoreObjectsThanTheFileCanMean) {
  expect_quick_refusal(PickleWriter().raw(std::string(std::size_t{8} << 20, ']')).bytes(),
                       ErrorCode::kTooLarge);
}

// A list that holds the next one twice, sixty deep, has 2^60 leaves; nobody may visit them.
TEST(SnapshotRefusals, ListsThatUnfoldWithoutEnd) {
  PickleWriter writer;
  writer.op('}').mark().string("segments").op(']').op(0x94);
  for (int depth = 0; depth < 60; ++depth)
    writer.op(']').op(0x94).mark().op('h').byte(depth).op('h').byte(depth).op('e');
  writer.op('t');

  expect_quick_refusal(writer.bytes(), ErrorCode::kDamaged);
}

PickleWriter with_one_frame() {
  PickleWriter writer;
  writer.mark().value(frame("f", "a.py", 1)).op('q').byte(0).op(']');
  return writer;
}

// Stacks are interned, so one that grows by a frame at a time would be copied once for each frame.
TEST(SnapshotRefusals, StacksBuiltOneFrameAtATime) {
  PickleWriter writer = with_one_frame();
  for (int i = 0; i < 20'000; ++i)
    writer.op('h').byte(0).op('a');

  expect_quick_refusal(writer.op('t').stop().bytes(), ErrorCode::kTooLarge);
}

TEST(SnapshotRefusals, StacksWithoutEnd) {
  PickleWriter writer = with_one_frame();
  writer.mark();
  for (int i = 0; i < 70'000; ++i)
    writer.op('h').byte(0);

  expect_quick_refusal(writer.op('e').op('t').stop().bytes(), ErrorCode::kTooLarge);
}

TEST(SnapshotRefusals, ListsThatChangeAfterTheirUse) {
  PickleWriter writer;
  const Json entry_json = entry("alloc", 512, 512);
  writer.op('}').mark().string("segments").op(']').string("device_traces");
  writer.op(']').mark().op(']').op('q').byte(0).mark().value(entry_json).op('e').op('e');
  writer.op('u').op('h').byte(0).value(entry_json).op('a').op(0x86).stop();

  const auto recording = read_bytes(writer.bytes());

  ASSERT_FALSE(recording);
  EXPECT_EQ(recording.error().code, ErrorCode::kDamaged);
  EXPECT_THAT(recording.error().message, HasSubstr("after it was used"));
}

TEST(SnapshotRefusals, DictsFilledTwice) {
  PickleWriter writer;
  writer.op('}').mark().string("segments").op(']').op('u');
  writer.mark().string("segments").op(']').op('u').stop();

  const auto recording = read_bytes(writer.bytes());

  ASSERT_FALSE(recording);
  EXPECT_EQ(recording.error().code, ErrorCode::kDamaged);
  EXPECT_THAT(recording.error().message, HasSubstr("second time"));
}

}  // namespace
}  // namespace fragscope::ingest
