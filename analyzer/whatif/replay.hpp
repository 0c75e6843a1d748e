// SPDX-License-Identifier: Apache-2.0
// Runs a program through the policy, op by op, over whatever device stands behind it. An op costs
// what the policy costs, and a look-up by slot. Not thread-safe; several may run side by side over
// one program.
#pragma once

#include "allocator/policy/caching_policy.hpp"
#include "analyzer/whatif/program/program.hpp"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace fragscope::whatif {

/// Streams are done with a block when the program says so (`OpKind::kComplete`), or when they are
/// waited for; and with everything that stood on them before.
class ProgramStreams final : public policy::StreamEvents {
 public:
  /// What is recorded from here on belongs to the block in this slot.
  void use(std::uint32_t slot) { current_ = slot; }
  void complete(std::uint32_t slot);
  void capture(bool is_underway) { is_capturing_ = is_underway; }

  [[nodiscard]] policy::EventId record(policy::StreamId stream) override;
  [[nodiscard]] bool is_done(policy::EventId event) override { return events_[event].is_done(); }
  void wait(policy::EventId event) override { events_[event].finish(); }
  [[nodiscard]] bool is_capturing() const override { return is_capturing_; }
  [[nodiscard]] std::optional<std::vector<policy::CaptureNode>> capture_ends(
      policy::StreamId /*stream*/) const override {
    return std::nullopt;
  }
  [[nodiscard]] bool precede(const std::vector<policy::CaptureNode>& /*nodes*/,
                             policy::StreamId /*stream*/) const override {
    return false;
  }

 private:
  struct Stream {
    std::uint64_t recorded = 0;  ///< Events so far,
    std::uint64_t done = 0;      ///< of which so many have passed.
  };
  struct Event {
    Stream* stream = nullptr;
    std::uint64_t number = 0;
    [[nodiscard]] bool is_done() const { return number <= stream->done; }
    void finish() const { stream->done = std::max(stream->done, number); }
  };

  std::uint32_t current_ = 0;
  std::map<policy::StreamId, Stream> streams_;
  std::vector<Event> events_;
  absl::flat_hash_map<std::uint32_t, std::vector<policy::EventId>> events_of_slot_;
  bool is_capturing_ = false;
};

/// Told how far a run has come, in ops.
using Tick = std::function<void(std::uint64_t done, std::uint64_t total)>;

class Replay {
 public:
  /// What the settings of a run are: the program's own, or others.
  struct Settings {
    policy::PolicyOptions policy;
    std::optional<std::uint64_t> limit_bytes;
    /// Whether the program's own changes of options and of its limit count.
    bool follows_program = true;
  };
  [[nodiscard]] static Settings settings_of(const Program& program);

  /// All but the settings outlive this.
  Replay(const Program& program,
         const Settings& settings,
         policy::DeviceMemory& device,
         policy::Observer* observer = nullptr);
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;
  ~Replay() = default;

  /// What is wrong with options that the program set, in PyTorch's words; empty: nothing.
  [[nodiscard]] const std::string& problem() const { return problem_; }

  /// What became of an op: for kAllocate the address, 0 if it was refused; else 0. What a request
  /// gets that was refused in the recording is given back at once.
  policy::Address run(const Op& op);

  /// Whether the cache, as it is now, could serve this request.
  [[nodiscard]] bool could_serve(const Op& op);

  [[nodiscard]] const policy::CachingPolicy& policy() const { return policy_; }

 private:
  policy::Address allocate(const Op& op);
  void free(const Op& op);
  void route_to(std::uint16_t pool);
  void leave_pool();
  void apply_settings(const std::string& text);
  void set_expandable(bool is_expandable);
  void capture(bool begins);
  void begin();

  const Program& program_;
  Settings settings_;
  std::string problem_;
  ProgramStreams streams_;
  policy::CachingPolicy policy_;
  std::vector<policy::Address> addresses_;  // by slot; 0: nothing
  std::vector<bool> pool_is_known_;
  std::uint16_t routed_to_ = 0;
};

}  // namespace fragscope::whatif
