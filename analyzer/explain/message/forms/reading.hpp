// SPDX-License-Identifier: Apache-2.0
// One message while it is read: the text, how far it is understood, what was found, and the steps
// that every form takes. A form begins with certain words; `pytorch_forms` and `other_forms` have
// one for each, `message_reader` tries them.
#pragma once

#include "analyzer/explain/message/joined_cursor.hpp"
#include "analyzer/explain/message/message.hpp"
#include "analyzer/stages/failure/memory_words.hpp"

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace fragscope::explain {

struct Reading {
  Reading(std::string_view text, std::size_t start)
      : window(text)
      , at(start)
      , cursor(text, start) {}

  std::string_view window;
  std::size_t at;       ///< Of the words that the form begins with.
  JoinedCursor cursor;  ///< Behind what was understood.
  Message message;
  bool is_driver_request = false;  ///< The request is what PyTorch asked the driver for.
  bool yields = false;             ///< Words without figures: those of the same error go first.
  bool is_exception = false;  ///< The name of an exception, whose text may be in the next line.

  [[nodiscard]] bool be(Shape shape, Backend backend);
  /// The text ends here, or goes on with something else.
  [[nodiscard]] bool cut();

  /// A figure followed by `words`; without them nothing is passed. One that is "not available", or
  /// cannot be read, is passed and stays empty.
  [[nodiscard]] bool figure(std::optional<Bounds>& into, std::string_view words);
  /// The request, where it comes next.
  void request();
  /// "1073741824 bytes", exactly.
  void request_in_bytes();
  void device();
  void device(JoinedCursor& from);

  /// Passes everything up to and including the next `words` of this message, looking at most
  /// `within` bytes on and not beyond the first words of another message.
  [[nodiscard]] bool pass_through(JoinedCursor& from,
                                  std::string_view words,
                                  std::size_t within) const;
  /// A cursor behind the last `words` that end in front of the message, at most `within` bytes
  /// back, with no other message in between.
  [[nodiscard]] std::optional<JoinedCursor> behind_last(std::string_view words,
                                                        std::size_t within) const;
  /// Whether text[from, to) holds words of some other message.
  [[nodiscard]] bool has_message(std::size_t from, std::size_t to) const;
  /// The text in front of the message, at most `length` bytes.
  [[nodiscard]] std::string_view before(std::size_t length) const;
  /// Whether the words that were just passed tell of a failure.
  [[nodiscard]] bool tells_of_failure(const stages::MemoryWords& words) const;
};

/// The words that a form begins with, and what reads on behind them. The cursor stands there; it
/// returns whether this is a message.
struct Form {
  std::string_view words;
  bool (*read)(Reading& reading);
};

[[nodiscard]] std::optional<Bounds> if_available(std::optional<Bounds> bounds);

}  // namespace fragscope::explain
