// SPDX-License-Identifier: Apache-2.0
// Finds any of a few hundred phrases in a log, case-insensitively (ASCII), at memory speed. Every
// phrase is entered with several of its four-byte windows, so that the text needs to be looked at
// only every few bytes; a look is one hash and one bit. Used by `log_reader`; pure, const after
// construction, safe to share between threads.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::logtext {

class PhraseScanner {
 public:
  /// Groups of phrases of at least four bytes. The shortest decides the speed: from eleven bytes
  /// on, the text is looked at every eighth byte.
  using Phrases = std::span<const std::string_view>;
  PhraseScanner(std::initializer_list<Phrases> groups);

  /// Calls `use(position, group)` for places in text[from, until) where a phrase of that group
  /// begins, in ascending order of the looks; a phrase may reach behind `until`. The same place may
  /// come twice, and a place up to `longest()` before an earlier one may follow it.
  template <class Use>
  void scan(std::string_view text, std::size_t from, std::size_t until, Use use) const {
    if (text.size() < kWindow) return;
    // A phrase that begins in front of `until` shows in a look at most `stride_` bytes later.
    const std::size_t last = std::min(text.size() - kWindow + 1, until + stride_);
    for (std::size_t at = from; at < last; at += stride_) {
      const std::uint32_t slot = slot_of(text.data() + at);
      if ((seen_[slot >> 6] >> (slot & 63) & 1) == 0) continue;
      check(text, at, slot, from, until, use);
    }
  }

  [[nodiscard]] std::size_t longest() const { return longest_; }

 private:
  static constexpr std::size_t kWindow = 4;
  static constexpr std::size_t kMaxStride = 8;
  static constexpr unsigned kSlotBits = 16;

  struct Entry {
    std::uint32_t slot = 0;
    std::uint32_t phrase = 0;
    std::uint32_t offset = 0;  ///< Of the window in the phrase.
  };

  [[nodiscard]] static std::uint32_t slot_of(const char* at) {
    std::uint32_t window;
    std::memcpy(&window, at, sizeof window);
    // Setting this bit makes letters of both cases equal; what else it makes equal is told apart
    // by the comparison that follows.
    return ((window | 0x20202020U) * 0x9e3779b1U) >> (32 - kSlotBits);
  }

  [[nodiscard]] bool matches(std::string_view text, std::size_t start, std::uint32_t phrase) const;

  template <class Use>
  void check(std::string_view text,
             std::size_t at,
             std::uint32_t slot,
             std::size_t from,
             std::size_t until,
             Use& use) const {
    for (std::uint32_t i = first_entry_[slot]; i < entries_.size() && entries_[i].slot == slot;
         ++i) {
      const Entry& entry = entries_[i];
      if (at < entry.offset) continue;
      const std::size_t start = at - entry.offset;
      if (start >= from && start < until && matches(text, start, entry.phrase)) {
        use(start, groups_[entry.phrase]);
      }
    }
  }

  std::vector<std::string> phrases_;   // in lower case
  std::vector<std::uint32_t> groups_;  // by phrase: which list it came from
  std::size_t longest_ = 0;
  std::size_t stride_ = 1;
  std::array<std::uint64_t, (1U << kSlotBits) / 64> seen_{};
  std::vector<std::uint32_t> first_entry_;
  std::vector<Entry> entries_;  // by slot
};

}  // namespace fragscope::logtext
