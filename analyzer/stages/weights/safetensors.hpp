// SPDX-License-Identifier: Apache-2.0
// The header of a .safetensors file: which tensors it has and how many bytes each takes. The file
// is eight bytes of length (little-endian), that many bytes of JSON, then the data, of which
// nothing is read. Every number of a header is checked before it is believed.
#pragma once

#include "trace/result.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace fragscope::stages {

struct TensorEntry {
  std::string name;
  std::string dtype;  ///< "BF16", "F8_E4M3"
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0;  ///< Of its data, from the end of the header.
  std::uint64_t bytes = 0;
};

/// The largest header that the format's own reader takes.
inline constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;

/// Fails: unreadable, not of this format, or numbers that cannot be true of a file of this size:
/// data outside it, or of two tensors in one place.
[[nodiscard]] Result<std::vector<TensorEntry>> read_safetensors_header(const std::string& path);

}  // namespace fragscope::stages
