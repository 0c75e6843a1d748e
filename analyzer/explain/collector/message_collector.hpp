// SPDX-License-Identifier: Apache-2.0
// Puts messages together from the lines of a log: joins what was wrapped, keeps interleaved writers
// apart, and counts a message that comes again instead of repeating it. Used by `explainer`.
#pragma once

#include "analyzer/explain/collector/message_window.hpp"
#include "analyzer/explain/message/message.hpp"
#include "analyzer/logtext/log_reader.hpp"
#include "trace/result.hpp"

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fragscope::explain {

class MessageCollector {
 public:
  /// A line with a phrase, in the order of the log.
  void add(const logtext::LineHit& hit);

  /// The distinct messages by line of first appearance. Of very many the first and the last
  /// thousand are kept; one of those in between that comes again later counts as new.
  [[nodiscard]] std::vector<Message> take_messages();
  [[nodiscard]] std::uint64_t dropped_count() const { return dropped_count_; }

 private:
  struct Kept {
    std::string key;  ///< What makes it the same message.
    Message message;
  };

  void consume(const MessageWindow& window, std::size_t end);
  [[nodiscard]] std::size_t consumed_at(std::uint64_t offset) const;
  void keep(Message message);

  std::vector<Kept> first_;
  std::deque<Kept> last_;
  /// By key: the number of the message, counted from the first one kept or dropped.
  absl::flat_hash_map<std::string, std::uint64_t> known_;
  std::uint64_t dropped_count_ = 0;
  /// Lines that a message was read from, and how far: (offset in the log, bytes of cleaned text).
  std::deque<std::pair<std::uint64_t, std::size_t>> consumed_;
};

/// Every message in a log file, by line of first appearance ("-" is standard input).
[[nodiscard]] Result<std::vector<Message>> read_messages(const std::string& path);
/// The same for a text in memory.
[[nodiscard]] std::vector<Message> find_messages(std::string_view text);

}  // namespace fragscope::explain
