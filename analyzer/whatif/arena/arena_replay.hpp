// SPDX-License-Identifier: Apache-2.0
// A program's requests served by an arena instead of PyTorch's rules. One arena serves all pools
// and streams; a block that another stream used is kept until that one is done with it, or until
// memory is short and it would be waited for.
#pragma once

#include "analyzer/model/heap_state.hpp"
#include "analyzer/verdict/ladder.hpp"
#include "analyzer/whatif/arena/arena.hpp"
#include "analyzer/whatif/program/program.hpp"

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace fragscope::whatif {

class ArenaReplay {
 public:
  /// What the program begins with is handed out, one block after the other, whatever the capacity.
  ArenaReplay(const Program& program, ArenaKind kind);

  /// Whether it was served; true for what is no request. What a request gets that was refused in
  /// the recording is given back at once.
  [[nodiscard]] bool run(const Op& op, std::uint64_t capacity);

  /// Why a request that was just refused was.
  [[nodiscard]] verdict::Verdict why(std::uint64_t bytes, std::uint64_t capacity) const;

  [[nodiscard]] std::uint64_t allocated_bytes() const {
    return arena_->used_bytes() - pending_bytes_;
  }
  [[nodiscard]] std::uint64_t reserved_bytes() const { return arena_->end(); }
  /// How often the arena had to take more of the device.
  [[nodiscard]] std::uint64_t growths() const { return growths_; }
  [[nodiscard]] model::StateSummary state() const;

 private:
  struct Slot {
    std::uint64_t offset = 0;
    std::uint64_t requested_bytes = 0;
    std::uint32_t stream = 0;
    bool is_live = false;
    bool is_used_elsewhere = false;
  };

  bool allocate(const Op& op, std::uint64_t capacity);
  void free(std::uint32_t slot);
  void complete(std::uint32_t slot);
  void complete_all();

  std::unique_ptr<Arena> arena_;
  std::vector<Slot> slots_;
  absl::flat_hash_map<std::uint32_t, std::vector<Slot>> pending_;  // by slot, freed
  std::uint64_t pending_bytes_ = 0;
  std::uint64_t requested_bytes_ = 0;  // in live blocks
  std::uint64_t live_blocks_ = 0;
  std::uint64_t growths_ = 0;
};

}  // namespace fragscope::whatif
