// SPDX-License-Identifier: Apache-2.0
// The stages of an engine's start, in the order of the contract, and sets of them. Used by
// everything in this folder; the words that mark a stage are in vocabulary/.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace fragscope::stages {

enum class Stage : std::uint8_t {
  kBeforeLaunch,
  kCheckpointReading,
  kWeightPlacement,
  kRuntimePreparation,
  kReadiness,
  kRequests,
};

inline constexpr std::array<Stage, 6> kAllStages = {Stage::kBeforeLaunch,
                                                    Stage::kCheckpointReading,
                                                    Stage::kWeightPlacement,
                                                    Stage::kRuntimePreparation,
                                                    Stage::kReadiness,
                                                    Stage::kRequests};

[[nodiscard]] constexpr std::size_t index_of(Stage stage) {
  return static_cast<std::size_t>(stage);
}

/// The contract's word: "weight-placement".
[[nodiscard]] constexpr std::string_view to_string(Stage stage) {
  constexpr std::array<std::string_view, 6> kNames = {"before-launch",
                                                      "checkpoint-reading",
                                                      "weight-placement",
                                                      "runtime-preparation",
                                                      "readiness",
                                                      "requests"};
  return kNames[index_of(stage)];
}

/// A set of stages.
class StageSet {
 public:
  constexpr void add(Stage stage) { bits_ = static_cast<std::uint8_t>(bits_ | bit(stage)); }
  constexpr void remove(Stage stage) { bits_ = static_cast<std::uint8_t>(bits_ & ~bit(stage)); }
  [[nodiscard]] constexpr bool has(Stage stage) const { return (bits_ & bit(stage)) != 0; }
  [[nodiscard]] constexpr bool empty() const { return bits_ == 0; }

 private:
  static constexpr unsigned bit(Stage stage) { return 1U << index_of(stage); }

  std::uint8_t bits_ = 0;
};

}  // namespace fragscope::stages
