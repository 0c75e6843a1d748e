// SPDX-License-Identifier: Apache-2.0
// Writes the corpus of ring_fuzz into the folder named, the same in every build: rings as the
// writer makes them and stops in, small ones, and inputs of the form that the target calls
// structured.
#include "trace/ring/ring_writer.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace {

using fragscope::trace::ClockAnchor;
using fragscope::trace::ClockKind;
using fragscope::trace::Header;
using fragscope::trace::kRecordBytes;
using fragscope::trace::Record;
using fragscope::trace::RecordKind;
using fragscope::trace::RingWriter;
using fragscope::trace::TraceState;
using fragscope::trace::writing_word;

constexpr std::uint64_t kCapacity = 4;

Header sound_header(ClockKind clock) {
  Header header;
  header.header_bytes = sizeof(Header);
  header.state = TraceState::kRecording;
  header.record_offset = sizeof(Header);
  header.record_capacity = kCapacity;
  header.table_offset = sizeof(Header) + kCapacity * kRecordBytes;
  header.table_bytes = 64;
  header.clock = clock;
  header.first_anchor = {3'000'000'000, 1'000'000'000, 1'790'000'000'000'000'000};
  header.last_anchor = {9'000'000'000, 3'000'000'000, 1'790'000'002'000'000'000};
  return header;
}

/// A ring after this many records.
std::vector<std::byte> ring(const Header& header, std::uint64_t records) {
  std::vector<std::byte> memory(header.table_offset + header.table_bytes);
  std::memcpy(memory.data(), &header, sizeof(header));
  RingWriter writer(memory.data());
  for (std::uint64_t i = 0; i < records; ++i) {
    Record record;
    record.ticks = 3'000'000'000 + i * 1000;
    record.address = 0x200000000000 + i * 512;
    record.size = 512;
    record.other = 500;
    record.kind = i % 2 == 0 ? RecordKind::kAlloc : RecordKind::kFreeRequested;
    writer.append(record);
  }
  return memory;
}

/// The same ring with its count of finished records set back or on, as a kill or a fault leaves it.
std::vector<std::byte> with_written(std::vector<std::byte> memory, std::uint64_t written) {
  std::memcpy(memory.data() + offsetof(Header, written), &written, sizeof(written));
  return memory;
}

std::vector<std::byte> with_commit(std::vector<std::byte> memory,
                                   std::uint64_t number,
                                   std::uint64_t commit) {
  std::memcpy(
      memory.data() + sizeof(Header) + number % kCapacity * kRecordBytes, &commit, sizeof(commit));
  return memory;
}

/// `S`, then what the target takes: capacity, record bytes, written, clock, anchors, records.
std::vector<std::byte> structured(std::uint8_t written, std::uint8_t commit) {
  const ClockAnchor anchors[] = {{3000, 1000, 5000}, {9'000'000'000, 3'000'000'000, 7000}};
  constexpr std::size_t kFields = 6;
  constexpr std::size_t kRecord = kRecordBytes + 1;
  std::vector<std::byte> input(kFields + sizeof(anchors) + kCapacity * kRecord, std::byte{7});
  const std::uint8_t fields[kFields] = {'S', 2, 0, 0, written, 1};
  std::memcpy(input.data(), fields, kFields);
  std::memcpy(input.data() + kFields, anchors, sizeof(anchors));
  for (std::uint64_t end = kFields + sizeof(anchors) + kRecord; end <= input.size(); end += kRecord)
    input[end - 1] = std::byte{commit};
  return input;
}

void write_file(const std::filesystem::path& path, const std::vector<std::byte>& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.exceptions(std::ios::failbit | std::ios::badbit);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
}

void write_all(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  const Header header = sound_header(ClockKind::kTsc);
  write_file(folder / "empty", ring(header, 0));
  write_file(folder / "few", ring(header, 3));
  write_file(folder / "full", ring(sound_header(ClockKind::kMonotonicNs), 11));
  write_file(folder / "finished_not_counted", with_written(ring(header, 6), 5));
  write_file(folder / "torn", with_commit(ring(header, 6), 6, writing_word(6)));
  write_file(folder / "damaged", with_commit(ring(header, 6), 4, 8));
  write_file(folder / "far_ahead", with_written(ring(header, 6), std::uint64_t{1} << 62));
  write_file(folder / "beyond_all_numbers", with_written(ring(header, 0), ~std::uint64_t{0}));
  Header longer = header;
  longer.record_bytes = 2 * kRecordBytes;
  longer.record_capacity = kCapacity / 2;
  write_file(folder / "longer_records", ring(longer, 1));
  Header later = header;
  later.version_major = 2;
  write_file(folder / "later_version", ring(later, 1));
  std::vector<std::byte> cut = ring(header, 6);
  cut.resize(cut.size() - kRecordBytes - 1);
  write_file(folder / "cut_short", cut);
  for (std::uint8_t commit = 0; commit < 6; ++commit)
    write_file(folder / ("structured_" + std::to_string(commit)), structured(9, commit));
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 2) {
      std::fputs("name the folder to write to\n", stderr);
      return 1;
    }
    write_all(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
