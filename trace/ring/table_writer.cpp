// SPDX-License-Identifier: Apache-2.0
#include "trace/ring/table_writer.hpp"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <limits>

namespace fragscope::trace {
namespace {

constexpr std::uint64_t kMostTableBytes =
    std::uint64_t{8} * std::numeric_limits<std::uint32_t>::max();

std::uint64_t hash_of(TableKind kind, std::span<const std::byte> bytes) {
  // Multiply and fold, eight bytes at a time; the constant is 2^64 divided by the golden ratio.
  constexpr std::uint64_t kOdd = 0x9e3779b97f4a7c15;
  std::uint64_t hash = static_cast<std::uint64_t>(kind) * kOdd ^ bytes.size();
  const auto mix = [&hash](std::uint64_t word) {
    hash = (hash ^ word) * kOdd;
    hash ^= hash >> 32;
  };
  std::size_t at = 0;
  for (; at + sizeof(std::uint64_t) <= bytes.size(); at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof word);
    mix(word);
  }
  std::uint64_t rest = 0;
  if (at < bytes.size()) std::memcpy(&rest, bytes.data() + at, bytes.size() - at);
  mix(rest);
  return hash;
}

template <class Entry>
std::span<const std::byte> bytes_of(const Entry& entry) {
  return std::as_bytes(std::span(&entry, 1));
}

}  // namespace

TableWriter::TableWriter(std::byte* memory)
    : header_(reinterpret_cast<Header*>(memory))
    , table_(memory + header_->table_offset)
    , table_bytes_(std::min(header_->table_bytes, kMostTableBytes))
    // All entries but the empty text have 24 bytes or more, so that one slot at least stays free,
    // at which a search ends.
    , slots_(std::bit_ceil(std::max<std::uint64_t>(table_bytes_ / sizeof(TableEntry), 4)), 0) {}

std::uint32_t TableWriter::text(std::string_view text) {
  return intern(TableKind::kText, std::as_bytes(std::span(text)));
}
std::uint32_t TableWriter::text_within(std::string_view text, std::uint64_t& room) {
  return intern(TableKind::kText, std::as_bytes(std::span(text)), &room);
}
std::uint32_t TableWriter::frame(const FrameIds& frame) {
  return intern(TableKind::kFrame, bytes_of(frame));
}
std::uint32_t TableWriter::stack(std::span<const std::uint32_t> frames) {
  return frames.empty() ? 0 : intern(TableKind::kStack, std::as_bytes(frames));
}
std::uint32_t TableWriter::stream(std::uint64_t handle) {
  return intern(TableKind::kStream, bytes_of(TableStream{handle}));
}
std::uint32_t TableWriter::pool(std::uint64_t first, std::uint64_t second) {
  return intern(TableKind::kPool, bytes_of(TablePool{first, second}));
}
std::uint32_t TableWriter::fact(std::uint32_t name, std::uint32_t value) {
  return intern(TableKind::kFact, bytes_of(TableFact{name, value}));
}

std::uint32_t TableWriter::intern(TableKind kind,
                                  std::span<const std::byte> bytes,
                                  std::uint64_t* room) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash_of(kind, bytes) & mask;
  for (; slots_[slot] != 0; slot = (slot + 1) & mask) {
    const std::uint64_t offset = std::uint64_t{slots_[slot] - 1} * 8;
    if (const std::uint32_t id = match(offset, kind, bytes); id != 0) return id;
  }
  const std::uint64_t size = table_entry_size(bytes.size());
  if (room != nullptr && size > *room) return 0;
  const std::uint64_t offset = used_;
  const std::uint32_t id = append(kind, bytes);
  if (id != 0 && room != nullptr) *room -= size;
  if (id != 0) slots_[slot] = static_cast<std::uint32_t>(offset / 8) + 1;
  return id;
}

// The memory is shared: what is read there decides nothing but whether it is the same.
std::uint32_t TableWriter::match(std::uint64_t offset,
                                 TableKind kind,
                                 std::span<const std::byte> bytes) const {
  if (table_entry_size(bytes.size()) > used_ - offset) return 0;
  TableEntry entry;
  std::memcpy(&entry, table_ + offset, sizeof entry);
  if (entry.kind != kind || entry.bytes != bytes.size()) return 0;
  const std::byte* held = table_ + offset + sizeof entry;
  return std::equal(bytes.begin(), bytes.end(), held) ? entry.id : 0;
}

std::uint32_t TableWriter::append(TableKind kind, std::span<const std::byte> bytes) {
  const std::uint64_t size = table_entry_size(bytes.size());
  // Without a stack a record is still right, without its stream it is not: those keep some room.
  const bool is_needed = kind == TableKind::kStream || kind == TableKind::kPool;
  const std::uint64_t limit = is_needed ? table_bytes_ : table_bytes_ - table_bytes_ / 16;
  if (used_ > limit || bytes.size() > std::numeric_limits<std::uint32_t>::max() ||
      size > limit - used_) {
    std::atomic_ref refused(header_->table_refused);
    refused.store(refused.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    return 0;
  }
  TableEntry entry;
  entry.kind = kind;
  entry.id = next_id_[static_cast<std::size_t>(kind)]++;
  entry.bytes = static_cast<std::uint32_t>(bytes.size());
  std::memcpy(table_ + used_, &entry, sizeof entry);
  if (!bytes.empty()) std::memcpy(table_ + used_ + sizeof entry, bytes.data(), bytes.size());
  used_ += size;
  // Pairs with the load in table_bytes_of: a reader that sees the new end sees the entry.
  std::atomic_ref(header_->table_used).store(used_, std::memory_order_release);
  return entry.id;
}

}  // namespace fragscope::trace
