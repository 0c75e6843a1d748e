// SPDX-License-Identifier: Apache-2.0
// Writes the corpus of trace_fuzz into the folder named, the same in every build: small traces
// whole, packed, cut, with gaps, and inputs of the form that the target calls structured.
#include "tests/support/trace_builder.hpp"
#include "tests/trace_file/some_trace.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

namespace {

using fragscope::test::Bytes;
using fragscope::test::kBase;
using fragscope::test::kSegment;
using fragscope::test::numbered;
using fragscope::test::record;
using fragscope::test::some_table;
using fragscope::test::TableBuilder;
using fragscope::test::trace_header;
using fragscope::test::TraceBuilder;
using fragscope::trace::ChunkCodec;
using fragscope::trace::ChunkHeader;
using fragscope::trace::Record;
using fragscope::trace::RecordKind;

std::vector<Record> some_records() {
  return {record(RecordKind::kSegmentAlloc, {kBase, kSegment, 0}),
          record(RecordKind::kSplit, {kBase, 512, kSegment - 512}),
          record(RecordKind::kAlloc, {kBase, 512, 100}),
          record(RecordKind::kFreeRequested, {kBase, 512, 100}),
          record(RecordKind::kDeviceMemory, {1024, std::uint64_t{1} << 30, 0}),
          record(RecordKind::kOutOfMemory, {1024, kSegment * 2, kSegment * 2 - 1}, 1),
          record(RecordKind::kFreeCompleted, {kBase, 512, 100}),
          record(RecordKind::kMerge, {kBase, kSegment, kBase + 512})};
}

std::vector<Record> some_keyframe() {
  using fragscope::trace::RecordFlag;
  return {record(RecordKind::kKeyframeBegin, {4, 2, kSegment}),
          record(RecordKind::kKeyframeBlock,
                 {kBase, 512, 100},
                 RecordFlag::kFlagFirst | RecordFlag::kFlagAllocated),
          record(RecordKind::kKeyframeBlock, {kBase + 512, kSegment - 512, 0}),
          record(RecordKind::kKeyframeEnd, {4, 2, 0}),
          record(RecordKind::kOutOfMemory, {1024, kSegment * 2, kSegment * 2 - 1}, 1)};
}

void write_file(const std::filesystem::path& path, const Bytes& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.exceptions(std::ios::failbit | std::ios::badbit);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

void write_files(const std::filesystem::path& folder) {
  const auto records = numbered(some_records());
  const auto later = numbered(some_keyframe(), 100);
  for (const ChunkCodec codec : {ChunkCodec::kPlain, ChunkCodec::kZstd}) {
    const std::string suffix = codec == ChunkCodec::kPlain ? "" : "_zstd";
    TraceBuilder whole(trace_header(), codec);
    whole.table(some_table()).records(records).end();
    write_file(folder / ("whole" + suffix), whole.bytes());
    TraceBuilder gap(trace_header(), codec);
    gap.table(some_table()).records(records).records(later).end();
    write_file(folder / ("gap" + suffix), gap.bytes());
    Bytes cut = gap.bytes();
    cut.resize(cut.size() - 1600);
    write_file(folder / ("cut" + suffix), cut);
  }
  TraceBuilder came_round;
  came_round.table(some_table()).records(later).end();
  write_file(folder / "came_round", came_round.bytes());
  ChunkHeader unknown;
  unknown.kind = static_cast<fragscope::trace::ChunkKind>(9);
  unknown.bytes = unknown.stored = sizeof(Record);
  TraceBuilder with_unknown;
  with_unknown.chunk(unknown, std::as_bytes(std::span(records).first(1))).records(records);
  write_file(folder / "unknown_chunk", with_unknown.bytes());
}

/// `S`, then what the target takes.
void write_structured(const std::filesystem::path& folder) {
  std::mt19937 draw(7);
  for (int i = 0; i < 12; ++i) {
    Bytes input{std::byte{'S'}};
    for (int byte = 0; byte < 300 + 100 * i; ++byte)
      input.push_back(static_cast<std::byte>(draw()));
    write_file(folder / ("structured_" + std::to_string(i)), input);
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2) {
      std::fputs("name the folder to write to\n", stderr);
      return 1;
    }
    std::filesystem::create_directories(argv[1]);
    write_files(argv[1]);
    write_structured(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
