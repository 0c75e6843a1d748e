// SPDX-License-Identifier: Apache-2.0
#include "analyzer/course/mark_names.hpp"

namespace fragscope::course {
namespace {

bool is_digit(char letter) {
  return letter >= '0' && letter <= '9';
}

}  // namespace

std::string without_numbers(std::string_view name) {
  std::string folded;
  bool is_in_number = false;
  for (const char letter : name) {
    if (!is_digit(letter)) folded += letter;
    if (is_digit(letter) && !is_in_number) folded += '#';
    is_in_number = is_digit(letter);
  }
  return folded;
}

std::optional<stages::Stage> known_stage(std::string_view name) {
  std::string word;
  for (const char letter : name) {
    const bool is_capital = letter >= 'A' && letter <= 'Z';
    const bool is_between = letter == ' ' || letter == '_';
    word += is_between ? '-' : is_capital ? static_cast<char>(letter - 'A' + 'a') : letter;
  }
  for (const stages::Stage stage : stages::kAllStages)
    if (word == stages::to_string(stage)) return stage;
  return std::nullopt;
}

}  // namespace fragscope::course
