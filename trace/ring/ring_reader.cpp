// SPDX-License-Identifier: Apache-2.0
#include "trace/ring/ring_reader.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <string>

namespace fragscope::trace {
namespace {

// Read-only memory is atomically readable, but std::atomic_ref takes no const type.
std::uint64_t load(const std::byte* at, std::memory_order order) {
  auto* word = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(at));
  return std::atomic_ref(*word).load(order);
}

/// Whether `count` things of `size` bytes from `offset` on lie within `total` bytes.
bool fits(std::uint64_t offset, std::uint64_t count, std::uint64_t size, std::uint64_t total) {
  return offset <= total && size > 0 && count <= (total - offset) / size;
}

std::string version_text(std::uint16_t major, std::uint16_t minor) {
  return std::to_string(major) + "." + std::to_string(minor);
}

bool is_sound(const Header& header, std::uint64_t size) {
  if (header.header_bytes < sizeof(Header) || header.header_bytes > size ||
      header.record_bytes < kRecordBytes || header.record_bytes % 8 != 0) {
    return false;
  }
  if (header.form == TraceForm::kFile) return true;
  return header.form == TraceForm::kRing && header.record_offset >= header.header_bytes &&
         header.record_offset % 8 == 0 && std::has_single_bit(header.record_capacity) &&
         fits(header.record_offset, header.record_capacity, header.record_bytes, size) &&
         fits(header.table_offset, header.table_bytes, 1, size);
}

}  // namespace

Result<Header> read_header(std::span<const std::byte> memory) {
  return read_header(memory, memory.size());
}

Result<Header> read_header(std::span<const std::byte> memory, std::uint64_t total_bytes) {
  if (memory.size() < sizeof(Header)) {
    return failure(
        ErrorCode::kDamaged,
        "expected a trace header, found only " + std::to_string(memory.size()) + " bytes");
  }
  std::array<std::uint64_t, sizeof(Header) / sizeof(std::uint64_t)> words{};
  const auto read_word = [&](std::size_t i) {
    words[i] = load(memory.data() + i * sizeof(std::uint64_t), std::memory_order_acquire);
  };
  // The state first: it is written last, so whatever it vouches for is read after it.
  constexpr std::size_t kStateWord = offsetof(Header, state) / sizeof(std::uint64_t);
  read_word(kStateWord);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i != kStateWord) read_word(i);
  }
  const auto header = std::bit_cast<Header>(words);

  if (header.magic != kMagic) return failure(ErrorCode::kForeign, "this is not a fragscope trace");
  if (header.version_major != kVersionMajor) {
    return failure(ErrorCode::kForeign,
                   "the trace has version " +
                       version_text(header.version_major, header.version_minor) +
                       ", this program reads " + version_text(kVersionMajor, kVersionMinor));
  }
  if (header.state == TraceState::kStarting) {
    return failure(ErrorCode::kDamaged, "the trace's writer ended before it had set it up");
  }
  if (!is_sound(header, total_bytes)) {
    return failure(ErrorCode::kDamaged,
                   "the trace's header says that its parts lie where the file has none");
  }
  return header;
}

Result<RingReader> RingReader::open(std::span<const std::byte> memory) {
  auto header = read_header(memory);
  if (!header) return tl::unexpected(std::move(header.error()));
  if (header->form != TraceForm::kRing) {
    return failure(ErrorCode::kForeign, "expected a ring, found a trace file");
  }
  return RingReader(memory, *header);
}

RingReader::RingReader(std::span<const std::byte> memory, const Header& header)
    : memory_(memory)
    , header_(header) {
  end_ = written();
  position_ = end_ - std::min(end_, header_.record_capacity);
}

std::uint64_t RingReader::written() const {
  // No record has a number with the highest bit, and the one after the last number would be 0.
  constexpr std::uint64_t kMost = ~std::uint64_t{0} >> 1;
  return std::min(kMost,
                  load(memory_.data() + offsetof(Header, written), std::memory_order_acquire));
}

RingReader::Slot RingReader::read_slot(std::uint64_t number, Record& record) const {
  const std::byte* slot = memory_.data() + header_.record_offset +
                          number % header_.record_capacity * header_.record_bytes;
  std::array<std::uint64_t, kRecordBytes / sizeof(std::uint64_t)> words{};
  words[0] = load(slot, std::memory_order_acquire);
  for (std::size_t i = 1; i < words.size(); ++i)
    words[i] = load(slot + i * sizeof(std::uint64_t), std::memory_order_acquire);
  // Not before the words: they were acquired. Pairs with the stores in RingWriter::append.
  const std::uint64_t after = load(slot, std::memory_order_relaxed);

  if (after == commit_word(number) && words[0] == after) {
    record = std::bit_cast<Record>(words);
    return Slot::kFinished;
  }
  if (after == writing_word(number)) return Slot::kWriting;
  const std::uint64_t held = after & ~(std::uint64_t{1} << 63);
  // Only rounds of this very slot can stand here.
  if (held != 0 && (held - commit_word(number)) % header_.record_capacity != 0) {
    return Slot::kDamaged;
  }
  return held > commit_word(number) ? Slot::kNewer : Slot::kOlder;
}

void RingReader::refresh_end() {
  end_ = written();
  if (end_ < position_ || end_ - position_ <= header_.record_capacity) return;
  const std::uint64_t oldest = end_ - header_.record_capacity;
  counts_.overwritten += oldest - position_;
  position_ = oldest;
}

std::optional<Record> RingReader::next() {
  Record record;
  // A bound, since the other side may be hostile and run away for ever.
  for (std::uint64_t tried = 0; tried < header_.record_capacity; ++tried) {
    // Asked for only where it may have changed: the writer stores it with every record, and takes
    // longer if somebody looks all the time.
    if (position_ >= end_) refresh_end();
    if (position_ >= end_) return std::nullopt;
    const Slot slot = read_slot(position_, record);
    ++position_;
    if (slot == Slot::kFinished) {
      ++counts_.records;
      return record;
    }
    refresh_end();
    // It is counted as written, so it was finished once: a later round is there, or nothing sound.
    if (slot == Slot::kNewer || slot == Slot::kWriting) {
      ++counts_.overwritten;
    } else {
      ++counts_.damaged;
    }
  }
  return std::nullopt;
}

std::vector<std::byte> RingReader::table_from(std::uint64_t offset) const {
  const std::uint64_t used =
      std::min(load(memory_.data() + offsetof(Header, table_used), std::memory_order_acquire),
               header_.table_bytes);
  if (offset >= used) return {};
  const auto bytes = memory_.subspan(header_.table_offset + offset, used - offset);
  return {bytes.begin(), bytes.end()};
}

std::optional<Record> RingReader::next_after_end() {
  if (auto record = next()) return record;
  // A writer finishes a record and counts it before it begins another.
  if (position_ != end_) return std::nullopt;
  Record record;
  switch (read_slot(position_, record)) {
    case Slot::kFinished:
      ++position_;
      ++counts_.records;
      return record;
    case Slot::kWriting:
      ++position_;
      ++counts_.torn;
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace fragscope::trace
