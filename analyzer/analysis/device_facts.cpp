// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/device_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace fragscope::analysis {
namespace {

using model::Bounds;
using verdict::Fact;

bool overlap(Bounds left, Bounds right) {
  return left.low <= right.high && right.low <= left.high;
}

bool is_about(const explain::Message& message,
              const verdict::Question& question,
              const verdict::Supply& supply,
              const Fact& free) {
  const explain::Figures& figures = message.figures;
  if (message.device != question.device || !free.known()) return false;
  if (!figures.free || !figures.total || !overlap(*figures.free, free.bytes)) return false;
  if (!question.recorded || !figures.request) return true;
  return overlap(*figures.request, model::exactly(supply.limit_need_bytes));
}

void take_from_message(const explain::Message& message,
                       const std::string& log_name,
                       const verdict::Supply& supply,
                       verdict::DeviceFacts& facts) {
  const explain::Figures& figures = message.figures;
  const std::string source = fmt::format("{}, line {}", log_name, message.line);
  if (!facts.total.known()) facts.total = {*figures.total, source};
  if (!facts.limit.known() && figures.limit) facts.limit = {*figures.limit, source};
  if (!facts.context.known() && figures.process) {
    facts.context = {*figures.process - model::exactly(supply.reserved_bytes), source};
  }
}

Bounds fraction_of(Bounds total, double fraction) {
  const auto part = [fraction](std::uint64_t bytes) {
    return static_cast<std::uint64_t>(std::llround(fraction * static_cast<double>(bytes)));
  };
  return {part(total.low), part(total.high)};
}

/// A limit that is set as a fraction of the card. Without the card's total it is at least the
/// fraction of what this process and the driver hold between them.
void find_fraction_limit(const FactSources& sources,
                         const verdict::Supply& supply,
                         verdict::DeviceFacts& facts) {
  std::optional<double> fraction = sources.options.limit_fraction;
  std::string source = "--limit";
  if (!fraction) {
    fraction = sources.settings.memory_fraction;
    source = "per_process_memory_fraction in the recorded settings";
  }
  if (!fraction || *fraction >= 1) return;
  if (facts.total.known()) {
    facts.limit = {fraction_of(facts.total.bytes, *fraction),
                   fmt::format("{}: {} of the device total", source, *fraction)};
    return;
  }
  const std::uint64_t at_least = supply.reserved_bytes + facts.free.bytes.low;
  facts.limit = {{fraction_of(model::exactly(at_least), *fraction).low, verdict::kUnlimited},
                 fmt::format("{}: {} of an unknown device total", source, *fraction)};
}

}  // namespace

FoundFacts find_device_facts(const FactSources& sources,
                             const verdict::Question& question,
                             const verdict::Supply& supply) {
  const Options& options = sources.options;
  FoundFacts found;
  verdict::DeviceFacts& facts = found.facts;
  if (options.device_total_bytes) {
    facts.total = {model::exactly(*options.device_total_bytes), "--device-total"};
  }
  facts.free = sources.recorded.free;
  if (options.device_free_bytes) {
    facts.free = {model::exactly(*options.device_free_bytes), "--device-free"};
  }
  if (options.limit_bytes) facts.limit = {model::exactly(*options.limit_bytes), "--limit"};

  // Of the allocator's own bytes NVML counts each; where it seems not to, its figure is another's.
  if (sources.process_bytes && *sources.process_bytes >= supply.reserved_bytes) {
    facts.context = {model::exactly(*sources.process_bytes - supply.reserved_bytes),
                     "NVML at the failure"};
  }
  for (const explain::Message& message : options.messages) {
    if (!is_about(message, question, supply, facts.free)) continue;
    take_from_message(message, options.log_name, supply, facts);
    found.log_matched = true;
  }
  // A fraction given by hand needs the card's total, which may come from the log; it still goes
  // first.
  if (!options.limit_bytes && options.limit_fraction) facts.limit = {};
  if (!facts.total.known()) facts.total = sources.recorded.total;
  const bool asks_for_fraction = !options.limit_bytes && options.limit_fraction;
  if (!facts.limit.known() && !asks_for_fraction) facts.limit = sources.recorded.limit;
  if (!facts.limit.known()) find_fraction_limit(sources, supply, facts);
  return found;
}

}  // namespace fragscope::analysis
