// SPDX-License-Identifier: Apache-2.0
#include "analyzer/whatif/arena/arena.hpp"

#include "analyzer/whatif/arena/buddy_arena.hpp"
#include "analyzer/whatif/arena/coalescing_arena.hpp"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <array>

namespace fragscope::whatif {
namespace {

constexpr std::array kKinds = {
    ArenaKind::kBestFit, ArenaKind::kTlsf, ArenaKind::kBuddy, ArenaKind::kNeverReuse};

class NeverReusingArena final : public Arena {
 public:
  std::optional<std::uint64_t> allocate(std::uint64_t bytes, std::uint64_t capacity) override {
    const std::uint64_t begin = end();
    const std::uint64_t size = block_bytes(bytes);
    if (begin + size > capacity) return std::nullopt;
    sizes_[begin] = size;
    take(begin, size);
    return begin;
  }
  void free(std::uint64_t offset) override {
    const auto block = sizes_.find(offset);
    give_back(block->second);
    sizes_.erase(block);
  }
  [[nodiscard]] std::uint64_t largest_hole() const override { return 0; }

 private:
  absl::flat_hash_map<std::uint64_t, std::uint64_t> sizes_;
};

}  // namespace

std::optional<ArenaKind> arena_kind(std::string_view name) {
  const auto found =
      std::ranges::find(kKinds, name, [](ArenaKind kind) { return to_string(kind); });
  return found == kKinds.end() ? std::nullopt : std::optional(*found);
}

std::string_view to_string(ArenaKind kind) {
  switch (kind) {
    case ArenaKind::kBestFit:
      return "best-fit";
    case ArenaKind::kTlsf:
      return "tlsf";
    case ArenaKind::kBuddy:
      return "buddy";
    case ArenaKind::kNeverReuse:
      return "never-reuse";
  }
  return "?";
}

std::span<const ArenaKind> all_arena_kinds() {
  return kKinds;
}

std::uint64_t Arena::block_bytes(std::uint64_t bytes) const {
  return (bytes + kArenaGrain - 1) / kArenaGrain * kArenaGrain;
}

void Arena::take(std::uint64_t begin, std::uint64_t size) {
  end_ = std::max(end_, begin + size);
  used_bytes_ += size;
}

std::unique_ptr<Arena> make_arena(ArenaKind kind) {
  switch (kind) {
    case ArenaKind::kBestFit:
      return std::make_unique<CoalescingArena<BestFit>>();
    case ArenaKind::kTlsf:
      return std::make_unique<CoalescingArena<SegregatedFit>>();
    case ArenaKind::kBuddy:
      return std::make_unique<BuddyArena>();
    case ArenaKind::kNeverReuse:
      return std::make_unique<NeverReusingArena>();
  }
  return nullptr;
}

}  // namespace fragscope::whatif
