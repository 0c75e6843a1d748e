// SPDX-License-Identifier: Apache-2.0
// The bytes of docs/trace_format.md.
#include "tests/trace/ring_fixture.hpp"

#include <array>
#include <cstring>

namespace fragscope::trace::test {
namespace {

using Format = RingTest;

TEST_F(Format, ARecordIsTheBytesOfTheDocument) {
  RingFile file = create(8);
  RingWriter writer(file.memory());
  writer.append(numbered(0));
  writer.append(numbered(1));
  Record record;
  record.ticks = 7;
  record.address = 0x200000000000;
  record.size = 1024;
  record.other = 1000;
  record.thread = 9;
  record.kind = RecordKind::kAlloc;
  writer.append(record);
  constexpr std::array<unsigned char, kRecordBytes> kExpected = {
      0x03, 0, 0, 0, 0, 0,    0, 0, 0x07, 0,    0, 0, 0,    0, 0, 0,  //
      0,    0, 0, 0, 0, 0x20, 0, 0, 0,    0x04, 0, 0, 0,    0, 0, 0,  //
      0xe8, 3, 0, 0, 0, 0,    0, 0, 0,    0,    0, 0, 0x09, 0, 0, 0,  //
      0,    0, 0, 0, 0, 0,    5, 0, 0,    0,    0, 0, 0,    0, 0, 0};
  EXPECT_EQ(
      std::memcmp(
          file.memory() + kHeaderBytes + 2 * kRecordBytes, kExpected.data(), kExpected.size()),
      0);
}

TEST_F(Format, AHeaderSaysHowItIsLaidOut) {
  const RingFile file = create(8);
  constexpr std::array<unsigned char, 48> kExpected = {
      'F', 'S',  'T', 'R', 'A', 'C',  'E', 0,   // magic
      1,   0,    0,   0,   0,   0x10, 0,   0,   // version, header_bytes
      64,  0,    0,   0,   1,   0,    0,   0,   // record_bytes, state
      0,   0x10, 0,   0,   0,   0,    0,   0,   // record_offset
      8,   0,    0,   0,   0,   0,    0,   0,   // record_capacity
      0,   0x12, 0,   0,   0,   0,    0,   0};  // table_offset
  EXPECT_EQ(std::memcmp(file.memory(), kExpected.data(), kExpected.size()), 0);
}

}  // namespace
}  // namespace fragscope::trace::test
