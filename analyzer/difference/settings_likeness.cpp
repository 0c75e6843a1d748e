// SPDX-License-Identifier: Apache-2.0
#include "analyzer/difference/settings_likeness.hpp"

#include "analyzer/recording/byte_size.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

namespace fragscope::difference {
namespace {

constexpr const char* kOptions = "options";

/// The options, sorted, without those that say who records.
std::string plain_options(std::string_view conf) {
  std::set<std::string> options;
  std::string option;
  int depth = 0;
  const auto add = [&] {
    const bool is_ours = option.starts_with("fragscope_") || option.starts_with("backend:");
    if (!option.empty() && !is_ours) options.insert(option);
    option.clear();
  };
  for (const char letter : conf) {
    depth += letter == '[' ? 1 : letter == ']' ? -1 : 0;
    if (letter == ',' && depth <= 0) {
      add();
    } else if (letter != ' ') {
      option += letter;
    }
  }
  add();
  return options.empty() ? "none" : fmt::format("{}", fmt::join(options, ","));
}

std::string size_text(std::uint64_t bytes) {
  return bytes == policy::kUnlimited ? "unlimited" : model::show_bytes(bytes);
}

std::string divisions_text(const policy::SizeRules& rules) {
  const bool is_plain =
      std::ranges::all_of(rules.roundup_divisions, [](std::uint64_t each) { return each <= 1; });
  return is_plain ? "none" : fmt::format("{}", fmt::join(rules.roundup_divisions, ","));
}

/// What one recording says, by name.
using Said = std::vector<std::pair<std::string, std::optional<std::string>>>;

Said settings_of(const model::Recording& recording) {
  const model::Settings& settings = recording.settings;
  const auto if_recorded = [&settings](std::string text) {
    return settings.conf ? std::optional(std::move(text)) : std::nullopt;
  };
  Said said;
  said.emplace_back(kOptions, if_recorded(plain_options(settings.conf.value_or(""))));
  said.emplace_back("expandable segments",
                    if_recorded(settings.rules.expandable_segments ? "on" : "off"));
  said.emplace_back("largest block that is split",
                    if_recorded(size_text(settings.rules.max_split_size)));
  said.emplace_back("round-up divisions", if_recorded(divisions_text(settings.rules)));
  const auto fraction = settings.memory_fraction;
  said.emplace_back("fraction of the device",
                    if_recorded(fraction ? fmt::format("{}", *fraction) : "none"));
  // Of a snapshot it is not known whether the program set one.
  const bool is_trace = recording.kind != "torch-snapshot";
  std::optional<std::string> limit;
  if (settings.limit_bytes) {
    limit = size_text(*settings.limit_bytes);
  } else if (is_trace) {
    limit = "none";
  }
  said.emplace_back("limit", std::move(limit));
  return said;
}

Said circumstances_of(const model::Recording& recording) {
  Said said;
  said.emplace_back("kind", recording.kind);
  said.emplace_back("writer", recording.writer);
  std::optional<std::string> total;
  if (recording.settings.device_total_bytes)
    total = model::show_bytes(*recording.settings.device_total_bytes);
  said.emplace_back("device memory", std::move(total));
  for (const char* name : {"driver", "cuda_driver", "cuda_runtime"}) {
    std::optional<std::string> value;
    for (const model::RecordedFact& fact : recording.facts)
      if (fact.name == name) value = fact.value;
    said.emplace_back(name, std::move(value));
  }
  return said;
}

void add(std::vector<ComparedFact>& facts, Said first, Said second, bool are_settings) {
  for (std::size_t i = 0; i < first.size(); ++i) {
    if (!first[i].second && !second[i].second) continue;
    facts.push_back(
        {first[i].first, std::move(first[i].second), std::move(second[i].second), are_settings});
  }
}

}  // namespace

std::vector<ComparedFact> compare_facts(const model::Recording& first,
                                        const model::Recording& second) {
  std::vector<ComparedFact> facts;
  add(facts, settings_of(first), settings_of(second), true);
  add(facts, circumstances_of(first), circumstances_of(second), false);
  return facts;
}

SettingsLikeness settings_likeness(const std::vector<ComparedFact>& facts) {
  bool has_options = false;
  for (const ComparedFact& fact : facts) {
    if (!fact.is_setting) continue;
    if (fact.differs()) return SettingsLikeness::kOther;
    has_options |= fact.name == kOptions && fact.is_known();
  }
  return has_options ? SettingsLikeness::kSame : SettingsLikeness::kUnknown;
}

}  // namespace fragscope::difference
