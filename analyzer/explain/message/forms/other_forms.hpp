// SPDX-License-Identifier: Apache-2.0
// Messages without PyTorch's figures: errors of drivers, libraries and other frameworks, host
// memory, assertions, start-up checks.
#pragma once

#include "analyzer/explain/message/forms/reading.hpp"

#include <span>

namespace fragscope::explain {

[[nodiscard]] std::span<const Form> other_forms();

/// "out of memory" of anybody but PyTorch: what stands in front tells an error from prose.
[[nodiscard]] bool read_bare(Reading& reading);

}  // namespace fragscope::explain
