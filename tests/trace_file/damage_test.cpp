// SPDX-License-Identifier: Apache-2.0
// A file cut at every byte, and with every byte changed: nothing crashes or hangs, and what cannot
// be read is named.
#include "analyzer/model/trace/trace_history.hpp"
#include "tests/support/result_matchers.hpp"
#include "tests/trace_file/some_trace.hpp"
#include "trace/file/trace_reader.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace fragscope::trace {
namespace {

using model::Recording;
using model::TraceHistory;
using test::Bytes;
using test::FailsWith;
using test::IsOk;
using test::numbered;

bool has_signal(const Recording& recording, std::string_view signal) {
  return std::ranges::count(recording.trust, signal, &model::TrustSignal::signal) > 0;
}

/// What a reader makes of bytes: its state at the end, the signals, or the error.
struct Outcome {
  bool is_read = false;
  std::size_t failures = 0;
  Recording recording;
};

Outcome outcome_of(std::span<const std::byte> bytes) {
  Outcome outcome;
  const auto history = TraceHistory::open(bytes, outcome.recording);
  if (!history) {
    EXPECT_NE(history.error().message, "");
    return outcome;
  }
  outcome.is_read = true;
  outcome.failures = (*history)->failed_requests().size();
  return outcome;
}

class DamagedTrace : public ::testing::TestWithParam<ChunkCodec> {};

TEST_P(DamagedTrace, IsReadUpToItsLastWholeChunkWhereverItIsCut) {
  const Bytes whole = test::some_trace(GetParam());
  auto reader = TraceReader::open(whole);
  ASSERT_THAT(reader, IsOk());
  const auto end_of = [&](std::size_t chunk) { return (reader->end_of_chunk(chunk) + 7) / 8 * 8; };

  for (std::size_t size = 0; size < whole.size(); ++size) {
    const Outcome cut = outcome_of(std::span(whole).first(size));

    const std::size_t want = size >= end_of(1) ? 2 : size >= end_of(0) ? 1 : 0;
    ASSERT_EQ(cut.is_read, want > 0) << size;
    ASSERT_EQ(cut.failures, want) << size;
    ASSERT_EQ(has_signal(cut.recording, "cut-short"), want > 0) << size;
  }
}

TEST_P(DamagedTrace, NamesWhatIsWrongWhicheverByteChanged) {
  const Bytes whole = test::some_trace(GetParam());
  const bool is_packed = GetParam() == ChunkCodec::kZstd;
  std::size_t unnoticed = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (const int change : {1, 0x80, 0xff}) {
      Bytes changed = whole;
      changed[at] ^= static_cast<std::byte>(change);

      const Outcome outcome = outcome_of(changed);

      // Packed parts have a sum to check by, and their headers contradict each other if changed.
      const bool is_noticed = !outcome.is_read || !outcome.recording.trust.empty();
      if (at >= kHeaderBytes && !is_noticed) ++unnoticed;
    }
  }
  // Plain values have nothing to tell by; of the packed form only padding, bits that unpack to the
  // same, and the number that says how long the file should be, if it became smaller.
  EXPECT_LE(unnoticed, is_packed ? 100U : whole.size());
}

TEST_P(DamagedTrace, LosesOnlyTheDamagedPart) {
  test::TraceBuilder builder(test::trace_header(), GetParam());
  builder.records(numbered(test::some_records()))
      .records(numbered(test::some_records(), 4))
      .records(numbered(test::some_keyframe(), 8))
      .end();
  auto reader = TraceReader::open(builder.bytes());
  ASSERT_THAT(reader, IsOk());
  Bytes changed = builder.bytes();
  // The first record's commit word; packed, the checksum.
  const std::uint64_t at = GetParam() == ChunkCodec::kZstd
                               ? reader->end_of_chunk(1) - 1
                               : reader->end_of_chunk(1) - 4 * kRecordBytes;
  changed[at] ^= std::byte{0x10};

  Recording recording;
  const auto history = TraceHistory::open(changed, recording);

  ASSERT_THAT(history, IsOk());
  EXPECT_EQ((*history)->failed_requests().size(), 2U);
  EXPECT_TRUE(has_signal(recording, "damaged-chunk"));
  EXPECT_TRUE(has_signal(recording, "lost-records"));
  EXPECT_TRUE((*history)->is_known_before(4));
  EXPECT_FALSE((*history)->is_known_before(5));
  EXPECT_FALSE((*history)->is_known_before(11));
  EXPECT_TRUE((*history)->is_known_before(12));
}

INSTANTIATE_TEST_SUITE_P(Codecs,
                         DamagedTrace,
                         ::testing::Values(ChunkCodec::kPlain, ChunkCodec::kZstd));

}  // namespace
}  // namespace fragscope::trace
