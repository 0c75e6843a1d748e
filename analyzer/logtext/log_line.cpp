// SPDX-License-Identifier: Apache-2.0
#include "analyzer/logtext/log_line.hpp"

#include "trace/ascii.hpp"

#include <algorithm>
#include <array>

namespace fragscope::logtext {
namespace {

/// Not a line break: lines that were quoted in one keep theirs.
bool is_gap(char c) {
  return c == ' ' || c == '\t' || c == '\r';
}

/// Reads a prefix piece by piece; every `pass_` moves on only if its piece is there.
class PrefixReader {
 public:
  explicit PrefixReader(LogLine& line)
      : line_(line)
      , rest_(line.text) {}

  void run() {
    // A prefix has a handful of pieces; a line that goes on and on with them is a message.
    constexpr int kMaxPieces = 12;
    for (int piece = 0; piece < kMaxPieces; ++piece) {
      skip_blanks();
      if (!pass_process() && !pass_rank() && !pass_level() && !pass_container() && !pass_time() &&
          !pass_stream() && !pass_source() && !pass_mark()) {
        break;
      }
    }
    line_.message = rest_;
  }

 private:
  void skip_blanks() {
    while (!rest_.empty() && is_gap(rest_.front()))
      rest_.remove_prefix(1);
  }

  void name_process(std::string_view process) {
    if (line_.process.empty()) line_.process = process;
  }

  /// "(EngineCore_0 pid=123)", "(RayWorkerWrapper pid=7, ip=10.0.0.1)".
  bool pass_process() {
    if (!rest_.starts_with('(')) return false;
    const auto close = rest_.find(')');
    constexpr std::size_t kLongest = 120;
    if (close == std::string_view::npos || close > kLongest) return false;
    const std::string_view inside = rest_.substr(1, close - 1);
    if (inside.find("pid=") == std::string_view::npos) return false;
    name_process(inside);
    rest_.remove_prefix(close + 1);
    return true;
  }

  /// "[rank0]:", "[rank 3]", "rank1:", "[default0]:", "[0]:".
  bool pass_rank() {
    const bool bracketed = rest_.starts_with('[');
    const std::size_t start = bracketed ? 1 : 0;
    std::size_t at = start;
    while (at < rest_.size() && is_letter(rest_[at]))
      ++at;
    const std::string_view word = rest_.substr(start, at - start);
    if (word != "rank" && word != "Rank" && word != "RANK" && word != "default" &&
        !(word.empty() && bracketed)) {
      return false;
    }
    if (at < rest_.size() && rest_[at] == ' ' && !word.empty()) ++at;
    const std::size_t digits = at;
    while (at < rest_.size() && is_digit(rest_[at]))
      ++at;
    if (at == digits || at - digits > 5) return false;
    const std::size_t end = at;
    if (bracketed) {
      if (at >= rest_.size() || rest_[at] != ']') return false;
      ++at;
    }
    const bool colon = at < rest_.size() && rest_[at] == ':';
    if (!colon && (!bracketed || word.empty())) return false;
    name_process(rest_.substr(start, end - start));
    rest_.remove_prefix(colon ? at + 1 : at);
    return true;
  }

  /// "server-1  | " of docker compose, "pod/name container | ".
  bool pass_container() {
    constexpr std::size_t kLongest = 64;
    std::size_t at = 0;
    while (at < rest_.size() && at < kLongest &&
           (is_letter(rest_[at]) || is_digit(rest_[at]) || rest_[at] == '-' || rest_[at] == '_' ||
            rest_[at] == '.' || rest_[at] == '/')) {
      ++at;
    }
    const std::size_t end = at;
    if (end == 0) return false;
    while (at < rest_.size() && rest_[at] == ' ')
      ++at;
    if (at + 1 >= rest_.size() || rest_[at] != '|' || rest_[at + 1] != ' ') return false;
    name_process(rest_.substr(0, end));
    rest_.remove_prefix(at + 2);
    return true;
  }

  [[nodiscard]] bool at_char(std::size_t at, std::string_view allowed) const {
    return at < rest_.size() && allowed.find(rest_[at]) != std::string_view::npos;
  }

  bool pass_time() {
    const std::size_t start = rest_.starts_with('[') ? 1 : 0;
    const auto stamp = read_time_stamp(rest_.substr(start));
    if (!stamp) return false;
    const std::string_view text = rest_.substr(start, stamp->length);
    if (!line_.time) {
      line_.time = stamp;
      line_.time_text = text;
    }
    rest_.remove_prefix(start + text.size());
    if (start == 1) pass_parallel_ranks();
    if (is_letter(text.front())) pass_host();
    while (at_char(0, "]:,-"))
      rest_.remove_prefix(1);
    return true;
  }

  /// " DP0 TP1]" behind the time in SGLang's brackets.
  void pass_parallel_ranks() {
    constexpr std::size_t kLongest = 40;
    const std::size_t end = rest_.substr(0, kLongest).find(']');
    if (end == std::string_view::npos || end < 2 || rest_.front() != ' ') return;
    const std::string_view ranks = rest_.substr(1, end - 1);
    const bool is_ranks = is_letter(ranks.front()) && is_digit(ranks.back()) &&
                          std::ranges::all_of(ranks, [](char c) {
                            return (c >= 'A' && c <= 'Z') || is_digit(c) || c == ' ' || c == '_';
                          });
    if (!is_ranks) return;
    name_process(ranks);
    rest_.remove_prefix(end);
  }

  /// What syslog and glog put behind their time: " node7 python[4242]: " and "   4242 ".
  void pass_host() {
    std::size_t at = 0;
    while (at_char(at, " "))
      ++at;
    const std::size_t word = at;
    while (at < rest_.size() && !is_gap(rest_[at]))
      ++at;
    if (std::ranges::all_of(rest_.substr(word, at - word), is_digit)) {
      rest_.remove_prefix(at);
      return;
    }
    const std::size_t tag = at + 1;
    const std::size_t colon = rest_.find("]: ", tag);
    constexpr std::size_t kLongest = 64;
    if (colon == std::string_view::npos || colon > tag + kLongest) return;
    const std::string_view name = rest_.substr(tag, colon + 1 - tag);
    if (name.find('[') == std::string_view::npos || name.find(' ') != std::string_view::npos) {
      return;
    }
    name_process(name);
    rest_.remove_prefix(colon + 3);
  }

  /// "stdout F ", "stderr P " of container runtimes.
  bool pass_stream() {
    if (!rest_.starts_with("stdout ") && !rest_.starts_with("stderr ")) return false;
    constexpr std::size_t kName = 7;
    if (!at_char(kName, "FP") || !at_char(kName + 1, " ")) return false;
    rest_.remove_prefix(kName + 2);
    return true;
  }

  bool pass_level() {
    static constexpr std::array<std::string_view, 9> kLevels = {
        "INFO", "WARNING", "WARN", "ERROR", "CRITICAL", "DEBUG", "FATAL", "TRACE", "NOTICE"};
    const std::size_t start = rest_.starts_with('[') ? 1 : 0;
    for (const std::string_view level : kLevels) {
      if (!rest_.substr(start).starts_with(level)) continue;
      std::size_t at = start + level.size();
      if (at < rest_.size() && (is_letter(rest_[at]) || is_digit(rest_[at]))) continue;
      while (at < rest_.size() && at_char(at, "]:|"))
        ++at;
      rest_.remove_prefix(at);
      return true;
    }
    return false;
  }

  /// "[gpu_worker.py:298]", "core.py:66]", "{subprocess.py:93}", "app.run:step:42 - ".
  bool pass_source() {
    const std::size_t start = at_char(0, "[{") ? 1 : 0;
    std::size_t at = start;
    constexpr std::size_t kLongest = 80;
    while (at < rest_.size() && at < kLongest &&
           (is_letter(rest_[at]) || is_digit(rest_[at]) || at_char(at, "_./-<>:"))) {
      ++at;
    }
    std::size_t digits_at = at;
    while (digits_at > start && is_digit(rest_[digits_at - 1]))
      --digits_at;
    if (digits_at == at || digits_at < start + 2 || rest_[digits_at - 1] != ':') return false;
    std::size_t length = 0;
    if (at_char(at, "]}")) length = at + 1;
    if (start == 0 && rest_.substr(at).starts_with(" - ")) length = at + 3;
    if (length == 0) return false;
    rest_.remove_prefix(length);
    return true;
  }

  /// "> " of a quotation, "- " and "| " of loggers, a count of uniq or grep.
  bool pass_mark() {
    if (rest_.size() >= 2 && at_char(0, ">|-") && rest_[1] == ' ') {
      rest_.remove_prefix(2);
      return true;
    }
    std::size_t at = 0;
    while (at < rest_.size() && is_digit(rest_[at]))
      ++at;
    if (at == 0 || at > 7 || at >= rest_.size()) return false;
    const bool is_count = rest_[at] == ' ' && at + 1 < rest_.size() && rest_[at + 1] == '[';
    if (!is_count && rest_[at] != ':') return false;
    rest_.remove_prefix(at + 1);
    return true;
  }

  LogLine& line_;
  std::string_view rest_;
};

}  // namespace

LogLine read_line(std::string_view text, std::uint64_t number) {
  LogLine line;
  line.number = number;
  line.text = text;
  PrefixReader(line).run();
  return line;
}

}  // namespace fragscope::logtext
