// SPDX-License-Identifier: Apache-2.0
// The address space of one home's expandable segments, as far as a request must know it: what is
// used, free and unmapped, by address. Says how many bytes of pages the driver must give. Used by
// `find_supply` for a state, and by the walk that follows a heap event by event.
#pragma once

#include <cstdint>
#include <vector>

namespace fragscope::verdict {

/// What lies behind the last mapped page; more than any request.
inline constexpr std::uint64_t kEndlessSpace = ~std::uint64_t{0} / 2;

class AddressLayout {
 public:
  /// `page_bytes`: what the driver maps at once.
  explicit AddressLayout(std::uint64_t page_bytes)
      : page_bytes_(page_bytes) {}

  // By address, without a gap between one and the next. Nothing is added for 0 bytes.
  void add_used(std::uint64_t bytes) { add(Kind::kUsed, bytes); }
  void add_unmapped(std::uint64_t bytes) { add(Kind::kUnmapped, bytes); }
  /// Free bytes from `begin` to `end`, counted from a page border.
  void add_free(std::uint64_t begin, std::uint64_t end) { add(Kind::kFree, end - begin); }
  /// The same once their whole pages went back to the driver.
  void add_released(std::uint64_t begin, std::uint64_t end);

  [[nodiscard]] bool has_unmapped() const;
  /// Bytes to map at the first place, by address, where free and unmapped space add up to `size`:
  /// an unmapped stretch with the free one in front of it and whatever free and unmapped follows.
  /// Pages are mapped whole in each unmapped stretch. Without such a place: whole pages for all.
  [[nodiscard]] std::uint64_t pages_to_map(std::uint64_t size) const;

 private:
  enum class Kind : std::uint8_t { kUsed, kFree, kUnmapped };
  struct Stretch {
    Kind kind = Kind::kUsed;
    std::uint64_t bytes = 0;
  };
  void add(Kind kind, std::uint64_t bytes) {
    if (bytes > 0) stretches_.push_back({kind, bytes});
  }

  std::uint64_t page_bytes_;
  std::vector<Stretch> stretches_;
};

}  // namespace fragscope::verdict
