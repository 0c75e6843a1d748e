// SPDX-License-Identifier: Apache-2.0
#include "allocator/policy/conf/conf_parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

namespace fragscope::policy {
namespace {

using Conf = AllocatorConf;
using Kind = ConfError::Kind;

constexpr std::string_view kSegmentSizeKey = "large_segment_size_mb";
constexpr std::string_view kAsync = "cudaMallocAsync";
constexpr std::uint64_t kMostThreads = 128;

std::uint64_t clamped_bytes(std::uint64_t mebibytes) {
  return std::min(mebibytes, kUnlimited / kMiB) * kMiB;
}

std::string assertion(std::string_view condition, std::string_view words) {
  return fmt::format(
      "{} INTERNAL ASSERT FAILED, please report a bug to PyTorch. {}", condition, words);
}

// ROCm's spelling is accepted for both; errors name CUDA's.
std::string_view canonical(std::string_view key) {
  if (key == "release_lock_on_hipmalloc") return "release_lock_on_cudamalloc";
  if (key == "pinned_use_hip_host_register") return "pinned_use_cuda_host_register";
  return key;
}

template <class OptionsT>
auto find_key(const OptionsT& options, std::string_view key) {
  const auto* found =
      std::ranges::find_if(options, [key](const auto& option) { return option.key == key; });
  return found == std::end(options) ? nullptr : found;
}

}  // namespace

ConfParser::ConfParser(std::vector<std::string> tokens,
                       TorchVersion version,
                       AllocatorConf& conf,
                       std::vector<std::string>* warnings)
    : tokens_(std::move(tokens))
    , is_old_(version == TorchVersion::kTorch26)
    , conf_(conf)
    , warnings_(warnings) {}

const ConfParser::Option* ConfParser::common_option(std::string_view key) {
  using P = ConfParser;
  static constexpr Option kOptions[] = {
      {kSegmentSizeKey, false, &P::read_large_segment_size},
      {"max_split_size_mb", true, &P::read_limit<&SizeRules::max_split_size>},
      {"max_non_split_rounding_mb", true, &P::read_limit<&SizeRules::max_non_split_rounding>},
      {"garbage_collection_threshold", true, &P::read_collection_threshold},
      {"roundup_power2_divisions", true, &P::read_divisions},
      {"expandable_segments", true, &P::read_expandable_segments},
      {"pinned_use_background_threads", true, &P::read<&Conf::pinned_use_background_threads>},
      {"pinned_max_round_threshold_mb", false, &P::read_round_threshold},
      {"pinned_max_cached_size_mb", false, &P::read_cached_size},
  };
  return find_key(kOptions, key);
}

const ConfParser::Option* ConfParser::device_option(std::string_view key) {
  using P = ConfParser;
  static constexpr Option kOptions[] = {
      {"backend", true, &P::read_backend},
      {"release_lock_on_cudamalloc", true, &P::read<&Conf::release_lock_on_cudamalloc>},
      {"pinned_use_cuda_host_register", true, &P::read<&Conf::pinned_use_cuda_host_register>},
      {"pinned_num_register_threads", true, &P::read_register_threads},
      {"pinned_reserve_segment_size_mb", false, &P::read_pinned_reserve},
      {"graph_capture_record_stream_reuse",
       false,
       &P::read<&Conf::graph_capture_record_stream_reuse>},
      {"per_process_memory_fraction", false, &P::read_memory_fraction},
      {"pinned_free_catch_all", false, &P::read<&Conf::pinned_free_catch_all>},
      {"throw_on_cudamalloc_oom", false, &P::read<&Conf::throw_on_cudamalloc_oom>},
      {"expandable_segments_reserve", false, &P::read_reserve},
      {"expandable_segments_reserve_by_class", false, &P::read_reserve_by_class},
  };
  return find_key(kOptions, key);
}

// Passes.

void ConfParser::read_segment_size() {
  for (at_ = 0; !error_ && at_ < tokens_.size(); ++at_) {
    if (tokens_[at_] == kSegmentSizeKey) read_large_segment_size();
  }
}

void ConfParser::read_pairs(Pass pass) {
  for (at_ = 0; at_ < tokens_.size(); ++at_) {
    read_pair(pass);
    if (error_) return;
    if (at_ + 1 < tokens_.size() && !pass_separator(',')) return;
  }
  if (is_async_ && is_native_option_given_) {
    warn(
        "backend:cudaMallocAsync ignores max_split_size_mb,roundup_power2_divisions, and "
        "garbage_collect_threshold.");
  }
  if (is_round_threshold_given_ && is_cached_size_given_ &&
      conf_.pinned_max_round_threshold > conf_.pinned_max_cached_size) {
    warn(fmt::format(
        "pinned_max_round_threshold_mb ({}) > pinned_max_cached_size_mb ({}). The cache "
        "size limit takes precedence: allocations above pinned_max_cached_size_mb are "
        "never rounded up.",
        conf_.pinned_max_round_threshold / kMiB,
        conf_.pinned_max_cached_size / kMiB));
  }
}

void ConfParser::read_pair(Pass pass) {
  key_ = canonical(tokens_[at_]);
  const Option* common = common_option(key_);
  const Option* device = device_option(key_);
  const Option* option = common != nullptr ? common : device;
  if (option == nullptr || (is_old_ && !option->in_26)) {
    if (is_old_) return refuse("Unrecognized CachingAllocator option: " + tokens_[at_]);
    const char* reader = pass == Pass::kDevice ? "CUDA" : "Accelerator";
    return refuse(
        fmt::format("Unrecognized key '{}' in {} allocator config.", tokens_[at_], reader));
  }
  const bool is_read_here =
      pass == Pass::kAll ||
      (pass == Pass::kCommon ? common != nullptr && key_ != kSegmentSizeKey : device != nullptr);
  if (!is_read_here) return pass_over_value();
  is_native_option_given_ = is_native_option_given_ || key_ != "backend";
  (this->*option->read)();
}

// Errors.

void ConfParser::fail(Kind kind, std::string message) {
  message.resize(std::min(message.find('\0'), message.size()));  // Python gets a C string.
  error_ = ConfError{kind, std::move(message)};
}

void ConfParser::refuse(std::string message) {
  fail(is_old_ ? Kind::kRuntimeError : Kind::kValueError, std::move(message));
}

void ConfParser::fail_number(NumberFault fault, std::string_view function) {
  const bool is_out_of_range = fault == NumberFault::kOutOfRange;
  fail(is_out_of_range ? Kind::kOutOfRange : Kind::kInvalidArgument, std::string(function));
}

void ConfParser::warn(std::string message) {
  if (warnings_ != nullptr) warnings_->push_back(std::move(message));
}

// Moving on.

bool ConfParser::exists(std::size_t index) {
  if (index < tokens_.size()) return true;
  if (is_old_) {
    fail(Kind::kUndefined, "PyTorch 2.6 reads behind its tokens here");
  } else {
    fail(Kind::kInternalAssert,
         assertion("i < config_.size()", "Index out of bounds in ConfigTokenizer"));
  }
  return false;
}

bool ConfParser::pass_separator(char separator) {
  ++at_;
  if (!is_old_) return exists(at_);
  if (at_ < tokens_.size() && tokens_[at_] == std::string_view(&separator, 1)) return true;
  refuse(fmt::format("Error parsing CachingAllocator settings, expected {}", separator));
  return false;
}

const std::string* ConfParser::read_token() {
  ++at_;
  if (is_old_ && at_ >= tokens_.size()) {
    refuse(fmt::format("Error, expecting {} value", key_));
    return nullptr;
  }
  return exists(at_) ? &tokens_[at_] : nullptr;
}

const std::string* ConfParser::read_value() {
  return pass_separator(':') ? read_token() : nullptr;
}

// A list ends at its first bracket.
void ConfParser::pass_over_value() {
  const std::string* value = read_value();
  if (value == nullptr || *value != "[") return;
  while (at_ < tokens_.size() && tokens_[at_] != "]")
    ++at_;
  if (at_ < tokens_.size()) return;
  fail(Kind::kInternalAssert,
       assertion("i < config_.size()",
                 "Expected closing bracket ']' in ConfigTokenizer but reached end of config"));
}

// Kinds of values.

std::optional<std::uint64_t> ConfParser::size_of(const std::string& token) {
  if (is_old_) {
    const Number<int> number = to_int(token);
    if (number) return static_cast<std::uint64_t>(*number);  // -1 becomes the largest
    fail_number(number.error(), "stoi");
    return std::nullopt;
  }
  const Number<std::uint64_t> number = to_unsigned(token);
  if (number) return *number;
  fail_number(number.error(), "stoull");
  return std::nullopt;
}

std::optional<std::uint64_t> ConfParser::read_size() {
  const std::string* value = read_value();
  return value == nullptr ? std::nullopt : size_of(*value);
}

std::optional<double> ConfParser::read_double() {
  const std::string* value = read_value();
  if (value == nullptr) return std::nullopt;
  const Number<double> number = to_double(*value);
  if (number) return *number;
  fail_number(number.error(), "stod");
  return std::nullopt;
}

void ConfParser::read_flag(bool& flag) {
  if (!pass_separator(':')) return;
  // 2.6 has two texts for a missing value, by option.
  const bool is_any_value_wrong = is_old_ && !key_.starts_with("pinned_");
  const bool is_missing = at_ + 1 >= tokens_.size();
  const std::string* value = is_any_value_wrong && is_missing ? nullptr : read_token();
  if (error_) return;
  if (value != nullptr && (*value == "True" || *value == "False")) {
    flag = *value == "True";
    return;
  }
  if (is_old_) {
    return refuse(fmt::format("Expected a single True/False argument for {}", key_));
  }
  refuse(fmt::format(
      "Expected 'True' or 'False' at index {} in ConfigTokenizer but got '{}'", at_, *value));
}

// Options of all devices.

void ConfParser::read_large_segment_size() {
  const auto mebibytes = read_size();
  if (!mebibytes) return;
  if (*mebibytes <= kMinLargeAlloc / kMiB) {
    return refuse("CachingAllocator option large_segment_size_mb must be > 10 MB");
  }
  conf_.rules.large_segment_size = clamped_bytes(*mebibytes);
}

template <std::uint64_t SizeRules::*kLimit>
void ConfParser::read_limit() {
  const auto mebibytes = read_size();
  if (!mebibytes) return;
  const std::uint64_t segment = conf_.rules.large_segment_size / kMiB;  // 2.6: always 20
  if (is_old_ ? *mebibytes <= segment : *mebibytes < segment) {
    return refuse(fmt::format("CachingAllocator option {} too small, must be {} {}",
                              key_,
                              is_old_ ? ">" : ">=",
                              segment));
  }
  conf_.rules.*kLimit = clamped_bytes(*mebibytes);
}

void ConfParser::read_collection_threshold() {
  const auto threshold = read_double();
  if (!threshold) return;
  const bool is_too_small = !(*threshold > 0);
  const bool is_too_big = !(*threshold < 1);
  if (is_old_ && is_too_small) {
    return refuse("garbage_collect_threshold too small, set it 0.0~1.0");
  }
  if (is_old_ && is_too_big) return refuse("garbage_collect_threshold too big, set it 0.0~1.0");
  if (is_too_small || is_too_big) {
    return refuse("garbage_collect_threshold is invalid, set it in (0.0, 1.0)");
  }
  conf_.garbage_collection_threshold = *threshold;
}

void ConfParser::read_divisions() {
  const std::string* value = read_value();
  if (value == nullptr) return;
  if (*value == "[") return read_division_list();
  const auto divisions = size_of(*value);
  if (!divisions) return;
  if (!std::has_single_bit(*divisions)) {
    return refuse(fmt::format("For roundups, the {} has to be power of 2 ",
                              is_old_ ? "divisons" : "divisions"));
  }
  conf_.rules.roundup_divisions.fill(*divisions);
}

void ConfParser::read_division_list() {
  std::optional<std::size_t> last_bucket;
  while (++at_ < tokens_.size() && tokens_[at_] != "]") {
    if (!read_division(last_bucket)) return;
    if (!exists(at_ + 1)) return;
    if (tokens_[at_ + 1] != "]" && !pass_separator(',')) return;
  }
  // 2.6 is content with a list that ends in a comma and no bracket.
  if (is_old_ || at_ < tokens_.size()) return;
  fail(Kind::kInternalAssert,
       assertion("i < tokenizer.size()",
                 "Expected closing bracket ']' in ConfigTokenizer but reached end of config"));
}

bool ConfParser::read_division(std::optional<std::size_t>& last_bucket) {
  const std::string& key = tokens_[at_];
  if (!pass_separator(':')) return false;
  ++at_;
  if (is_old_ && at_ >= tokens_.size()) {
    refuse("Error parsing roundup_power2_divisions value");
    return false;
  }
  if (!exists(at_)) return false;
  const auto divisions = size_of(tokens_[at_]);
  if (!divisions) return false;
  if (*divisions != 0 && !std::has_single_bit(*divisions)) {
    refuse(fmt::format("For roundups, the {} has to be power of 2 or 0 to disable roundup ",
                       is_old_ ? "divisons" : "divisions"));
    return false;
  }
  auto& buckets = conf_.rules.roundup_divisions;
  if (key == ">") {
    // 2.6 overwrites the last key's own bucket.
    const std::size_t from = last_bucket.value_or(0) + (is_old_ ? 0 : 1);
    std::fill(buckets.begin() + static_cast<std::ptrdiff_t>(from), buckets.end(), *divisions);
    return true;
  }
  const Number<std::uint64_t> mebibytes = to_unsigned(key);
  if (!mebibytes) {
    fail_number(mebibytes.error(), is_old_ ? "stoul" : "stoull");
    return false;
  }
  if (!std::has_single_bit(*mebibytes)) {
    refuse("For roundups, the intervals have to be power of 2 ");
    return false;
  }
  const auto bucket =
      std::min<std::size_t>(static_cast<std::size_t>(std::countr_zero(*mebibytes)), 15);
  if (!last_bucket) std::fill_n(buckets.begin(), bucket, *divisions);
  buckets[bucket] = *divisions;
  last_bucket = bucket;
  return true;
}

void ConfParser::read_round_threshold() {
  if (const auto mebibytes = read_size()) {
    conf_.pinned_max_round_threshold = clamped_bytes(*mebibytes);
    is_round_threshold_given_ = true;
  }
}

void ConfParser::read_cached_size() {
  if (const auto mebibytes = read_size()) {
    conf_.pinned_max_cached_size = clamped_bytes(*mebibytes);
    is_cached_size_given_ = true;
  }
}

// CUDA's options.

void ConfParser::read_backend() {
  if (!pass_separator(':')) return;
  if (is_old_ && at_ + 1 >= tokens_.size()) return refuse("Error parsing backend value");
  const std::string* name = read_token();
  if (name == nullptr) return;
  if (*name != "native" && *name != kAsync) {
    return refuse("Unknown allocator backend, options are native and cudaMallocAsync");
  }
  if (*name != conf_.loaded_backend) {
    std::string words =
        "Allocator backend parsed at runtime != allocator backend parsed at load time";
    if (!is_old_) words += fmt::format(", {} != {}", *name, conf_.loaded_backend);
    const auto* condition =
        is_old_ ? "config[i] == get()->name()" : "tokenizer[i] == get()->name()";
    return fail(Kind::kInternalAssert, assertion(condition, words));
  }
  is_async_ = *name == kAsync;
  conf_.backend = *name;
}

void ConfParser::read_register_threads() {
  const auto threads = read_size();
  if (!threads) return;
  const std::string got = is_old_ ? "" : fmt::format(", got {}", *threads);
  if (!std::has_single_bit(*threads)) {
    return refuse("Number of register threads has to be power of 2" + (is_old_ ? " " : got));
  }
  if (*threads > kMostThreads) {
    return refuse("Number of register threads should be less than or equal to 128" + got);
  }
  conf_.pinned_num_register_threads = *threads;
}

void ConfParser::read_pinned_reserve() {
  const auto mebibytes = read_size();
  if (!mebibytes) return;
  if (*mebibytes == 0) return refuse("Pinned reserve segment size has to be greater than 0");
  conf_.pinned_reserve_segment_size_mb = *mebibytes;
}

void ConfParser::read_memory_fraction() {
  const auto fraction = read_double();
  if (!fraction) return;
  if (!(*fraction >= 0 && *fraction <= 1)) {
    return refuse("per_process_memory_fraction is invalid, set it in [0.0, 1.0]");
  }
  conf_.per_process_memory_fraction = *fraction;
}

void ConfParser::read_reserve() {
  const std::string* value = read_value();
  if (value == nullptr) return;
  if (const auto spec = reserve_spec(*value)) conf_.expandable_segments_reserve = spec;
}

void ConfParser::read_reserve_by_class() {
  if (!pass_separator(':') || !pass_separator('[')) return;
  std::map<std::string, ReserveSpec> specs;
  while (exists(at_ + 1) && tokens_[at_ + 1] != "]") {
    const std::string* name = read_token();
    const std::string* value = read_value();
    if (value == nullptr) return;
    if (const auto spec = reserve_spec(*value)) specs[*name] = *spec;
    if (!exists(at_ + 1)) return;
    if (tokens_[at_ + 1] == ",") ++at_;
  }
  if (error_) return;
  ++at_;
  conf_.expandable_segments_reserve_by_class = std::move(specs);
}

std::optional<ReserveSpec> ConfParser::reserve_spec(const std::string& token) {
  const bool is_gib = token.ends_with('G') || token.ends_with('g');
  const Number<double> number = to_plain_double(is_gib ? token.substr(0, token.size() - 1) : token);
  if (number && std::isfinite(*number) && *number > 0) return ReserveSpec{!is_gib, *number};
  warn(
      fmt::format("Ignoring invalid expandable-segment reserve value '{}' in "
                  "PYTORCH_CUDA_ALLOC_CONF (expected a positive, finite fraction like 0.5 or an "
                  "absolute size like 40G); using default.",
                  token));
  return std::nullopt;
}

}  // namespace fragscope::policy
