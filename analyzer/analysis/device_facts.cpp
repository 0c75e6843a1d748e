// SPDX-License-Identifier: Apache-2.0
#include "analyzer/analysis/device_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace fragscope::analysis {
namespace {

using ingest::OomMessage;
using model::Bounds;
using verdict::Fact;

bool overlap(Bounds left, Bounds right) {
  return left.low <= right.high && right.low <= left.high;
}

bool is_about(const OomMessage& message,
              const verdict::Question& question,
              const verdict::Supply& supply,
              const Fact& free) {
  if (message.device != question.device || !free.known()) return false;
  if (!overlap(message.free, free.bytes)) return false;
  if (!question.recorded || !message.request) return true;
  return overlap(*message.request, model::exactly(supply.limit_need_bytes));
}

void take_from_message(const OomMessage& message,
                       const std::string& log_name,
                       const verdict::Supply& supply,
                       verdict::DeviceFacts& facts) {
  const std::string source = fmt::format("{}, line {}", log_name, message.line);
  if (!facts.total.known()) facts.total = {message.total, source};
  if (!facts.free.known()) facts.free = {message.free, source};
  if (!facts.limit.known() && message.limit) facts.limit = {*message.limit, source};
  if (!facts.context.known() && message.process) {
    facts.context = {*message.process - model::exactly(supply.reserved_bytes), source};
  }
}

Bounds fraction_of(Bounds total, double fraction) {
  const auto part = [fraction](std::uint64_t bytes) {
    return static_cast<std::uint64_t>(std::llround(fraction * static_cast<double>(bytes)));
  };
  return {part(total.low), part(total.high)};
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
  facts.free = sources.recorded_free;
  if (options.device_free_bytes) {
    facts.free = {model::exactly(*options.device_free_bytes), "--device-free"};
  }
  if (options.limit_bytes) facts.limit = {model::exactly(*options.limit_bytes), "--limit"};

  for (const OomMessage& message : options.messages) {
    if (!is_about(message, question, supply, facts.free)) continue;
    take_from_message(message, options.log_name, supply, facts);
    found.log_matched = true;
  }
  if (!facts.limit.known() && facts.total.known()) {
    if (options.limit_fraction) {
      facts.limit = {fraction_of(facts.total.bytes, *options.limit_fraction),
                     fmt::format("--limit {} of the device total", *options.limit_fraction)};
    } else if (sources.settings.memory_fraction && *sources.settings.memory_fraction < 1) {
      facts.limit = {fraction_of(facts.total.bytes, *sources.settings.memory_fraction),
                     "per_process_memory_fraction of the recorded settings, and the device total"};
    }
  }
  return found;
}

}  // namespace fragscope::analysis
