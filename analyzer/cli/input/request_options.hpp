// SPDX-License-Identifier: Apache-2.0
// The options that say which request is meant, and facts about its device that the file lacks; for
// every command that asks such a question.
#pragma once

#include "analyzer/analysis/analysis.hpp"
#include "trace/result.hpp"

#include <CLI/CLI.hpp>

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace fragscope::cli {

/// As typed.
struct RequestArguments {
  std::string request;
  std::optional<std::int64_t> stream;
  std::string pool;
  std::string device_total;
  std::string device_free;
  std::string limit;
  std::string log;
};

/// `arguments` must outlive the command.
void add_request_options(CLI::App& command, RequestArguments& arguments);

/// Before any file but the log is read. Fails: a value that cannot be, named with its option.
[[nodiscard]] Result<analysis::Options> parse_request(const RequestArguments& arguments);

/// What this process may hold: one of the two.
struct MemoryLimit {
  std::optional<std::uint64_t> bytes;
  std::optional<double> fraction;  ///< Of the device.
};

/// A number without a unit, up to 1, is a fraction; anything else is a size.
[[nodiscard]] Result<MemoryLimit> parse_limit(const std::string& text);

[[nodiscard]] Error wrong_option(std::string_view option,
                                 std::string_view value,
                                 std::string_view expected);

/// The whole text as a number.
template <class Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace fragscope::cli
