// SPDX-License-Identifier: Apache-2.0
#include "allocator/live/live_options.hpp"

#include "allocator/policy/conf/allocator_conf.hpp"

#include <bit>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>

namespace fragscope::live {
namespace {

/// The command line, arguments separated by spaces.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  for (char& c : text)
    c = c == '\0' ? ' ' : c;
  while (text.ends_with(' '))
    text.pop_back();
  return text;
}

LiveOptions from_environment() {
  LiveOptions options;
  // PyTorch itself says what is wrong with the variable; here the rest of it counts.
  static_cast<void>(policy::apply_environment(
      options.policy.version,
      [](const char* name) {
        return std::getenv(name); /* NOLINT(concurrency-mt-unsafe) */
      },
      options.policy.conf));
  options.recorder.conf = options.policy.conf.last_text;
  options.recorder.command = command_line();
  options.recorder.library_version = FRAGSCOPE_VERSION;
  return options;
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace

LiveOptions& LiveOptions::of_process() {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): never destroyed, as the allocator is not
  static auto* const options = new LiveOptions(from_environment());
  return *options;
}

std::string LiveOptions::set(std::string_view name, std::string_view value) {
  if (name == "ring_bytes") {
    const auto bytes = number(value);
    constexpr std::uint64_t kLeast = std::uint64_t{1} << 16;
    constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
    if (!bytes || *bytes < kLeast || *bytes > kMost) {
      return "ring_bytes: expected bytes from 65536 to 1099511627776, got " + std::string(value);
    }
    recorder.record_capacity = std::bit_floor(*bytes / sizeof(trace::Record));
  } else if (name == "stacks") {
    if (value != "off" && value != "python" && value != "all") {
      return "stacks: expected off, python or all, got " + std::string(value);
    }
    stacks = value == "off"      ? stacks::StackKind::kOff
             : value == "python" ? stacks::StackKind::kPython
                                 : stacks::StackKind::kAll;
  } else if (name == "min_stack_size") {
    const auto bytes = number(value);
    if (!bytes) return "min_stack_size: expected bytes, got " + std::string(value);
    min_stack_size = *bytes;
  } else if (name == "directory") {
    recorder.directory = value;
  } else if (name == "conf") {
    recorder.conf = value;
  } else if (name == "torch_version") {
    const auto found = policy::torch_version(value);
    if (!found)
      return "torch_version: expected a version such as 2.15.0, got " + std::string(value);
    policy.version = *found;
    recorder.torch_version = value;
  } else {
    return "no option " + std::string(name);
  }
  return {};
}

}  // namespace fragscope::live
