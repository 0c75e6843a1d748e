// SPDX-License-Identifier: Apache-2.0
// What a model's weights take at least: from a number of parameters and a format, or from the
// headers of a model folder. A lower bound: what loading adds (padding, copies, buffers, caches)
// only comes on top. Used by `explain --weights` and `--model`.
#pragma once

#include "trace/result.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::stages {

/// One number and where it comes from.
struct WeightSource {
  std::uint64_t bytes = 0;
  std::uint64_t tensors = 0;  ///< Tensors counted here; 0 where parameters were given.
  std::string source;         ///< "model-00001-of-00002.safetensors", "--weights 70B --format int4"
};

struct DtypeBytes {
  std::string dtype;
  std::uint64_t bytes = 0;
};

/// A lower bound of the weights of the whole model.
struct WeightBound {
  std::uint64_t bytes = 0;
  std::vector<WeightSource> sources;  ///< Sums to `bytes` where nothing is narrowed on loading.
  std::vector<DtypeBytes> dtypes;     ///< As stored, by descending bytes; only of a model folder.
  std::uint64_t stored_bytes = 0;     ///< As stored, each tensor once.
  std::vector<std::string> notes;     ///< What was left out or assumed, one sentence each.
};

/// `parameters`: "7B", "70.6B", "1.5e9", "7241732096". `format`: "bf16", "fp8", "int4", "q4_0", ...
/// Fails: either is no such thing; the error lists what is.
[[nodiscard]] Result<WeightBound> bound_from_parameters(std::string_view parameters,
                                                        std::string_view format);

/// Reads the headers of the *.safetensors files in `folder` and its config.json, nothing else. A
/// tensor that several files have counts once. Fails: no such files, or a damaged one.
/// Cost: the headers, a few MB at most for any model.
[[nodiscard]] Result<WeightBound> bound_from_folder(const std::string& folder);

/// One device's part, if the weights are split evenly over `devices`. That is an assumption:
/// whoever shows the number says so. Rounded up, since one of them holds at least this.
[[nodiscard]] std::uint64_t even_share(const WeightBound& bound, std::uint32_t devices);

/// What a share rests on: "(if all of them lie on one device, without offload or ...)".
[[nodiscard]] std::string assumption(std::uint32_t devices);

/// Sentence for a bound that the card cannot hold: nothing that frees memory at run time helps.
/// None if the card could hold it.
[[nodiscard]] std::optional<std::string> why_it_cannot_fit(const WeightBound& bound,
                                                           std::uint32_t devices,
                                                           std::uint64_t card_bytes);

}  // namespace fragscope::stages
