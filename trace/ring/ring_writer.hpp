// SPDX-License-Identifier: Apache-2.0
// Writes records into a ring in shared memory, inside the user's job: no lock, no system call, no
// heap, nothing that can fail. One writer, who holds the device's lock; readers in any process at
// any time. A record is finished once its commit word stands; a kill at any instruction leaves all
// finished records and at most one that says it is not.
#pragma once

#include "trace/format/header.hpp"
#include "trace/format/record.hpp"

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace fragscope::trace {

class RingWriter {
 public:
  /// `memory` starts with a header whose layout is set, and outlives this. The capacity is a power
  /// of two.
  explicit RingWriter(std::byte* memory)
      : header_(reinterpret_cast<Header*>(memory))
      , slots_(memory + header_->record_offset)
      , mask_(header_->record_capacity - 1)
      , next_(header_->written) {}

  /// Makes the record the next one of the ring, in place of the oldest if it is full.
  /// `record.commit` is not looked at.
  void append(const Record& record) {
    std::byte* slot = slot_of(next_);
    // Each word below is released, so that a reader who took one of them then sees that the record
    // is not finished: pairs with the loads in RingReader::read_slot.
    word(slot, 0).store(writing_word(next_), std::memory_order_relaxed);
    store_words(slot, record);
    word(slot, 0).store(commit_word(next_), std::memory_order_release);
    ++next_;
    counter(&Header::written).store(next_, std::memory_order_release);
    // A slot was last touched a whole ring ago: asked for now, it is there when its turn comes.
    __builtin_prefetch(slot_of(next_ + kSlotsAhead), 1);
  }

  /// Counts a record that had to be left out.
  void count_dropped() { add(&Header::dropped, 1); }

  [[nodiscard]] std::uint64_t written() const { return next_; }
  [[nodiscard]] std::uint64_t capacity() const { return mask_ + 1; }

 private:
  /// More than one call of the policy writes, mostly.
  static constexpr std::uint64_t kSlotsAhead = 8;

  [[nodiscard]] std::byte* slot_of(std::uint64_t number) const {
    return slots_ + (number & mask_) * kRecordBytes;
  }

  /// Word by word, each put together from its fields: fields that were just written one by one and
  /// then read as something wider have to be waited for.
  static void store_words(std::byte* slot, const Record& record) {
    static_assert(std::endian::native == std::endian::little);
    const auto store = [slot](std::size_t index, std::uint64_t value) {
      word(slot, index).store(value, std::memory_order_release);
    };
    store(1, record.ticks);
    store(2, record.address);
    store(3, record.size);
    store(4, record.other);
    store(5, record.stream | std::uint64_t{record.thread} << 32);
    store(6,
          record.stack | std::uint64_t{record.pool} << 32 |
              std::uint64_t{static_cast<std::uint8_t>(record.kind)} << 48 |
              std::uint64_t{record.flags} << 56);
    store(7, record.device | std::uint64_t{record.detail} << 32);
  }

  static std::atomic_ref<std::uint64_t> word(std::byte* slot, std::size_t index) {
    return std::atomic_ref(reinterpret_cast<std::uint64_t*>(slot)[index]);
  }
  std::atomic_ref<std::uint64_t> counter(std::uint64_t Header::*field) {
    return std::atomic_ref(header_->*field);
  }
  void add(std::uint64_t Header::*field, std::uint64_t amount) {
    counter(field).store(counter(field).load(std::memory_order_relaxed) + amount,
                         std::memory_order_relaxed);
  }

  Header* header_;
  std::byte* slots_;
  std::uint64_t mask_;
  std::uint64_t next_;
};

}  // namespace fragscope::trace
