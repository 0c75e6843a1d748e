// SPDX-License-Identifier: Apache-2.0
// The stages that a program is in, from the marks of its trace: each thread's end closes the last
// one of that name that it began. Not thread-safe.
#pragma once

#include "analyzer/recording/recording.hpp"
#include "trace/file/table.hpp"
#include "trace/format/header.hpp"
#include "trace/format/record.hpp"

#include <cstddef>
#include <vector>

namespace fragscope::model {

class OpenStages {
 public:
  /// More are not followed.
  static constexpr std::size_t kMost = 1024;

  /// A record of kind `kMark`.
  void take(const trace::Record& mark);
  /// Records are missing, and ends among them, perhaps.
  void lose() { open_.clear(); }
  /// The earliest first.
  [[nodiscard]] std::vector<Stage> list(const trace::Header& header,
                                        const trace::Table& table) const;

 private:
  std::vector<trace::Record> open_;
};

}  // namespace fragscope::model
