// SPDX-License-Identifier: Apache-2.0
// The file of `explain --devices`: what `nvidia-smi -L` prints, or `fragscope devices --json`,
// which also says what was free before the job began. Pure.
#pragma once

#include "analyzer/explain/device_list.hpp"
#include "analyzer/explain/explainer.hpp"
#include "trace/result.hpp"

#include <string_view>

namespace fragscope::explain {

/// By CUDA's number; where the file has none of those, by the machine's. Fails: the text is neither
/// of both, or names no device; the message says what was expected.
[[nodiscard]] Result<DeviceList> read_device_file(std::string_view text);

/// Gives each message the figures of its device, where the list has them.
void add_figures_before(const DeviceList& devices, Explanation& explanation);

}  // namespace fragscope::explain
