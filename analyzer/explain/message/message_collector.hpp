// SPDX-License-Identifier: Apache-2.0
// Puts messages together from the lines of a log: joins what was wrapped, keeps interleaved writers
// apart, and counts a message that comes again instead of repeating it. Used by `explainer`.
#pragma once

#include "analyzer/explain/message/message.hpp"
#include "analyzer/logtext/log_line.hpp"
#include "analyzer/logtext/log_reader.hpp"
#include "trace/result.hpp"

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace fragscope::explain {

class MessageCollector {
 public:
  /// A line with a phrase, in the order of the log.
  void add(const logtext::LineHit& hit);

  [[nodiscard]] std::vector<Message> take_messages() { return std::move(messages_); }
  [[nodiscard]] std::uint64_t dropped_count() const { return dropped_count_; }

 private:
  /// A line with what follows it from the same writer, cleaned, and where each line of it starts.
  struct Window {
    std::string text;
    std::size_t hit_start =
        0;  ///< The hit's line in the text; in front of it the end of the one before.
    std::size_t hit_end = 0;
    std::vector<std::pair<std::size_t, std::uint64_t>> line_starts;  ///< offset, line number
    std::string process;
    std::string time;
  };

  [[nodiscard]] static Window window_of(const logtext::LineHit& hit);
  static void add_line_before(const logtext::LineHit& hit, Window& window);
  [[nodiscard]] std::size_t consumed_in(std::uint64_t line) const;
  void consume(const Window& window, std::size_t end);
  void keep(Message message);

  std::vector<Message> messages_;
  absl::flat_hash_map<std::string, std::size_t> known_;
  std::uint64_t dropped_count_ = 0;
  /// Lines that a message was read from, and how far: (line, bytes of its cleaned text).
  std::vector<std::pair<std::uint64_t, std::size_t>> consumed_;
};

/// Every message in a log file, by line of first appearance ("-" is standard input).
[[nodiscard]] Result<std::vector<Message>> read_messages(const std::string& path);
/// The same for a text in memory.
[[nodiscard]] std::vector<Message> find_messages(std::string_view text);

}  // namespace fragscope::explain
