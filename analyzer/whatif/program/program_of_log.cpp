// SPDX-License-Identifier: Apache-2.0
#include "analyzer/whatif/program/program_of_log.hpp"

#include "analyzer/whatif/program/program_builder.hpp"

#include <absl/container/flat_hash_map.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <string>
#include <system_error>
#include <vector>

namespace fragscope::whatif {
namespace {

constexpr std::string_view kRmmHeader = "Thread,Time,Action,Pointer,Size,Stream";
/// A line of another kind of file may be as long as the file.
constexpr std::size_t kShownOfLine = 60;

enum class Action : std::uint8_t { kAllocate, kFail, kFree, kMark, kNothing };

struct Line {
  Action action = Action::kNothing;
  policy::Address address = 0;
  std::uint64_t bytes = 0;
  policy::StreamId stream = 0;
  std::string_view mark;
};

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const auto begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

template <class Number>
std::optional<Number> number(std::string_view text, int base) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  return error == std::errc{} && stop == end ? std::optional(value) : std::nullopt;
}

/// "0x7f00", "(nil)", "0"; RMM writes streams so, too, and some of its versions without the "0x".
template <class Number>
std::optional<Number> hexadecimal(std::string_view text) {
  if (text == "(nil)") return Number{0};
  if (text.starts_with("0x") || text.starts_with("0X")) text.remove_prefix(2);
  return number<Number>(text, 16);
}

std::vector<std::string_view> fields_of(std::string_view line, char separator) {
  std::vector<std::string_view> fields;
  while (true) {
    const auto end = line.find(separator);
    fields.push_back(trimmed(line.substr(0, end)));
    if (end == std::string_view::npos) return fields;
    line.remove_prefix(end + 1);
  }
}

std::optional<Line> rmm_line(std::string_view text) {
  const std::vector<std::string_view> fields = fields_of(text, ',');
  if (fields.size() != 6) return std::nullopt;
  Line line;
  if (fields[2] == "allocate") {
    line.action = Action::kAllocate;
  } else if (fields[2] == "allocate failure") {
    line.action = Action::kFail;
  } else if (fields[2] == "free") {
    line.action = Action::kFree;
  } else {
    return std::nullopt;
  }
  const auto address = hexadecimal<policy::Address>(fields[3]);
  const auto bytes = number<std::uint64_t>(fields[4], 10);
  const auto stream = hexadecimal<std::uint64_t>(fields[5]);
  if (!address || !bytes || !stream) return std::nullopt;
  line.address = *address;
  line.bytes = *bytes;
  line.stream = static_cast<policy::StreamId>(*stream);
  return line;
}

std::optional<Line> stalloc_line(std::string_view text) {
  Line line;
  if (text.starts_with("Iteration Index") || text.starts_with("micro-batch")) {
    line.action = Action::kMark;
    line.mark = text;
    return line;
  }
  const bool is_request = text.starts_with("1 ") || text.starts_with("0 ");
  // Layers and phases begin and end by the thousand; nothing is asked of them.
  if (!is_request) {
    return text.find(" : ") == std::string_view::npos && text.find(": ") == std::string_view::npos
               ? std::nullopt
               : std::optional(line);
  }
  const std::vector<std::string_view> fields = fields_of(text, ' ');
  if (fields.size() != 4) return std::nullopt;
  const auto address = hexadecimal<policy::Address>(fields[1]);
  const auto bytes = number<std::int64_t>(fields[2], 10);
  const auto stream = hexadecimal<std::uint64_t>(fields[3]);
  if (!address || !bytes || *bytes < 0 || !stream) return std::nullopt;
  line.action = fields[0] == "1" ? Action::kAllocate : Action::kFree;
  line.address = *address;
  line.bytes = static_cast<std::uint64_t>(*bytes);
  line.stream = static_cast<policy::StreamId>(*stream);
  return line;
}

class LogReading {
 public:
  explicit LogReading(RequestLog log)
      : log_(log) {}

  [[nodiscard]] Result<Program> read(std::string_view text) {
    builder_.program().has_decisions = false;
    std::uint64_t line_number = 0;
    while (!text.empty()) {
      const auto end = text.find('\n');
      const bool is_whole = end != std::string_view::npos;
      const std::string_view line = trimmed(text.substr(0, end));
      text.remove_prefix(is_whole ? end + 1 : text.size());
      ++line_number;
      if (line.empty() || (line_number == 1 && log_ == RequestLog::kRmm)) continue;
      const std::optional<Line> known =
          log_ == RequestLog::kRmm ? rmm_line(line) : stalloc_line(line);
      if (!known && is_whole) return wrong(line_number, line);
      if (!known) is_cut_ = true;
      if (known && event_ == std::numeric_limits<std::uint32_t>::max()) {
        return failure(ErrorCode::kTooLarge, "more than 2^32 lines are not replayed at once");
      }
      if (known) take(*known);
    }
    Program program = builder_.finish();
    add_doubts(program);
    return program;
  }

 private:
  [[nodiscard]] tl::unexpected<Error> wrong(std::uint64_t line_number,
                                            std::string_view line) const {
    return failure(
        ErrorCode::kDamaged,
        fmt::format("line {}: expected {}, found \"{}\"",
                    line_number,
                    log_ == RequestLog::kRmm ? kRmmHeader : "0|1 POINTER SIZE STREAM or a mark",
                    line.substr(0, kShownOfLine)));
  }

  void take(const Line& line) {
    builder_.at(event_++);
    switch (line.action) {
      case Action::kAllocate:
        return allocate(line);
      case Action::kFail:
        return builder_.fail(line.bytes, {line.stream, {}});
      case Action::kFree:
        return free(line);
      case Action::kMark:
        return builder_.mark(std::string(line.mark), 0);
      case Action::kNothing:
        return;
    }
  }

  void allocate(const Line& line) {
    // Nothing is handed out for nothing, and PyTorch's rules are not even asked.
    if (line.address == 0 || line.bytes == 0) {
      ++empty_requests_;
      return;
    }
    const auto [block, is_new] = stream_of_.insert_or_assign(line.address, line.stream);
    if (!is_new) ++overwritten_;
    builder_.allocate(line.address, line.bytes, {line.stream, {}});
  }

  void free(const Line& line) {
    if (line.address == 0 || line.bytes == 0) return;
    const auto block = stream_of_.find(line.address);
    if (block != stream_of_.end()) {
      if (block->second != line.stream) ++freed_elsewhere_;
      stream_of_.erase(block);
    }
    builder_.free(line.address);
    builder_.complete(line.address);
  }

  void add_doubts(Program& program) const {
    const auto add_if = [&program](std::uint64_t count, std::string_view what) {
      if (count > 0) program.doubts.push_back(fmt::format("{} {}", count, what));
    };
    program.doubts.emplace_back(
        "what the allocator decided, its settings and the device's memory: the log has requests "
        "and frees alone, and PyTorch's default settings are taken");
    add_if(freed_elsewhere_,
           "frees on another stream than the block's: it is taken to be done with the block then");
    add_if(overwritten_,
           "blocks were handed out again before they were freed: taken as freed just before");
    add_if(builder_.unknown_frees(), "frees of blocks that nobody had seen handed out");
    add_if(empty_requests_, "requests of nothing are left out");
    if (is_cut_) program.doubts.emplace_back("the last line, which is cut");
  }

  RequestLog log_;
  ProgramBuilder builder_;
  absl::flat_hash_map<policy::Address, policy::StreamId> stream_of_;
  std::uint32_t event_ = 0;
  std::uint64_t freed_elsewhere_ = 0;
  std::uint64_t overwritten_ = 0;
  std::uint64_t empty_requests_ = 0;
  bool is_cut_ = false;
};

}  // namespace

std::optional<RequestLog> request_log(std::string_view text) {
  if (text.starts_with(kRmmHeader)) return RequestLog::kRmm;
  const std::string_view first = text.substr(0, std::min(text.find('\n'), text.size()));
  const std::optional<Line> line = stalloc_line(trimmed(first));
  return line && line->action != Action::kNothing ? std::optional(RequestLog::kStalloc)
                                                  : std::nullopt;
}

std::string_view to_string(RequestLog log) {
  return log == RequestLog::kRmm ? "rmm-log" : "stalloc-log";
}

Result<Program> program_of_log(std::string_view text, RequestLog log) {
  return LogReading(log).read(text);
}

}  // namespace fragscope::whatif
