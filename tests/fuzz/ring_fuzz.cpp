// SPDX-License-Identifier: Apache-2.0
// Any bytes as the memory of a ring: nothing may crash, hang or be read outside of it, and what is
// read is what a plain walk over the slots finds. An input that begins with `S` is not the memory
// itself: it chooses fields of a sound header and words of the records, so that more inputs get
// past the header's checks.
#include "trace/ring/clock.hpp"
#include "trace/ring/ring_reader.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <vector>

namespace {

using fragscope::trace::ClockAnchor;
using fragscope::trace::ClockKind;
using fragscope::trace::commit_word;
using fragscope::trace::Header;
using fragscope::trace::ReadCounts;
using fragscope::trace::Record;
using fragscope::trace::RingReader;
using fragscope::trace::TraceState;
using fragscope::trace::unix_ns_at;
using fragscope::trace::writing_word;

// Not an assert: it has to hold in every kind of build.
void must(bool condition) {
  if (!condition) std::abort();
}

/// Takes numbers from the front of the input; zeros behind its end.
class Input {
 public:
  explicit Input(std::span<const std::uint8_t> bytes)
      : bytes_(bytes) {}

  template <class T>
  T take() {
    T value{};
    const std::size_t size = std::min(sizeof(value), bytes_.size());
    std::memcpy(&value, bytes_.data(), size);
    bytes_ = bytes_.subspan(size);
    return value;
  }

 private:
  std::span<const std::uint8_t> bytes_;
};

/// Memory for words, and no byte longer, so that a sanitizer sees any overrun.
class Memory {
 public:
  explicit Memory(std::size_t size)
      : words_(static_cast<std::byte*>(::operator new(size)))
      , size_(size) {
    std::memset(words_.get(), 0, size);
  }
  [[nodiscard]] std::byte* data() { return words_.get(); }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {words_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* words) const { ::operator delete(words); }
  };
  std::unique_ptr<std::byte, Free> words_;
  std::size_t size_;
};

/// A commit word that stands, or nearly stands, for the record with this number.
std::uint64_t commit_from(Input& input, std::uint64_t number, std::uint64_t capacity) {
  switch (input.take<std::uint8_t>() % 8) {
    case 0:
      return input.take<std::uint64_t>();
    case 1:
      return 0;
    case 2:
      return writing_word(number);
    case 3:
      return commit_word(number + capacity);
    case 4:
      return commit_word(number - capacity);
    default:
      return commit_word(number);
  }
}

Header header_from(Input& input) {
  constexpr std::uint32_t kSizes[] = {64, 72, 128};
  Header header;
  header.header_bytes = sizeof(Header);
  header.state = TraceState::kRecording;
  header.record_offset = sizeof(Header);
  header.record_capacity = std::uint64_t{1} << input.take<std::uint8_t>() % 6;
  header.record_bytes = kSizes[input.take<std::uint8_t>() % std::size(kSizes)];
  header.table_offset = header.record_offset + header.record_capacity * header.record_bytes;
  header.written = input.take<std::uint8_t>() % 2 == 0 ? input.take<std::uint8_t>()
                                                       : input.take<std::uint64_t>();
  header.clock = static_cast<ClockKind>(input.take<std::uint8_t>() % 3);
  header.first_anchor = input.take<ClockAnchor>();
  header.last_anchor = input.take<ClockAnchor>();
  return header;
}

Memory memory_from(Input input) {
  const Header header = header_from(input);
  const std::uint64_t capacity = header.record_capacity;
  Memory memory(header.table_offset);
  std::memcpy(memory.data(), &header, sizeof(header));
  const std::uint64_t first = header.written - std::min(header.written, capacity);
  for (std::uint64_t number = first; number - first < capacity; ++number) {
    auto record = input.take<Record>();
    record.commit = commit_from(input, number, capacity);
    std::memcpy(memory.data() + header.record_offset + number % capacity * header.record_bytes,
                &record,
                sizeof(record));
  }
  return memory;
}

Record slot(std::span<const std::byte> memory, const Header& header, std::uint64_t number) {
  Record record;
  const std::uint64_t index = number % header.record_capacity;
  std::memcpy(
      &record, memory.data() + header.record_offset + index * header.record_bytes, sizeof(record));
  return record;
}

/// What the walk finds: the numbers of all records that stand among the last ones written.
std::vector<std::uint64_t> standing(std::span<const std::byte> memory, const Header& header) {
  std::vector<std::uint64_t> numbers;
  const std::uint64_t first = header.written - std::min(header.written, header.record_capacity);
  for (std::uint64_t number = first; number < header.written; ++number) {
    if (slot(memory, header, number).commit == commit_word(number)) numbers.push_back(number);
  }
  return numbers;
}

/// Everything up to `written`, then what may stand behind it.
void read_all(std::span<const std::byte> memory, RingReader reader) {
  const Header header = reader.header();
  const std::uint64_t start = reader.position();
  const auto check = [&](const Record& record) {
    const std::uint64_t number = reader.position() - 1;
    const Record held = slot(memory, header, number);
    must(record.commit == commit_word(number));
    must(std::memcmp(&record, &held, sizeof(record)) == 0);
    static_cast<void>(unix_ns_at(header, record.ticks));
  };
  const std::vector<std::uint64_t> expected = standing(memory, header);
  std::size_t read = 0;
  while (const auto record = reader.next()) {
    check(*record);
    must(read < expected.size() && record->commit == commit_word(expected[read]));
    ++read;
  }
  must(read == expected.size() && reader.position() == header.written);

  // A slot holds one record, so there can be no more than slots.
  std::uint64_t behind = 0;
  while (const auto record = reader.next_after_end()) {
    check(*record);
    must(record->commit == commit_word(header.written + behind));
    must(++behind + read <= header.record_capacity);
  }
  const ReadCounts& counts = reader.counts();
  must(counts.records == read + behind && counts.torn <= 1);
  must(reader.position() - start ==
       counts.records + counts.overwritten + counts.torn + counts.damaged);
}

void read_memory(std::span<const std::byte> memory) {
  const auto reader = RingReader::open(memory);
  if (!reader) {
    must(!reader.error().message.empty());
    return;
  }
  // Numbers with the highest bit set belong to no record, so the walk knows nothing of them.
  if (reader->header().written >> 63 == 0) read_all(memory, *reader);
  RingReader at_once = *reader;
  std::uint64_t read = 0;
  while (at_once.next_after_end())
    must(++read <= at_once.header().record_capacity);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size > 0 && data[0] == 'S') {
    read_memory(memory_from(Input({data + 1, size - 1})).bytes());
    return 0;
  }
  Memory memory(size);
  if (size > 0) std::memcpy(memory.data(), data, size);
  read_memory(memory.bytes());
  return 0;
}
