// SPDX-License-Identifier: Apache-2.0
// What a report on a recording says of its replay: whether the rules decide what was recorded, up
// to which event, and where nothing could be run, why.
#pragma once

#include "analyzer/whatif/program/program.hpp"
#include "analyzer/whatif/recorded/verify.hpp"
#include "trace/result.hpp"

#include <cstddef>
#include <cstdint>
#include <future>
#include <string>
#include <vector>

namespace fragscope::whatif {

struct Proof {
  std::int32_t device = 0;
  std::string reason;  ///< Why nothing was run; empty: it was.
  policy::TorchVersion version = policy::TorchVersion::kTorch215;  ///< Whose rules were asked.
  Verification found;
  std::size_t op_count = 0;
  model::EventIndex first_event = 0;
  model::EventIndex differs_at = 0;  ///< Where `found.first` is.
  std::vector<std::string> doubts;   ///< What the recording does not show, and was assumed.

  /// Whether everything up to and with this event was run, and decided as recorded.
  [[nodiscard]] bool covers(model::EventIndex event) const {
    return reason.empty() && event >= first_event && (!found.first || event < differs_at);
  }
};

/// With more records than this an analysis runs the last of them only: it is to stay quick, and its
/// memory is not to grow with the length of a trace.
inline constexpr std::uint64_t kMostProven = std::uint64_t{1} << 20;

/// Runs the program of a device's history, if it is one. Cost: two runs of the program.
[[nodiscard]] Proof prove(std::int32_t device, Result<Program> program);
/// The same beside the caller, on a thread of its own where there is one to be had.
[[nodiscard]] std::future<Proof> prove_beside(std::int32_t device, Result<Program> program);

}  // namespace fragscope::whatif
