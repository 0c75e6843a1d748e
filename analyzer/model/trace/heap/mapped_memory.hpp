// SPDX-License-Identifier: Apache-2.0
// Which addresses have memory, and of which segment: so that memory which a trace gives out twice
// is noticed. Changes only where segments and pages come and go, not with every block.
#pragma once

#include <cstdint>
#include <map>

namespace fragscope::model {

/// A piece of address space; it does not reach over the last address.
struct AddressRange {
  std::uint64_t address = 0;
  std::uint64_t size = 0;
};

class MappedMemory {
 public:
  /// Memory of the segment or address space that begins at `base`. False, with nothing done, if
  /// some of it is there already.
  [[nodiscard]] bool add(AddressRange range, std::uint64_t base);
  /// False, with nothing done, unless all of it is there, in one piece.
  [[nodiscard]] bool remove(AddressRange range);
  /// What belonged to the one base belongs to the other.
  void move_base(std::uint64_t from, std::uint64_t to);
  void clear() { pieces_.clear(); }

 private:
  struct Piece {
    std::uint64_t end = 0;
    std::uint64_t base = 0;
  };
  std::map<std::uint64_t, Piece> pieces_;  // by start; neighbours of one base are one piece
};

}  // namespace fragscope::model
