// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/explain/figure_labels.hpp"

namespace fragscope::report {

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

}  // namespace fragscope::report
