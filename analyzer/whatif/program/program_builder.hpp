// SPDX-License-Identifier: Apache-2.0
// Puts a program together from what was recorded, in the order of events. It keeps the slots, finds
// out for which op the allocator went to the driver, and tells releases of the cache that the
// program asked for from those that a request made necessary.
#pragma once

#include "analyzer/model/heap_state.hpp"
#include "analyzer/whatif/program/program.hpp"

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace fragscope::whatif {

class ProgramBuilder {
 public:
  /// What a request or a block belongs to.
  struct Home {
    policy::StreamId stream = 0;
    policy::PoolId pool;
  };

  /// The heap that the program begins with; `pools` is what its indices mean. What is pending in it
  /// stays so until `complete`.
  void begin_with(const model::HeapState& heap,
                  std::span<const model::PoolId> pools,
                  const policy::SizeRules& rules);

  /// The event that the calls below belong to, counted from the first.
  void at(std::uint32_t event) { event_ = event; }

  void allocate(policy::Address address, std::uint64_t bytes, const Home& home);
  void fail(std::uint64_t bytes, const Home& home);
  /// That no event follows by which it is complete shows that it waits for other streams.
  void free(policy::Address address);
  void record_stream(policy::Address address, policy::StreamId stream);
  /// The free has become complete, at once or later.
  void complete(policy::Address address);

  /// `nanoseconds`: that the driver took; 0: not measured.
  void device_call(DeviceCall::Kind kind,
                   policy::Address address,
                   std::uint64_t size,
                   policy::Address base,
                   policy::PoolId pool,
                   std::uint32_t nanoseconds = 0);
  /// Whether segments are expandable at the beginning.
  void set_expandable(bool is_expandable) { is_expandable_ = is_expandable; }
  /// A request found no memory, and the cache is about to be given back for it.
  void retry();
  /// The cache was given back, or what the private pool `only` had of it, by the request that is
  /// under way or else by the program.
  void cache_released(policy::PoolId only);

  void limit(std::uint64_t bytes);
  void settings(std::string text);
  void capture(bool begins);
  void mark(std::string text, std::uint16_t kind);

  /// The recording shows each second try (`retry`): what goes back without one waits for nobody.
  void tell_retries() { tells_retries_ = true; }

  /// The program. Frees that were never seen to complete stay open.
  [[nodiscard]] Program finish();
  [[nodiscard]] Program& program() { return program_; }
  /// Frees of blocks that nobody had seen handed out; they are left out.
  [[nodiscard]] std::uint64_t unknown_frees() const { return unknown_frees_; }

 private:
  struct Known {
    std::uint32_t slot = 0;
    bool is_freed = false;
    bool was_used = false;  ///< On another stream: its free waits.
    /// There at the beginning: it may have been used on streams that no record is left of.
    bool is_of_start = false;
  };

  [[nodiscard]] policy::ImageSegment& image_of(const model::HeapSegment& range,
                                               policy::Address base,
                                               std::span<const model::PoolId> pools,
                                               const policy::SizeRules& rules);
  void take_spaces(const model::HeapState& heap,
                   std::span<const model::PoolId> pools,
                   const policy::SizeRules& rules);
  Op& add(OpKind kind);
  /// The number of its op.
  std::size_t request(std::uint64_t bytes, const Home& home, bool failed);
  [[nodiscard]] std::uint32_t take_slot();
  [[nodiscard]] std::uint16_t pool_index(policy::PoolId pool);
  [[nodiscard]] std::uint32_t stream_index(policy::StreamId stream);
  void forget(policy::Address address);
  void end_free(bool is_complete);
  void add_completions(std::vector<std::uint32_t>& slots);
  void end_group();
  /// Where nobody said which: the private pool that alone gave back, else all (0).
  [[nodiscard]] std::uint16_t released_pool() const;
  void release(std::uint16_t only);
  void give_group_to_next_op(bool is_of_request);
  /// After the op that the group was given to.
  void use_pools_again();
  void note_kind_of_segments(policy::PoolId pool);

  Program program_;
  std::uint32_t event_ = 0;
  absl::flat_hash_map<policy::Address, Known> known_;
  std::vector<std::uint32_t> spare_slots_;
  absl::flat_hash_map<policy::StreamId, std::uint32_t> streams_;
  absl::flat_hash_map<policy::PoolId, std::uint16_t> pools_;  // but the default one
  /// Completed since the last op. What a release of the cache waited for must not be free for the
  /// request that made it necessary: those come after it.
  std::vector<std::uint32_t> completed_slots_;
  std::vector<std::uint32_t> late_slots_;
  std::vector<DeviceCall> group_;            // of no op yet
  std::vector<std::uint16_t> group_pools_;   // from which some of it went back
  std::vector<std::uint16_t> unused_pools_;  // until the op is there
  bool group_gives_back_ = false;
  bool group_default_gives_back_ = false;
  bool group_gets_ = false;
  bool is_in_miss_ = false;
  bool tells_retries_ = false;
  std::optional<std::uint32_t> open_free_;  // the slot of what was freed by the event before
  bool open_free_waits_ = false;
  bool open_free_is_of_start_ = false;
  bool is_capturing_ = false;
  bool is_expandable_ = false;
  std::uint64_t unknown_frees_ = 0;
};

/// Adds a doubt where garbage collection chooses among blocks that were free at the beginning
/// already: for how long is in no recording.
void doubt_unknown_ages(Program& program);

}  // namespace fragscope::whatif
