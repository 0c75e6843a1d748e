// SPDX-License-Identifier: Apache-2.0
// Applies settings strings one after another and prints what each did, so that tests/torch/conf can
// compare with PyTorch.
//
//   conf_print 2.15 [BACKEND]
//
// BACKEND is the one that runs ("native"). First the environment is applied. Then each line of the
// input is a string as JSON. For either a line goes out: the error, the warnings, the options. A
// string on which PyTorch does what chance says is not applied, and its line says "undefined".
#include "allocator/policy/conf/allocator_conf.hpp"

#include <nlohmann/json.hpp>

#include <cstdlib>
#include <exception>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace {

using fragscope::policy::AllocatorConf;
using fragscope::policy::ConfError;
using fragscope::policy::ReserveSpec;
using fragscope::policy::SizeRules;
using fragscope::policy::TorchVersion;
using nlohmann::json;

json to_json(const ReserveSpec& spec) {
  return {spec.is_fraction, spec.value};
}

json to_json(const AllocatorConf& conf) {
  json by_class = json::object();
  for (const auto& [name, spec] : conf.expandable_segments_reserve_by_class) {
    by_class[name] = to_json(spec);
  }
  const auto& reserve = conf.expandable_segments_reserve;
  return {{"large_segment_size", conf.rules.large_segment_size},
          {"max_split_size", conf.rules.max_split_size},
          {"max_non_split_rounding", conf.rules.max_non_split_rounding},
          {"roundup_power2_divisions", conf.rules.roundup_divisions},
          {"expandable_segments", conf.rules.expandable_segments},
          {"garbage_collection_threshold", conf.garbage_collection_threshold},
          {"per_process_memory_fraction", conf.per_process_memory_fraction},
          {"release_lock_on_cudamalloc", conf.release_lock_on_cudamalloc},
          {"graph_capture_record_stream_reuse", conf.graph_capture_record_stream_reuse},
          {"throw_on_cudamalloc_oom", conf.throw_on_cudamalloc_oom},
          {"expandable_segments_reserve", reserve ? to_json(*reserve) : json()},
          {"expandable_segments_reserve_by_class", by_class},
          {"pinned_use_background_threads", conf.pinned_use_background_threads},
          {"pinned_use_cuda_host_register", conf.pinned_use_cuda_host_register},
          {"pinned_free_catch_all", conf.pinned_free_catch_all},
          {"pinned_num_register_threads", conf.pinned_num_register_threads},
          {"pinned_reserve_segment_size_mb", conf.pinned_reserve_segment_size_mb},
          {"pinned_max_round_threshold", conf.pinned_max_round_threshold},
          {"pinned_max_cached_size", conf.pinned_max_cached_size},
          {"last_text", conf.last_text}};
}

void print(const std::optional<ConfError>& error,
           TorchVersion version,
           const std::vector<std::string>& warnings,
           const AllocatorConf& conf) {
  json line = {{"undefined", error && error->kind == ConfError::Kind::kUndefined},
               {"error", nullptr},
               {"warnings", warnings},
               {"options", to_json(conf)}};
  if (error) line["error"] = {python_exception(error->kind, version), error->message};
  std::cout << line.dump() << '\n';
}

int run(std::string_view name, std::string_view backend) {
  if (name != "2.15" && name != "2.6") {
    std::cerr << "usage: conf_print 2.15|2.6 [BACKEND]\n";
    return 2;
  }
  const TorchVersion version = name == "2.6" ? TorchVersion::kTorch26 : TorchVersion::kTorch215;
  AllocatorConf conf;
  if (!backend.empty()) conf.loaded_backend = backend;

  std::vector<std::string> warnings;
  const auto get_variable = [](const char* variable) -> const char* {
    return std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): there is one thread
  };
  print(apply_environment(version, get_variable, conf, &warnings), version, warnings, conf);

  for (std::string line; std::getline(std::cin, line);) {
    const std::string text = json::parse(line).get<std::string>();
    warnings.clear();
    AllocatorConf changed = conf;
    const auto error = apply_conf(text, version, changed, &warnings);
    if (!error || error->kind != ConfError::Kind::kUndefined) conf = changed;
    print(error, version, warnings, conf);
  }
  return 0;
}

}  // namespace

int main(int argument_count, char** arguments) {
  try {
    return run(argument_count > 1 ? arguments[1] : "", argument_count > 2 ? arguments[2] : "");
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
