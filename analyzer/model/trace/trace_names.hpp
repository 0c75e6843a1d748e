// SPDX-License-Identifier: Apache-2.0
// What the ids in a trace's records mean, in the terms of a `Recording`: its stacks, pools and
// streams. Made once from the trace's table.
#pragma once

#include "analyzer/recording/recording.hpp"
#include "trace/file/table.hpp"

#include <cstdint>
#include <vector>

namespace fragscope::model {

class TraceNames {
 public:
  /// Fills the recording's strings, stacks and pools.
  TraceNames(const trace::Table& table, Recording& recording);

  /// The default pool for an id that the table does not have.
  [[nodiscard]] PoolIndex pool(std::uint16_t id) const;
  /// 0 for an id that the table does not have.
  [[nodiscard]] std::int64_t stream(std::uint32_t id) const;
  [[nodiscard]] StackId stack(std::uint32_t id) const;
  /// Whether the table has them, or they are 0.
  [[nodiscard]] bool has_pool(std::uint16_t id) const { return id < pools_.size(); }
  [[nodiscard]] bool has_stream(std::uint32_t id) const { return id < streams_.size(); }

 private:
  std::vector<StackId> stacks_{kNoStack};
  std::vector<PoolIndex> pools_{kDefaultPool};
  std::vector<std::int64_t> streams_{0};
};

}  // namespace fragscope::model
