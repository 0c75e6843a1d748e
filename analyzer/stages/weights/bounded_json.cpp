// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stages/weights/bounded_json.hpp"

#include <cstddef>

namespace fragscope::stages {
namespace {

bool is_deeper(std::string_view json, int max_depth) {
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\') ++i;
    if (in_string) continue;
    if ((c == '{' || c == '[') && ++depth > max_depth) return true;
    if (c == '}' || c == ']') --depth;
  }
  return false;
}

}  // namespace

nlohmann::json parse_bounded_json(std::string_view text, int max_depth) {
  if (is_deeper(text, max_depth)) return nlohmann::json(nlohmann::json::value_t::discarded);
  return nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
}

}  // namespace fragscope::stages
