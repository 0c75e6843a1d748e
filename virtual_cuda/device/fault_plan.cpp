// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/device/fault_plan.hpp"

#include <algorithm>

namespace fragscope::virtual_cuda {
namespace {

constexpr std::array<std::string_view, kFaultKindCount> kKindNames = {
    "malloc", "create", "reserve", "map", "access", "host", "nvml"};

}  // namespace

std::optional<FaultKind> find_fault_kind(std::string_view name) {
  const auto* const found = std::find(kKindNames.begin(), kKindNames.end(), name);
  if (found == kKindNames.end()) return std::nullopt;
  return static_cast<FaultKind>(found - kKindNames.begin());
}

void FaultPlan::add(FaultRule rule) {
  rule.nth += call_count(rule.kind);
  rules_.push_back(rule);
}

void FaultPlan::clear(FaultKind kind) {
  std::erase_if(rules_, [kind](const FaultRule& rule) { return rule.kind == kind; });
}

bool FaultPlan::strike(FaultKind kind) {
  const std::uint64_t call = ++counts_[static_cast<std::size_t>(kind)];
  return std::any_of(rules_.begin(), rules_.end(), [kind, call](const FaultRule& rule) {
    return rule.kind == kind && (rule.nth == call || (rule.onward && rule.nth < call));
  });
}

std::uint64_t FaultPlan::call_count(FaultKind kind) const {
  return counts_[static_cast<std::size_t>(kind)];
}

}  // namespace fragscope::virtual_cuda
