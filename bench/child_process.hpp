// SPDX-License-Identifier: Apache-2.0
// Runs a program and measures it as the system does: wall time and peak resident memory. The system
// counts the caller's memory at the fork in, so the caller must be small: a benchmark that holds a
// snapshot itself belongs in another program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace fragscope::bench {

struct Child {
  int exit_code = -1;
  double seconds = 0;
  std::uint64_t peak_bytes = 0;  ///< Peak resident set, file pages included.
  std::string output;            ///< Standard output; standard error passes through.
};

/// `arguments`: the program, looked up in PATH, and what it is given.
[[nodiscard]] Child run_child(const std::vector<std::string>& arguments);

}  // namespace fragscope::bench
