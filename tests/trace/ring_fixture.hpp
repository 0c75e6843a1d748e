// SPDX-License-Identifier: Apache-2.0
// A ring in a temporary file, and records whose every field follows from their number.
#pragma once

#include "trace/process/identity.hpp"
#include "trace/ring/ring_file.hpp"
#include "trace/ring/ring_reader.hpp"
#include "trace/ring/ring_writer.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>

namespace fragscope::trace::test {

/// The record with this number as the tests write it.
inline Record numbered(std::uint64_t number) {
  Record record;
  record.ticks = number * 3;
  record.address = number * 512;
  record.size = number ^ 0x5555U;
  record.other = ~number;
  record.stream = static_cast<std::uint32_t>(number * 7);
  record.thread = static_cast<std::uint32_t>(number >> 3);
  record.stack = static_cast<std::uint32_t>(number * 11);
  record.pool = static_cast<std::uint16_t>(number);
  record.kind = RecordKind::kAlloc;
  record.flags = static_cast<std::uint8_t>(number & 63U);
  return record;
}

/// Whether a record is the one with its number, whole.
inline ::testing::AssertionResult is_whole(const Record& record) {
  const std::uint64_t number = record.commit - 1;
  Record expected = numbered(number);
  expected.commit = commit_word(number);
  if (std::memcmp(&expected, &record, sizeof(record)) == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "record " << number << " is not what was written";
}

class RingTest : public ::testing::Test {
 public:
  RingTest()
      : path_((std::filesystem::temp_directory_path() /
               ("fragscope_ring_" + std::to_string(getpid()) + "_" +
                ::testing::UnitTest::GetInstance()->current_test_info()->name()))
                  .string()) {
    std::filesystem::remove(path_);
  }
  ~RingTest() override { std::filesystem::remove(path_); }
  RingTest(const RingTest&) = delete;
  RingTest& operator=(const RingTest&) = delete;

 protected:
  [[nodiscard]] RingFile create(std::uint64_t capacity) {
    RingOptions options;
    options.process = this_process();
    options.record_capacity = capacity;
    options.table_bytes = 4096;
    auto file = RingFile::create(path_, options);
    EXPECT_TRUE(file) << file.error().describe();
    return std::move(*file);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace fragscope::trace::test
