// SPDX-License-Identifier: Apache-2.0
// The options of PYTORCH_CUDA_ALLOC_CONF as PyTorch holds them, and how a string changes them: at
// the start from the environment, later by a call. Used by the live allocator and by replay;
// the analyzer reads recorded strings with `size_options`. What is refused, the words of the
// refusal and what was applied until then are PyTorch's: tests/torch/conf compares them.
#pragma once

#include "allocator/policy/conf/torch_version.hpp"
#include "allocator/policy/size_rules.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::policy {

/// How much address space an expandable segment reserves.
struct ReserveSpec {
  bool is_fraction = true;  ///< Of the device's memory; else GiB.
  double value = 0;         ///< Positive and finite.
  friend bool operator==(const ReserveSpec&, const ReserveSpec&) = default;
};

/// Every option; the defaults are PyTorch's. Those that a version does not know keep theirs.
struct AllocatorConf {
  SizeRules rules;
  double garbage_collection_threshold = 0;  ///< Of the limit, in (0, 1); 0: off.
  double per_process_memory_fraction = 1;   ///< In [0, 1].
  bool release_lock_on_cudamalloc = false;
  bool graph_capture_record_stream_reuse = false;
  bool throw_on_cudamalloc_oom = false;
  std::optional<ReserveSpec> expandable_segments_reserve;
  std::map<std::string, ReserveSpec> expandable_segments_reserve_by_class;

  bool pinned_use_background_threads = false;
  bool pinned_use_cuda_host_register = false;
  bool pinned_free_catch_all = false;
  std::uint64_t pinned_num_register_threads = 1;  ///< A power of two up to 128.
  std::uint64_t pinned_reserve_segment_size_mb = 0;
  std::uint64_t pinned_max_round_threshold = kUnlimited;  ///< Bytes.
  std::uint64_t pinned_max_cached_size = kUnlimited;      ///< Bytes.

  std::string backend;                    ///< As last accepted; empty: never given.
  std::string loaded_backend = "native";  ///< What runs; another name for "backend" is refused.
  std::string last_text;                  ///< The string that was read last, also if refused.
};

/// Why a string was refused.
struct ConfError {
  enum class Kind : std::uint8_t {
    kValueError,       ///< TORCH_CHECK_VALUE (2.15).
    kRuntimeError,     ///< TORCH_CHECK (2.6).
    kInternalAssert,   ///< TORCH_INTERNAL_ASSERT; `message` has no `at "FILE":LINE`.
    kInvalidArgument,  ///< std::invalid_argument; the message names the function, such as "stoull".
    kOutOfRange,       ///< std::out_of_range
    kUndefined,        ///< PyTorch 2.6 reads behind its tokens; what then happens is chance.
  };
  Kind kind = Kind::kValueError;
  std::string message;
};

/// The Python exception that shows such an error; empty for kUndefined.
[[nodiscard]] std::string_view python_exception(ConfError::Kind kind, TorchVersion version);

/// Changes `conf` by `text` as torch._C._accelerator_setAllocatorSettings does (2.6:
/// torch.cuda.memory._set_allocator_settings). First max_split_size, roundup_divisions and
/// garbage_collection_threshold go back to their defaults (2.15: max_non_split_rounding too, to the
/// segment size); everything else keeps its value. Then pairs are applied in order; an error leaves
/// what was applied before it. 2.15 goes over the text three times: large_segment_size_mb, the
/// options of all devices, CUDA's own.
/// `warnings`, where given, gets the texts of PyTorch's warnings; the one about pinned_max_* comes
/// each time, while PyTorch gives it once in a process.
[[nodiscard]] std::optional<ConfError> apply_conf(std::string_view text,
                                                  TorchVersion version,
                                                  AllocatorConf& conf,
                                                  std::vector<std::string>* warnings = nullptr);

/// The text of an environment variable, null where it is not set; std::getenv is one.
using GetVariable = std::function<const char*(const char*)>;

/// Names of the variables that are read at the start; empty: none is set. The first that is set
/// counts alone, even if it is empty.
struct ConfVariables {
  std::string_view common;  ///< For the options that all devices have.
  std::string_view device;  ///< For CUDA's own. Differs if PYTORCH_HIP_ALLOC_CONF is set.
};
[[nodiscard]] ConfVariables conf_variables(TorchVersion version, const GetVariable& get_variable);

/// What the first use of the allocator does with the environment, for a fresh `conf`: 2.15 reads
/// CUDA's own options first. A string that cannot even be split into pairs ends 2.15 earlier, while
/// its libraries are loaded; that is not modelled.
[[nodiscard]] std::optional<ConfError> apply_environment(
    TorchVersion version,
    const GetVariable& get_variable,
    AllocatorConf& conf,
    std::vector<std::string>* warnings = nullptr);

}  // namespace fragscope::policy
