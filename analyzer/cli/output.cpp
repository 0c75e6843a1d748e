// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/output.hpp"

#include "analyzer/report/frame_text.hpp"

#include <fmt/format.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace fragscope::cli {

int complain(const Error& error) {
  fmt::print(stderr, "fragscope: {}\n", report::printable(error.describe()));
  return kFailed;
}

bool wants_colour(const std::string& choice) {
  if (choice != "auto") return choice == "always";
  // Nothing here starts a thread that could change the environment.
  const char* no_color = std::getenv("NO_COLOR");  // NOLINT(concurrency-mt-unsafe)
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* terminal = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe)
  return ::isatty(STDOUT_FILENO) == 1 && terminal != nullptr &&
         std::string_view(terminal) != "dumb";
}

}  // namespace fragscope::cli
