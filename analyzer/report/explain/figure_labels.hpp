// SPDX-License-Identifier: Apache-2.0
// What the figures of a message are, in a few words each: that depends on who printed it. Used by
// the text and by the record.
#pragma once

#include "analyzer/explain/device_list.hpp"
#include "analyzer/explain/message/message.hpp"

#include <string>
#include <string_view>

namespace fragscope::report {

struct FigureLabels {
  std::string_view request;
  std::string_view total;
  std::string_view free;
  std::string_view allocated;
  std::string_view limit;
};

[[nodiscard]] FigureLabels figure_labels(const explain::Message& message);

/// A sentence on what was free on the device, and who used it, before the job.
[[nodiscard]] std::string before_text(const explain::DeviceBefore& before);

}  // namespace fragscope::report
