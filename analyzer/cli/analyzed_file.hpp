// SPDX-License-Identifier: Apache-2.0
// A file by its path, whatever kind of recording it is, analysed; for commands.
#pragma once

#include "analyzer/analysis/analysis.hpp"
#include "analyzer/recording/recording.hpp"
#include "trace/result.hpp"

#include <string>

namespace fragscope::cli {

/// A recording with what was made of it.
struct Analyzed {
  model::Recording recording;
  analysis::Analysis analysis;
};

/// With a progress bar, where that is a terminal. An error does not name the file.
[[nodiscard]] Result<Analyzed> analyze_path(const std::string& path,
                                            const analysis::Options& options);

}  // namespace fragscope::cli
