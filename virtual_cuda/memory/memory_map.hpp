// SPDX-License-Identifier: Apache-2.0
// Which memory lies at an address: everything that a program got from virtual CUDA or registered
// with it. Answers cudaPointerGetAttributes and its relatives, and keeps copies inside what is
// allocated.
#pragma once

#include "virtual_cuda/device/address_space.hpp"

#include <cstdint>
#include <map>

namespace fragscope::virtual_cuda {

enum class MemoryKind : std::uint8_t {
  kDevice,      ///< cudaMalloc.
  kManaged,     ///< cudaMallocManaged.
  kPool,        ///< Carved from a stream-ordered pool.
  kMapped,      ///< An address range that physical pages are mapped to.
  kPinned,      ///< cudaHostAlloc.
  kRegistered,  ///< The program's own memory, after cudaHostRegister.
};

/// Whether the memory counts on a device.
[[nodiscard]] constexpr bool is_device_memory(MemoryKind kind) {
  return kind != MemoryKind::kPinned && kind != MemoryKind::kRegistered;
}

struct MemoryEntry {
  AddressRange range;
  MemoryKind kind = MemoryKind::kDevice;
  int device = 0;           ///< Where it lies, or whose context pinned it.
  std::uint32_t flags = 0;  ///< As given to cudaHostAlloc or cudaHostRegister.
};

/// All entries, by address; no two overlap.
class MemoryMap {
 public:
  /// Fails: it overlaps an entry.
  [[nodiscard]] bool insert(const MemoryEntry& entry);
  /// Removes the entry that begins at `begin`; nothing happens where there is none.
  void erase(std::uint64_t begin) { entries_.erase(begin); }

  /// The entry that `address` lies in, or null.
  [[nodiscard]] const MemoryEntry* find(std::uint64_t address) const;
  /// The entry that begins at `begin`, or null.
  [[nodiscard]] const MemoryEntry* find_begin(std::uint64_t begin) const;
  /// Whether every byte of the range lies in some entry.
  [[nodiscard]] bool covers(AddressRange range) const;
  /// Whether any byte of the range lies in some entry.
  [[nodiscard]] bool overlaps(AddressRange range) const;

 private:
  std::map<std::uint64_t, MemoryEntry> entries_;
};

}  // namespace fragscope::virtual_cuda
