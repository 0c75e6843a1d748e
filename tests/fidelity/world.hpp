// SPDX-License-Identifier: Apache-2.0
// What a program has made so far: which tensors live, which pools are open. Says what a step means,
// and whether it means anything.
#pragma once

#include "tests/fidelity/sides/side.hpp"

#include <map>
#include <optional>
#include <set>
#include <vector>

namespace fragscope::fidelity {

class World {
 public:
  /// The step, or none if it makes no sense now.
  [[nodiscard]] std::optional<Step> resolve(const Operation& operation) const;
  /// Must follow each step that was run. `address` is what an allocation gave.
  void note(const Operation& operation, const Step& step, std::uint64_t address);
  /// What ends everything that is open, in an order that works; resolve one at a time.
  [[nodiscard]] Program closing_steps() const;

 private:
  struct Tensor {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
    std::vector<unsigned> used_on;
    bool is_used_outside = false;  // record_stream outside a capture
    bool is_of_pool = false;       // possibly: a scope was open
    unsigned stream = 0;           // that asked for it
  };
  struct Pool {
    PoolKey key;
    unsigned users = 0;
    bool is_open = false;
    bool is_lending = false;  // use_on_oom
  };

  [[nodiscard]] std::optional<Step> resolve_tensor(const Operation& operation, Step step) const;
  [[nodiscard]] std::optional<Step> resolve_address(const Operation& operation, Step step) const;
  [[nodiscard]] bool is_captured(unsigned stream) const;
  [[nodiscard]] bool may_lose_pool() const;
  [[nodiscard]] bool may_be_current(std::uint64_t stream) const;
  [[nodiscard]] bool is_used_in_capture(const Tensor& tensor) const;
  void note_pool(const Operation& operation, const Step& step);
  [[nodiscard]] std::optional<Step> resolve_pool(const Operation& operation, Step step) const;
  [[nodiscard]] std::optional<Step> resolve_capture(const Operation& operation, Step step) const;
  /// The pool as it is, or as it would be made.
  [[nodiscard]] Pool pool_at(std::uint64_t number) const;

  std::uint64_t pools_made_ = 0;
  std::map<std::uint64_t, Tensor> tensors_;
  std::vector<Tensor> freed_;  // the last ones
  std::map<std::uint64_t, Tensor> device_memory_;
  std::map<std::uint64_t, Pool> pools_;
  std::vector<std::uint64_t> open_;  // pools, in the order in which they were opened
  std::set<unsigned> held_;
  std::set<unsigned> tagged_;
  std::vector<unsigned> capturing_;  // streams; empty: no capture
  std::uint64_t capture_pool_ = 0;
  unsigned current_ = 0;  // stream
  /// graph_capture_record_stream_reuse was in use. It takes the scope opened last for the capture.
  bool has_reuse_ = false;
  bool has_expandable_ = false;       // expandable segments were in use
  bool has_pending_of_pool_ = false;  // a freed block of a pool may wait for other streams
  bool has_deferred_ = false;         // frees that wait for the end of the capture
};

}  // namespace fragscope::fidelity
