// SPDX-License-Identifier: Apache-2.0
// What a program has made so far: which tensors live, which pools are open. Says what a step means,
// and whether it means anything.
#pragma once

#include "tests/fidelity/sides.hpp"

#include <map>
#include <optional>
#include <set>
#include <vector>

namespace fragscope::fidelity {

class World {
 public:
  /// `generation` keeps the ids of pools of different programs apart; PyTorch remembers them.
  explicit World(std::uint64_t generation)
      : generation_(generation) {}

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
  };
  struct Pool {
    PoolKey key;
    unsigned users = 0;
    bool is_open = false;
    bool is_lending = false;  // use_on_oom
  };

  [[nodiscard]] std::optional<Step> resolve_tensor(const Operation& operation, Step step) const;
  [[nodiscard]] bool is_captured(unsigned stream) const;
  [[nodiscard]] bool is_used_in_capture(const Tensor& tensor) const;
  [[nodiscard]] std::optional<Step> resolve_pool(const Operation& operation, Step step) const;
  [[nodiscard]] std::optional<Step> resolve_capture(const Operation& operation, Step step) const;
  /// The pool as it is, or as it would be made.
  [[nodiscard]] Pool pool_at(std::uint64_t number) const;

  std::uint64_t generation_;
  std::uint64_t pools_made_ = 0;
  std::map<std::uint64_t, Tensor> tensors_;
  std::map<std::uint64_t, Tensor> device_memory_;
  std::map<std::uint64_t, Pool> pools_;
  std::vector<std::uint64_t> open_;  // pools, in the order in which they were opened
  std::set<unsigned> held_;
  std::set<unsigned> tagged_;
  std::vector<unsigned> capturing_;  // streams; empty: no capture
  std::uint64_t capture_pool_ = 0;
  unsigned current_ = 0;       // stream
  bool has_deferred_ = false;  // frees that wait for the end of the capture
  bool has_fraction_ = false;
};

}  // namespace fragscope::fidelity
