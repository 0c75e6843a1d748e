// SPDX-License-Identifier: Apache-2.0
// A small model of PyTorch's caching allocator that records what it does as PyTorch would, and
// remembers its true state after each event. It keeps segments and used blocks only; holes are what
// is left between them, so that merging needs no code and cannot be wrong. Left out: pools, garbage
// collection, failures. Used by the property test of `Timeline`.
#pragma once

#include "allocator/policy/size_rules.hpp"
#include "analyzer/recording/recording.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <vector>

namespace fragscope::model {

struct ToySegment {
  std::uint64_t size_bytes = 0;
  SizeClass size_class = SizeClass::kLarge;
  std::int64_t stream = 0;
};

struct ToyBlock {
  std::uint64_t size_bytes = 0;
  std::uint64_t requested_bytes = 0;
  bool pending = false;
};

/// Segments and used blocks by address.
struct ToyState {
  std::map<std::uint64_t, ToySegment> segments;
  std::map<std::uint64_t, ToyBlock> blocks;
};

class ToyAllocator {
 public:
  ToyAllocator(const policy::SizeRules& rules, std::uint32_t seed)
      : rules_(rules)
      , random_(seed) {}

  /// One random step of a program: mostly hand-outs and frees, now and then an empty_cache.
  void step();

  /// The recording as a dump taken now would be, without its first `cut` events.
  [[nodiscard]] Recording recording(std::size_t cut) const;
  /// The true state before each event, and the one after the last.
  [[nodiscard]] const std::vector<ToyState>& states() const { return states_; }

 private:
  struct Hole {
    std::uint64_t address = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t segment = 0;
  };
  struct Request {
    std::uint64_t asked_bytes = 0;
    std::uint64_t size_bytes = 0;
    std::int64_t stream = 0;
    [[nodiscard]] SizeClass size_class() const { return policy::size_class(size_bytes); }
  };

  [[nodiscard]] std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  [[nodiscard]] std::uint64_t random_request();
  [[nodiscard]] std::vector<Hole> holes() const;
  [[nodiscard]] bool is_home(const Hole& hole, const Request& request) const;
  [[nodiscard]] std::optional<Hole> best_hole(const Request& request) const;
  [[nodiscard]] Hole grow(const Request& request);
  [[nodiscard]] std::uint64_t plain_address(std::uint64_t size);
  [[nodiscard]] Hole map_pages(const Request& request);
  void hand_out(std::uint64_t asked_bytes, std::int64_t stream);
  void free_one(bool at_once);
  void complete_one();
  void complete(std::uint64_t address);
  void empty_cache();
  void unmap_pages(const Hole& hole);
  void record(Action action, std::uint64_t address, std::uint64_t size, std::int64_t stream);

  policy::SizeRules rules_;
  std::mt19937_64 random_;
  ToyState now_;
  std::uint64_t next_plain_ = std::uint64_t{1} << 40;
  std::map<std::uint64_t, std::uint64_t> given_back_;  // plain ranges: address -> size
  std::vector<Event> events_;
  std::vector<ToyState> states_{ToyState{}};
};

}  // namespace fragscope::model
