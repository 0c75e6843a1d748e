// SPDX-License-Identifier: Apache-2.0
// The program that a recording holds, by the file's path; for commands that replay.
#pragma once

#include "analyzer/model/history.hpp"
#include "analyzer/recording/recording.hpp"
#include "analyzer/whatif/program/program.hpp"
#include "trace/result.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace fragscope::cli {

struct ProgramFile {
  whatif::Program program;
  model::Recording recording;
  std::int32_t device = 0;
};

/// With a progress bar, where that is a terminal. `device` is needed where several have a history.
/// An error does not name the file.
[[nodiscard]] Result<ProgramFile> read_program(const std::string& path,
                                               std::optional<std::int32_t> device);

/// What is said twice counts once, where it is said first.
[[nodiscard]] std::vector<std::string> each_once(const std::vector<std::string>& texts);

}  // namespace fragscope::cli
