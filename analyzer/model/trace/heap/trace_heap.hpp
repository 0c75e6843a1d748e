// SPDX-License-Identifier: Apache-2.0
// One device's heap, moved forward record by record. A trace says of every split, merge and page
// what became of it, so nothing has to be derived, and everything can be checked: a record that the
// heap contradicts is counted and left out. Cost of a record: a few look-ups by address. Not
// thread-safe.
#pragma once

#include "analyzer/model/heap_state.hpp"
#include "analyzer/model/trace/heap/mapped_memory.hpp"
#include "analyzer/model/trace/trace_names.hpp"
#include "trace/format/record.hpp"

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace fragscope::model {

/// Sums over the heap, in bytes; each as PyTorch's statistics mean it.
struct TraceLevels {
  std::uint64_t reserved = 0;
  std::uint64_t allocated = 0;
  std::uint64_t active = 0;
  std::uint64_t requested = 0;  ///< Of active blocks.
  std::uint64_t inactive_split = 0;
};

class TraceHeap {
 public:
  /// Nothing is known until a keyframe, or until `begin_empty`.
  TraceHeap() = default;

  /// Keyframes do not say where address spaces begin, so that what is known of that must not depend
  /// on which keyframe a walk began with: each is taken, also one that says the same.
  void take_each_keyframe() { takes_each_ = true; }

  /// Keyframes list address spaces to their ends, without pages, too, as our allocator's do.
  void trust_spaces() { trusts_spaces_ = true; }

  /// One that began is not going to end.
  void abandon_keyframe() { is_in_keyframe_ = false; }

  /// The process has just begun: there is no block.
  void begin_empty();
  /// Records are missing: nothing is known until the next keyframe.
  void lose();
  [[nodiscard]] bool is_known() const { return is_known_; }

  /// Records in ascending order. Kinds that do not concern blocks do nothing.
  void apply(const trace::Record& record);

  /// Whole keyframes that came by.
  [[nodiscard]] std::uint64_t keyframes() const { return keyframes_; }
  [[nodiscard]] const TraceLevels& levels() const { return levels_; }
  /// Records that cannot be true, and keyframes that show another heap.
  [[nodiscard]] std::uint64_t contradictions() const { return contradictions_; }
  /// The first record that could not be true; ~0 if there is none.
  [[nodiscard]] std::uint64_t first_contradiction() const { return first_contradiction_; }

  [[nodiscard]] HeapState state(const TraceNames& names) const;

  // For whoever derives records from the heap as it stands (`NativeRecords`).
  [[nodiscard]] bool is_free(std::uint64_t address) const;
  [[nodiscard]] bool is_live(std::uint64_t address) const;
  [[nodiscard]] bool is_large(std::uint64_t address) const;
  /// 0 if no block begins there.
  [[nodiscard]] std::uint64_t size_of(std::uint64_t address) const;
  /// The start of the block's segment, or address space.
  [[nodiscard]] std::uint64_t base_of(std::uint64_t address) const;
  /// The start of the nearest address space of the record's home that begins at its address or
  /// before it, and of the nearest that begins behind it.
  [[nodiscard]] std::optional<std::uint64_t> space_below(const trace::Record& record) const;
  [[nodiscard]] std::optional<std::uint64_t> space_above(const trace::Record& record) const;
  /// The address space begins further in front than was known.
  void move_space(std::uint64_t from, std::uint64_t to);
  template <class Visit>
  void visit_free(Visit visit) const {
    for (const auto& [address, block] : blocks_) {
      if (block.state == BlockState::kFree) visit(address, block.size);
    }
  }

 private:
  struct Block {
    std::uint64_t size = 0;
    std::uint64_t requested = 0;
    std::uint64_t base = 0;  // of its segment, or address space
    std::uint32_t stack = 0;
    std::uint32_t stream = 0;
    std::uint16_t pool = 0;
    std::uint8_t flags = 0;  // large, expandable
    BlockState state = BlockState::kFree;
    bool is_whole = false;  // of its plain segment
  };
  struct AddressSpace {
    std::uint64_t mapped_bytes = 0;
    Block home;  // where its blocks belong; size and addresses mean nothing
  };
  /// As a keyframe states it.
  struct Reserve {
    std::uint64_t size = 0;
    Block home;  // as of `AddressSpace`
  };
  using Blocks = absl::flat_hash_map<std::uint64_t, Block>;

  // Each gives false, with nothing done, if it cannot be.
  [[nodiscard]] bool change(const trace::Record& record);
  [[nodiscard]] bool add_segment(const trace::Record& record);
  [[nodiscard]] bool remove_segment(const trace::Record& record);
  [[nodiscard]] bool map(const trace::Record& record);
  [[nodiscard]] bool unmap(const trace::Record& record);
  [[nodiscard]] bool hand_out(const trace::Record& record);
  [[nodiscard]] bool request_free(const trace::Record& record);
  [[nodiscard]] bool complete_free(const trace::Record& record);
  [[nodiscard]] bool split(const trace::Record& record);
  [[nodiscard]] bool merge(const trace::Record& record);

  void begin_keyframe(const trace::Record& record);
  void add_to_keyframe(const trace::Record& record);
  void end_keyframe(const trace::Record& record);
  [[nodiscard]] bool is_sound_keyframe() const;
  [[nodiscard]] bool is_same_as_keyframe() const;
  void take_keyframe();
  void take_segments();
  void number_segment(std::uint64_t base) { numbers_[base] = next_number_++; }
  void keep_stacks();

  [[nodiscard]] static Block block_of(const trace::Record& record);
  [[nodiscard]] static Block block_in_keyframe(const trace::Record& record);
  [[nodiscard]] static bool counts_as_split(const Block& block);
  [[nodiscard]] const Block* find(std::uint64_t address) const;
  [[nodiscard]] static bool is_home(const Block& home, const trace::Record& record);
  void forget_blocks();
  void contradict(const trace::Record& record);

  Blocks blocks_;                                                  // by address
  absl::flat_hash_map<std::uint64_t, std::uint64_t> plain_sizes_;  // by start
  absl::flat_hash_map<std::uint64_t, AddressSpace> spaces_;        // by base
  absl::flat_hash_map<std::uint64_t, Reserve> reserves_;           // by base
  absl::flat_hash_map<std::uint64_t, std::uint64_t> numbers_;      // of segments, by base
  std::uint64_t next_number_ = 1;
  MappedMemory mapped_;
  TraceLevels levels_;
  std::vector<trace::Record> keyframe_;
  std::uint64_t keyframe_number_ = 0;
  std::uint64_t keyframe_blocks_ = 0;
  std::uint64_t keyframes_ = 0;
  bool is_in_keyframe_ = false;
  bool is_known_ = false;
  bool takes_each_ = false;
  bool trusts_spaces_ = false;
  std::uint64_t contradictions_ = 0;
  std::uint64_t first_contradiction_ = ~std::uint64_t{0};
};

}  // namespace fragscope::model
