// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/explain/figure_labels.hpp"

#include "analyzer/recording/byte_size.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <ctime>
#include <optional>

namespace fragscope::report {
namespace {

constexpr std::uint64_t kYear10000 = 253402300800;

std::string bytes_text(const std::optional<std::uint64_t>& bytes) {
  return bytes ? model::show_bytes(*bytes) : "an unknown amount";
}

std::string process_text(const explain::ProcessBefore& process) {
  std::string text =
      process.pid == 0 ? std::string("a process") : fmt::format("process {}", process.pid);
  if (!process.name.empty()) text += fmt::format(" ({})", process.name);
  return text + " used " + bytes_text(process.used_bytes);
}

}  // namespace

using explain::Backend;
using explain::Shape;

FigureLabels figure_labels(const explain::Message& message) {
  FigureLabels labels = {"allocator: asked of the driver, as printed",
                         "driver",
                         "driver, read after the failure",
                         "allocator: live blocks",
                         "allocator: of this process"};
  switch (message.shape) {
    case Shape::kOld:
    case Shape::kNew:
    case Shape::kBeyond:
      break;
    case Shape::kRequest:
      // PyTorch asks the driver for more than the tensor; others print what was asked of them.
      if (message.backend == Backend::kMps) {
        labels.request = "allocator: the buffer, as printed";
      } else if (!message.format.starts_with("PyTorch")) {
        labels.request = "as printed";
      }
      break;
    case Shape::kRejected:
      labels.request = "allocator: refused before the driver was asked";
      break;
    case Shape::kAsync:
      labels.request = "allocator: the tensor, as printed";
      labels.allocated = "allocator: handed out";
      break;
    case Shape::kMps:
      labels.request = "allocator: the tensor, as printed";
      labels.allocated = "allocator: held from the system";
      labels.limit = "allocator: the most it allows itself";
      break;
    case Shape::kCheck:
      labels.request = "wanted at the start";
      labels.free = "driver, read at the start";
      break;
    case Shape::kAttempt:
      labels.request = "as printed, of this attempt";
      labels.free = "driver, at this attempt";
      break;
    case Shape::kHost:
      labels.request = "as printed, of the host's memory";
      break;
    case Shape::kBare:
    case Shape::kDoubtful:
    case Shape::kReplaced:
      labels.request = "as printed";
      break;
  }
  return labels;
}

std::string before_text(const explain::DeviceBefore& before) {
  const std::string time = before.time_s && *before.time_s < kYear10000
                               ? fmt::format("{:%Y-%m-%d %H:%M:%S} UTC",
                                             fmt::gmtime(static_cast<std::time_t>(*before.time_s)))
                               : std::string("a time not recorded");
  std::string text = fmt::format("{} of {} were free at {}, by fragscope devices",
                                 bytes_text(before.free_bytes),
                                 bytes_text(before.total_bytes),
                                 time);
  if (!before.has_processes) return text + "; who used the rest is not known";
  if (before.processes.empty()) return text + "; no process used it";
  for (const explain::ProcessBefore& process : before.processes)
    text += "; " + process_text(process);
  return text;
}

}  // namespace fragscope::report
