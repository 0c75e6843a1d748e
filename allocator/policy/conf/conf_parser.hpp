// SPDX-License-Identifier: Apache-2.0
// One reading of a settings string, pair by pair, into an AllocatorConf: the only place that knows
// the options and their values. `allocator_conf` decides what is reset and which passes there are;
// `size_options` hands over one pair at a time. Nothing else uses it.
//
// A parser stops at its first error, and `error` tells it. The two generations differ less in what
// they accept than in how they refuse: 2.6 insists on its separators; 2.15 takes any token where
// one belongs and fails only where the tokens end.
#pragma once

#include "allocator/policy/conf/allocator_conf.hpp"
#include "allocator/policy/conf/conf_tokens.hpp"
#include "allocator/policy/conf/torch_version.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::policy {

class ConfParser {
 public:
  /// Which options are applied. The others are passed over; unknown ones are refused.
  enum class Pass : std::uint8_t {
    kAll,     ///< 2.6 has no other.
    kCommon,  ///< Those of all devices, without the segment size.
    kDevice,  ///< CUDA's own.
  };

  /// `conf` and `warnings`, which may be null, outlive the parser.
  ConfParser(std::vector<std::string> tokens,
             TorchVersion version,
             AllocatorConf& conf,
             std::vector<std::string>* warnings);

  /// large_segment_size_mb wherever the word stands, even where it is no key.
  void read_segment_size();
  void read_pairs(Pass pass);

  [[nodiscard]] const std::optional<ConfError>& error() const { return error_; }

 private:
  struct Option {
    std::string_view key;
    bool in_26;
    void (ConfParser::*read)();
  };
  [[nodiscard]] static const Option* common_option(std::string_view key);
  [[nodiscard]] static const Option* device_option(std::string_view key);
  void read_pair(Pass pass);

  // Errors. `refuse` is a value that is understood but not allowed.
  void fail(ConfError::Kind kind, std::string message);
  void refuse(std::string message);
  void fail_number(NumberFault fault, std::string_view function);
  void warn(std::string message);

  // Moving on: what ends in false, null or nullopt has failed.
  [[nodiscard]] bool exists(std::size_t index);
  [[nodiscard]] bool pass_separator(char separator);
  [[nodiscard]] const std::string* read_token();
  [[nodiscard]] const std::string* read_value();
  void pass_over_value();

  // Kinds of values.
  [[nodiscard]] std::optional<std::uint64_t> size_of(const std::string& token);
  [[nodiscard]] std::optional<std::uint64_t> read_size();
  [[nodiscard]] std::optional<double> read_double();
  [[nodiscard]] std::optional<ReserveSpec> reserve_spec(const std::string& token);
  void read_flag(bool& flag);
  void read_division_list();
  [[nodiscard]] bool read_division(std::optional<std::size_t>& last_bucket);

  // Options.
  template <bool AllocatorConf::*kFlag>
  void read() {
    read_flag(conf_.*kFlag);
  }
  template <std::uint64_t SizeRules::*kLimit>
  void read_limit();
  void read_large_segment_size();
  void read_collection_threshold();
  void read_divisions();
  void read_expandable_segments() { read_flag(conf_.rules.expandable_segments); }
  void read_round_threshold();
  void read_cached_size();
  void read_backend();
  void read_register_threads();
  void read_pinned_reserve();
  void read_memory_fraction();
  void read_reserve();
  void read_reserve_by_class();

  std::vector<std::string> tokens_;
  bool is_old_;
  AllocatorConf& conf_;
  std::vector<std::string>* warnings_;
  std::size_t at_ = 0;    // the token that was read last
  std::string_view key_;  // of the pair that is being read
  bool is_async_ = false;
  bool is_native_option_given_ = false;
  bool is_round_threshold_given_ = false;
  bool is_cached_size_given_ = false;
  std::optional<ConfError> error_;
};

}  // namespace fragscope::policy
