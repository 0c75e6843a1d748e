// SPDX-License-Identifier: Apache-2.0
// Whether two recordings were made under the same settings of the allocator, and what else about
// them is known to be the same or not: versions, the device. Used by `difference`. Pure.
#pragma once

#include "analyzer/recording/recording.hpp"

#include <optional>
#include <string>
#include <vector>

namespace fragscope::difference {

/// Something that both may have said; none: not recorded.
struct ComparedFact {
  std::string name;
  std::optional<std::string> first;
  std::optional<std::string> second;
  bool is_setting = false;  ///< Else a circumstance, such as a version.

  [[nodiscard]] bool is_known() const { return first && second; }
  [[nodiscard]] bool differs() const { return is_known() && *first != *second; }
};

/// Settings first.
[[nodiscard]] std::vector<ComparedFact> compare_facts(const model::Recording& first,
                                                      const model::Recording& second);

enum class SettingsLikeness : std::uint8_t { kSame, kOther, kUnknown };

/// kOther if one differs; kSame if what both have is the same, and it is the option string.
[[nodiscard]] SettingsLikeness settings_likeness(const std::vector<ComparedFact>& facts);

}  // namespace fragscope::difference
