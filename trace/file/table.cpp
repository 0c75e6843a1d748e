// SPDX-License-Identifier: Apache-2.0
#include "trace/file/table.hpp"

#include <cstring>

namespace fragscope::trace {

void Table::extend(std::span<const std::byte> bytes) {
  bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  if (damage_.empty()) parse();
}

void Table::parse() {
  while (bytes_.size() - parsed_ >= sizeof(TableEntry)) {
    TableEntry entry;
    std::memcpy(&entry, bytes_.data() + parsed_, sizeof entry);
    const std::uint64_t size = table_entry_size(entry.bytes);
    if (size > bytes_.size() - parsed_) return;
    const auto kind = static_cast<std::size_t>(entry.kind);
    // Kinds that come later are passed over.
    if (kind > 0 && kind < kKinds) {
      if (entry.id != places_[kind].size() + 1) {
        damage_ = "table, byte " + std::to_string(parsed_) + ": expected id " +
                  std::to_string(places_[kind].size() + 1) + ", found " + std::to_string(entry.id);
        return;
      }
      places_[kind].push_back({parsed_ + sizeof entry, entry.bytes});
    }
    parsed_ += size;
  }
}

std::size_t Table::count(TableKind kind) const {
  return places_[static_cast<std::size_t>(kind)].size();
}

std::span<const std::byte> Table::entry(TableKind kind, std::uint64_t id) const {
  const auto& places = places_[static_cast<std::size_t>(kind)];
  if (id == 0 || id > places.size()) return {};
  const Place& place = places[id - 1];
  return std::span(bytes_).subspan(place.offset, place.bytes);
}

template <class Entry>
Entry Table::entry_as(TableKind kind, std::uint64_t id) const {
  Entry value;
  const auto bytes = entry(kind, id);
  if (bytes.size() >= sizeof value) std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

std::string_view Table::text(std::uint64_t id) const {
  const auto bytes = entry(TableKind::kText, id);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
TableFrame Table::frame(std::uint32_t id) const {
  return entry_as<TableFrame>(TableKind::kFrame, id);
}
std::uint64_t Table::stream(std::uint32_t id) const {
  return entry_as<TableStream>(TableKind::kStream, id).handle;
}
TablePool Table::pool(std::uint32_t id) const {
  return entry_as<TablePool>(TableKind::kPool, id);
}
TableFact Table::fact(std::uint32_t id) const {
  return entry_as<TableFact>(TableKind::kFact, id);
}

std::vector<std::uint32_t> Table::stack(std::uint32_t id) const {
  const auto bytes = entry(TableKind::kStack, id);
  std::vector<std::uint32_t> frames(bytes.size() / sizeof(std::uint32_t));
  if (!frames.empty()) std::memcpy(frames.data(), bytes.data(), frames.size() * sizeof frames[0]);
  return frames;
}

}  // namespace fragscope::trace
