// SPDX-License-Identifier: Apache-2.0
#include "allocator/policy/conf/allocator_conf.hpp"

#include "allocator/policy/conf/conf_parser.hpp"
#include "allocator/policy/conf/conf_tokens.hpp"

#include <initializer_list>
#include <utility>

namespace fragscope::policy {
namespace {

void reset(std::string_view text, AllocatorConf& conf) {
  conf.rules.max_split_size = kUnlimited;
  conf.rules.roundup_divisions.fill(0);
  conf.garbage_collection_threshold = 0;
  conf.last_text = text;
}

std::optional<ConfError> apply_26(std::string_view text,
                                  AllocatorConf& conf,
                                  std::vector<std::string>* warnings) {
  text = text.substr(0, text.find('\0'));  // It is handed on as a C string.
  reset(text, conf);
  ConfParser parser(
      conf_tokens(text, TorchVersion::kTorch26), TorchVersion::kTorch26, conf, warnings);
  parser.read_pairs(ConfParser::Pass::kAll);
  return parser.error();
}

std::optional<ConfError> apply_common(std::string_view text,
                                      AllocatorConf& conf,
                                      std::vector<std::string>* warnings) {
  reset(text, conf);
  ConfParser parser(
      conf_tokens(text, TorchVersion::kTorch215), TorchVersion::kTorch215, conf, warnings);
  parser.read_segment_size();
  if (parser.error()) return parser.error();
  conf.rules.max_non_split_rounding = conf.rules.large_segment_size;
  parser.read_pairs(ConfParser::Pass::kCommon);
  return parser.error();
}

std::optional<ConfError> apply_device(std::string_view text,
                                      AllocatorConf& conf,
                                      std::vector<std::string>* warnings) {
  ConfParser parser(
      conf_tokens(text, TorchVersion::kTorch215), TorchVersion::kTorch215, conf, warnings);
  parser.read_pairs(ConfParser::Pass::kDevice);
  return parser.error();
}

}  // namespace

std::string_view python_exception(ConfError::Kind kind, TorchVersion version) {
  using Kind = ConfError::Kind;
  if (kind == Kind::kUndefined) return {};
  if (version == TorchVersion::kTorch26) return "RuntimeError";
  switch (kind) {
    case Kind::kValueError:
    case Kind::kInvalidArgument:
      return "ValueError";
    case Kind::kOutOfRange:
      return "IndexError";
    default:
      return "RuntimeError";
  }
}

std::optional<ConfError> apply_conf(std::string_view text,
                                    TorchVersion version,
                                    AllocatorConf& conf,
                                    std::vector<std::string>* warnings) {
  if (version == TorchVersion::kTorch26) return apply_26(text, conf, warnings);
  if (auto error = apply_common(text, conf, warnings)) return error;
  return apply_device(text, conf, warnings);
}

ConfVariables conf_variables(TorchVersion version, const GetVariable& get_variable) {
  const auto first_set = [&get_variable](std::initializer_list<const char*> names) {
    for (const char* name : names) {
      if (get_variable(name) != nullptr) return std::string_view(name);
    }
    return std::string_view();
  };
  constexpr const char* kCuda = "PYTORCH_CUDA_ALLOC_CONF";
  constexpr const char* kHip = "PYTORCH_HIP_ALLOC_CONF";
  constexpr const char* kAny = "PYTORCH_ALLOC_CONF";
  if (version == TorchVersion::kTorch26) return {first_set({kCuda}), first_set({kCuda})};
  return {first_set({kCuda, kHip, kAny}), first_set({kCuda, kAny})};
}

std::optional<ConfError> apply_environment(TorchVersion version,
                                           const GetVariable& get_variable,
                                           AllocatorConf& conf,
                                           std::vector<std::string>* warnings) {
  const auto [common, device] = conf_variables(version, get_variable);
  const auto text_of = [&get_variable](std::string_view name) {
    return std::string_view(get_variable(name.data()));  // The names are literals.
  };
  if (version == TorchVersion::kTorch26) {
    return common.empty() ? std::nullopt : apply_26(text_of(common), conf, warnings);
  }
  if (!device.empty()) {
    if (auto error = apply_device(text_of(device), conf, warnings)) return error;
  }
  return common.empty() ? std::nullopt : apply_common(text_of(common), conf, warnings);
}

}  // namespace fragscope::policy
