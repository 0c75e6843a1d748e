// SPDX-License-Identifier: Apache-2.0
// Faults on demand: the n-th call of a kind fails, once or from then on; and memory that other
// processes take at a chosen time. Filled from the options and through the control functions; asked
// by whatever can fail.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace fragscope::virtual_cuda {

/// What can be made to fail. Each kind counts its own calls, over all devices.
enum class FaultKind : std::uint8_t {
  kMalloc,   ///< Memory of a device in one piece: cudaMalloc and its relatives.
  kCreate,   ///< cuMemCreate: the physical pages of expandable segments.
  kReserve,  ///< cuMemAddressReserve.
  kMap,      ///< cuMemMap.
  kAccess,   ///< cuMemSetAccess.
  kHost,     ///< Pinned host memory.
  kNvml,     ///< Every call into NVML.
};

inline constexpr std::size_t kFaultKindCount = 7;

/// The kind that options call by this name ("malloc", "create", ...).
[[nodiscard]] std::optional<FaultKind> find_fault_kind(std::string_view name);

/// The `nth` call of `kind` fails; with `onward` also every later one.
struct FaultRule {
  FaultKind kind = FaultKind::kMalloc;
  std::uint64_t nth = 1;  ///< 1 is the next one.
  bool onward = false;
};

/// Other processes hold `bytes` of `device` from before its `attempt`-th attempt to get memory on.
struct Neighbour {
  int device = 0;
  std::uint64_t bytes = 0;
  std::uint64_t attempt = 0;  ///< 0 and 1: from the start.
};

/// Counts calls and says which of them fail.
class FaultPlan {
 public:
  /// `rule.nth` counts from the calls made so far.
  void add(FaultRule rule);

  /// Takes back all rules of `kind`; its count goes on.
  void clear(FaultKind kind);

  /// Counts one call of `kind`. True: it must fail.
  [[nodiscard]] bool strike(FaultKind kind);

  /// How many calls of `kind` there were.
  [[nodiscard]] std::uint64_t call_count(FaultKind kind) const;

 private:
  std::array<std::uint64_t, kFaultKindCount> counts_{};
  std::vector<FaultRule> rules_;  // Here `nth` counts from the first call ever.
};

}  // namespace fragscope::virtual_cuda
