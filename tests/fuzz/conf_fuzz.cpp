// SPDX-License-Identifier: Apache-2.0
// Any text as settings of the allocator. The first byte chooses the version; each further line is a
// string of its own, applied to what the lines before it left. Options stay within their bounds.
#include "allocator/policy/conf/allocator_conf.hpp"
#include "allocator/policy/conf/size_options.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

using fragscope::policy::AllocatorConf;
using fragscope::policy::kMiB;
using fragscope::policy::SizeRules;
using fragscope::policy::TorchVersion;

bool is_sound(const SizeRules& rules) {
  return rules.large_segment_size > 10 * kMiB && rules.max_split_size > 10 * kMiB &&
         rules.max_non_split_rounding > 10 * kMiB &&
         std::ranges::all_of(rules.roundup_divisions, [](std::uint64_t divisions) {
           return divisions == 0 || std::has_single_bit(divisions);
         });
}

bool is_sound(const AllocatorConf& conf) {
  return is_sound(conf.rules) && conf.garbage_collection_threshold >= 0 &&
         conf.garbage_collection_threshold < 1 && conf.per_process_memory_fraction >= 0 &&
         conf.per_process_memory_fraction <= 1 && conf.pinned_num_register_threads <= 128 &&
         std::has_single_bit(conf.pinned_num_register_threads);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const TorchVersion version = data[0] % 2 == 0 ? TorchVersion::kTorch26 : TorchVersion::kTorch215;
  std::string lines(data + 1, data + size);
  AllocatorConf conf;
  std::vector<std::string> warnings;
  for (std::size_t at = 0; at < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', at), lines.size());
    const std::string_view text = std::string_view(lines).substr(at, end - at);
    const auto error = apply_conf(text, version, conf, &warnings);
    if (error && error->message.empty() && text.find('\0') == std::string_view::npos) std::abort();
    if (!is_sound(conf)) std::abort();
    at = end + 1;
  }
  if (!is_sound(fragscope::policy::read_size_options(lines).rules)) std::abort();
  return 0;
}
