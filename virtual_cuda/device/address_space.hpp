// SPDX-License-Identifier: Apache-2.0
// Hands out addresses of one window by a rule that gives the same addresses in every run: first
// fit, ascending. Pure arithmetic; nothing is mapped here. One per device and one for pinned host
// memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace fragscope::virtual_cuda {

/// Bytes [begin, begin + size_bytes).
struct AddressRange {
  std::uint64_t begin = 0;
  std::uint64_t size_bytes = 0;

  [[nodiscard]] std::uint64_t end() const { return begin + size_bytes; }
  [[nodiscard]] bool contains(std::uint64_t address) const {
    return address >= begin && address - begin < size_bytes;
  }
  friend bool operator==(const AddressRange&, const AddressRange&) = default;
};

/// What is asked of an address space; sizes and alignments are multiples of its granularity.
struct AddressRequest {
  std::uint64_t size_bytes = 0;
  std::uint64_t alignment_bytes = 0;  ///< 0: the granularity.
};

/// The rule: a request gets the lowest address at which it fits, and what is given back can be
/// handed out again at once. Every size is rounded up to the granularity. So the address of a
/// request follows from the calls before it and from nothing else.
///
/// Cost: linear in the number of holes.
class AddressSpace {
 public:
  /// The window's bounds must be multiples of the granularity, which is a power of two.
  AddressSpace(AddressRange window, std::uint64_t granularity_bytes);

  /// The range that now belongs to the caller. Fails: no hole is large enough, a size of 0, or an
  /// alignment that is no power of two.
  [[nodiscard]] std::optional<AddressRange> reserve(AddressRequest request);

  /// Gives a range back. Fails: `begin` is not the first address of a range that is handed out.
  [[nodiscard]] bool release(std::uint64_t begin);

  /// The handed-out range that `address` lies in.
  [[nodiscard]] std::optional<AddressRange> find(std::uint64_t address) const;

  [[nodiscard]] AddressRange window() const { return window_; }
  [[nodiscard]] std::uint64_t granularity_bytes() const { return granularity_bytes_; }
  [[nodiscard]] std::uint64_t reserved_bytes() const { return reserved_bytes_; }

 private:
  void add_hole(AddressRange hole);

  AddressRange window_;
  std::uint64_t granularity_bytes_;
  std::uint64_t reserved_bytes_ = 0;
  // Begin to size; together they cover the window, and no two holes touch.
  std::map<std::uint64_t, std::uint64_t> holes_;
  std::map<std::uint64_t, std::uint64_t> taken_;
};

}  // namespace fragscope::virtual_cuda
