// SPDX-License-Identifier: Apache-2.0
// Plain allocators over one contiguous range of memory, for comparison: no pools, no streams, no
// segments, nothing cached by size. What a program needs under one of them, against what it needs
// under PyTorch's rules, is what those rules cost (or save).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

namespace fragscope::whatif {

enum class ArenaKind : std::uint8_t {
  kBestFit,     ///< The smallest hole that is large enough; the lowest of several.
  kTlsf,        ///< Two-level segregated fit (Masmano, Ripoll, Crespo and Real, 2004), 32 classes
                ///< for each power of two: the newest hole of the lowest class that surely fits.
  kBuddy,       ///< Binary buddies: sizes rounded to a power of two (Knowlton, 1965).
  kNeverReuse,  ///< Nothing is ever used twice: the sum of all requests.
};

/// "best-fit", as the command line spells it; none for other texts.
[[nodiscard]] std::optional<ArenaKind> arena_kind(std::string_view name);
[[nodiscard]] std::string_view to_string(ArenaKind kind);
[[nodiscard]] std::span<const ArenaKind> all_arena_kinds();

/// What every block begins and ends at a multiple of: PyTorch's smallest block, so that rounding is
/// the same for all policies.
inline constexpr std::uint64_t kArenaGrain = 512;

/// Blocks are known by their offset. Not thread-safe.
class Arena {
 public:
  Arena() = default;
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;
  virtual ~Arena() = default;

  /// Of at least so many bytes (not 0), below `capacity`; none if there is no place.
  [[nodiscard]] virtual std::optional<std::uint64_t> allocate(std::uint64_t bytes,
                                                              std::uint64_t capacity) = 0;
  /// A block that `allocate` gave, once.
  virtual void free(std::uint64_t offset) = 0;
  /// What a block of so many bytes takes.
  [[nodiscard]] virtual std::uint64_t block_bytes(std::uint64_t bytes) const;
  /// The largest hole below `end()`.
  [[nodiscard]] virtual std::uint64_t largest_hole() const = 0;

  /// The end of the highest block there ever was: what the arena has taken so far.
  [[nodiscard]] std::uint64_t end() const { return end_; }
  /// In blocks that are not free.
  [[nodiscard]] std::uint64_t used_bytes() const { return used_bytes_; }

 protected:
  void take(std::uint64_t begin, std::uint64_t size);
  void give_back(std::uint64_t size) { used_bytes_ -= size; }

 private:
  std::uint64_t end_ = 0;
  std::uint64_t used_bytes_ = 0;
};

[[nodiscard]] std::unique_ptr<Arena> make_arena(ArenaKind kind);

}  // namespace fragscope::whatif
