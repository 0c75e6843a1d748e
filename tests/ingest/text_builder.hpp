// SPDX-License-Identifier: Apache-2.0
// A builder for `PickleMachine` that keeps everything and prints it as Python would, so that a test
// of the machine can say what it read. Used by the tests of the machine only.
#pragma once

#include "analyzer/ingest/pickle/machine.hpp"
#include "tests/support/pickle_writer.hpp"

#include <fmt/format.h>

#include <bit>
#include <string>
#include <utility>
#include <vector>

namespace fragscope::ingest {

class TextBuilder {
 public:
  [[nodiscard]] Value string(std::string_view text) {
    strings_.emplace_back(text);
    return {ValueKind::kString, strings_.size() - 1};
  }
  [[nodiscard]] Value new_dict() { return new_container(ValueKind::kDict, {}); }
  [[nodiscard]] Value new_list() { return new_container(ValueKind::kList, {}); }
  [[nodiscard]] Value tuple(std::span<const Value> items) {
    return new_container(ValueKind::kPair, items);
  }
  [[nodiscard]] bool set_items(std::uint64_t dict,
                               std::span<const Value> keys_and_values,
                               std::uint64_t /*byte_offset*/) {
    return append(dict, keys_and_values);
  }
  [[nodiscard]] bool append(std::uint64_t list, std::span<const Value> items) {
    if (refuses) return false;
    auto& held = containers_[list];
    held.insert(held.end(), items.begin(), items.end());
    return true;
  }
  [[nodiscard]] bool is_repeatable(std::uint64_t) const { return true; }
  [[nodiscard]] Value repeat_list(std::uint64_t list) {
    return new_container(ValueKind::kList, std::vector<Value>(containers_[list]));
  }
  [[nodiscard]] std::size_t held_bytes() const { return claimed_bytes; }
  [[nodiscard]] Error take_error() { return {ErrorCode::kContradictory, "refused", {}, {}, {}}; }

  [[nodiscard]] std::string show(const Value& value) const {
    switch (value.kind) {
      case ValueKind::kNone:
        return "None";
      case ValueKind::kBool:
        return value.payload != 0 ? "True" : "False";
      case ValueKind::kInt:
        return std::to_string(static_cast<std::int64_t>(value.payload));
      case ValueKind::kUint:
        return std::to_string(value.payload) + "u";
      case ValueKind::kFloat:
        return fmt::format("{}", std::bit_cast<double>(value.payload));
      case ValueKind::kString:
        return "'" + strings_[value.payload] + "'";
      case ValueKind::kDict:
        return "{" + show_items(value.payload, true) + "}";
      case ValueKind::kList:
        return "[" + show_items(value.payload, false) + "]";
      case ValueKind::kPair:
        return "(" + show_items(value.payload, false) + ")";
      case ValueKind::kOpaque:
        return "?";
    }
    return "?";
  }

  bool refuses = false;           ///< Every filling of a container is refused.
  std::size_t claimed_bytes = 0;  ///< What it says to hold.

 private:
  Value new_container(ValueKind kind, std::span<const Value> items) {
    containers_.emplace_back(items.begin(), items.end());
    return {kind, containers_.size() - 1};
  }
  [[nodiscard]] std::string show_items(std::uint64_t container, bool pairs) const {
    std::string text;
    const auto& items = containers_[container];
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (i > 0) text += pairs && i % 2 == 1 ? ": " : ", ";
      text += show(items[i]);
    }
    return text;
  }

  std::vector<std::string> strings_;
  std::vector<std::vector<Value>> containers_;
};

/// Runs a pickle; what it holds as text, or the error.
[[nodiscard]] inline Result<std::string> run_pickle(const std::string& bytes,
                                                    TextBuilder builder = {}) {
  PickleMachine<TextBuilder> machine(testing::as_bytes(bytes), builder);
  return machine.run({}).map([&builder](const Value& value) { return builder.show(value); });
}

}  // namespace fragscope::ingest
