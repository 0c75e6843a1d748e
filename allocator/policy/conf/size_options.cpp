// SPDX-License-Identifier: Apache-2.0
#include "allocator/policy/conf/size_options.hpp"

#include "allocator/policy/conf/allocator_conf.hpp"
#include "allocator/policy/conf/conf_parser.hpp"
#include "allocator/policy/conf/conf_tokens.hpp"
#include "allocator/policy/conf/torch_version.hpp"

#include <string>
#include <utility>
#include <vector>

namespace fragscope::policy {
namespace {

using Tokens = std::vector<std::string>;

// Cut at the commas that are not within a list.
std::vector<Tokens> pairs_of(Tokens tokens) {
  std::vector<Tokens> pairs(1);
  bool is_in_list = false;
  for (std::string& token : tokens) {
    if (token == "[") is_in_list = true;
    if (token == "]") is_in_list = false;
    if (token == "," && !is_in_list) {
      pairs.emplace_back();
    } else {
      pairs.back().push_back(std::move(token));
    }
  }
  return pairs;
}

}  // namespace

SizeOptions read_size_options(std::string_view conf) {
  constexpr TorchVersion kVersion = TorchVersion::kTorch215;
  const std::vector<Tokens> pairs = pairs_of(conf_tokens(conf, kVersion));
  AllocatorConf options;
  // The segment size is read first wherever it stands: it is the default of another option.
  for (const Tokens& pair : pairs)
    ConfParser(pair, kVersion, options, nullptr).read_segment_size();
  options.rules.max_non_split_rounding = options.rules.large_segment_size;

  SizeOptions result;
  for (const Tokens& pair : pairs) {
    const auto divisions = options.rules.roundup_divisions;
    ConfParser parser(pair, kVersion, options, nullptr);
    parser.read_pairs(ConfParser::Pass::kCommon);
    if (!parser.error()) parser.read_pairs(ConfParser::Pass::kDevice);
    // A list that breaks off has filled some buckets; no other option is left half done.
    if (parser.error()) options.rules.roundup_divisions = divisions;
    if (!parser.error() && !pair.empty() && pair.front() == "per_process_memory_fraction") {
      result.memory_fraction = options.per_process_memory_fraction;
    }
  }
  result.rules = options.rules;
  return result;
}

}  // namespace fragscope::policy
