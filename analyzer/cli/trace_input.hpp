// SPDX-License-Identifier: Apache-2.0
// A trace given by its path, whichever form it has: a file as it lies there, a ring as the file
// that it would become now.
#pragma once

#include "analyzer/ingest/byte_source.hpp"
#include "trace/result.hpp"

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace fragscope::cli {

class TraceInput {
 public:
  /// `source` begins as a trace does (`trace::is_trace`), and outlives this.
  [[nodiscard]] static Result<TraceInput> open(const std::string& path,
                                               const ingest::ByteSource& source);

  /// A whole trace file.
  [[nodiscard]] std::span<const std::byte> bytes() const {
    return is_ring_ ? std::span<const std::byte>(image_) : file_;
  }
  [[nodiscard]] bool is_ring() const { return is_ring_; }

 private:
  std::span<const std::byte> file_;
  std::vector<std::byte> image_;
  bool is_ring_ = false;
};

}  // namespace fragscope::cli
