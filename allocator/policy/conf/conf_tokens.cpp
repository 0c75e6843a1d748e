// SPDX-License-Identifier: Apache-2.0
#include "allocator/policy/conf/conf_tokens.hpp"

#include <cerrno>
#include <cstdlib>
#include <limits>
#include <locale>
#include <sstream>

namespace fragscope::policy {
namespace {

constexpr std::string_view kWhitespace = " \t\n\v\f\r";
constexpr std::string_view kSpace = " ";
constexpr std::string_view kSeparators = ",:[]";

// One of the strto functions, with the two faults that the sto functions make exceptions of.
template <class ConvertFn>
auto convert(const std::string& token, const ConvertFn& convert_text)
    -> Number<decltype(convert_text(nullptr, nullptr))> {
  char* end = nullptr;
  errno = 0;
  const auto value = convert_text(token.c_str(), &end);
  if (end == token.c_str()) return tl::unexpected(NumberFault::kNoNumber);
  if (errno == ERANGE) return tl::unexpected(NumberFault::kOutOfRange);
  return value;
}

}  // namespace

std::vector<std::string> conf_tokens(std::string_view text, TorchVersion version) {
  const std::string_view dropped = version == TorchVersion::kTorch26 ? kSpace : kWhitespace;
  std::vector<std::string> tokens;
  std::string token;
  const auto end_token = [&] {
    if (!token.empty()) tokens.push_back(std::move(token));
    token.clear();
  };
  for (const char c : text) {
    if (kSeparators.find(c) != std::string_view::npos) {
      end_token();
      tokens.emplace_back(1, c);
    } else if (dropped.find(c) == std::string_view::npos) {
      token += c;
    }
  }
  end_token();
  return tokens;
}

Number<std::uint64_t> to_unsigned(const std::string& token) {
  return convert(token, [](const char* text, char** end) -> std::uint64_t {
    return std::strtoull(text, end, 10);
  });
}

Number<int> to_int(const std::string& token) {
  const Number<std::int64_t> value = convert(
      token,
      [](const char* text, char** end) -> std::int64_t { return std::strtoll(text, end, 10); });
  if (!value) return tl::unexpected(value.error());
  if (*value < std::numeric_limits<int>::min() || *value > std::numeric_limits<int>::max()) {
    return tl::unexpected(NumberFault::kOutOfRange);
  }
  return static_cast<int>(*value);
}

Number<double> to_double(const std::string& token) {
  return convert(token, [](const char* text, char** end) { return std::strtod(text, end); });
}

Number<double> to_plain_double(const std::string& token) {
  std::istringstream stream(token);
  stream.imbue(std::locale::classic());
  double value = 0;
  stream >> value;
  if (stream.fail() || !stream.eof()) return tl::unexpected(NumberFault::kNoNumber);
  return value;
}

}  // namespace fragscope::policy
