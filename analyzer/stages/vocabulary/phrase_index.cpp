// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stages/timeline_builder.hpp"
#include "analyzer/stages/vocabulary/bar.hpp"
#include "analyzer/stages/vocabulary/phrase.hpp"
#include "trace/check.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace fragscope::stages {
namespace {

/// Finds every phrase in one pass: phrases are chained by a hash of their first bytes.
class PhraseIndex {
 public:
  PhraseIndex() {
    for (const auto table :
         {serving_phrases(), local_phrases(), training_phrases(), failure_phrases()}) {
      // Backwards, since a chain begins with what was added last.
      for (std::size_t i = table.size(); i-- > 0;)
        add(table[i]);
    }
    for (const std::string_view text : kBarPhrases)
      scanned_.emplace_back(text);
    // The shell's word by itself is too short; it stands alone, or padded in a job's status.
    for (const std::string_view killed : {"\nKilled\n", "\nKilled\r", " Killed     "})
      scanned_.emplace_back(killed);
    add_escaped();
    std::erase_if(scanned_, [](const std::string& text) { return text.size() < kShortest; });
    std::ranges::sort(scanned_);
    scanned_.erase(std::unique(scanned_.begin(), scanned_.end()), scanned_.end());
    texts_.assign(scanned_.begin(), scanned_.end());
  }

  void find(std::string_view text, std::vector<const Phrase*>& found) const {
    found.clear();
    for (std::size_t i = 0; i + kWindow <= text.size(); ++i) {
      std::uint16_t at = first_[key_of(text.data() + i)];
      for (; at != 0; at = entries_[at - 1U].next) {
        const Phrase& phrase = *entries_[at - 1U].phrase;
        if (!text.substr(i).starts_with(phrase.text)) continue;
        if (text.find(phrase.also) == std::string_view::npos) continue;
        if (std::ranges::find(found, &phrase) == found.end()) found.push_back(&phrase);
      }
    }
    std::ranges::stable_sort(found, {}, &Phrase::meaning);
  }

  [[nodiscard]] std::span<const std::string_view> texts() const { return texts_; }

 private:
  /// A scanner for shorter ones would look at nearly every byte, and find them everywhere.
  static constexpr std::size_t kShortest = 8;
  static constexpr std::size_t kWindow = 4;
  static constexpr unsigned kKeyBits = 13;  // 16 KiB, which a first-level cache holds

  struct Entry {
    const Phrase* phrase;
    std::uint16_t next;  ///< Index + 1 of the next one with the same key; 0: none.
  };

  static std::size_t key_of(const char* text) {
    std::uint32_t window = 0;
    std::memcpy(&window, text, sizeof window);
    return (window * 0x9e3779b1U) >> (32 - kKeyBits);
  }

  /// A scanner sees the log as it is: quotation marks are escaped in lines of JSON.
  void add_escaped() {
    for (std::size_t i = scanned_.size(); i-- > 0;) {
      std::string escaped;
      for (const char c : scanned_[i]) {
        if (c == '"') escaped += '\\';
        escaped += c;
      }
      if (escaped != scanned_[i]) scanned_.push_back(std::move(escaped));
    }
  }

  void add(const Phrase& phrase) {
    FRAGSCOPE_CHECK(phrase.text.size() >= kWindow);
    std::uint16_t& head = first_[key_of(phrase.text.data())];
    entries_.push_back({&phrase, head});
    head = static_cast<std::uint16_t>(entries_.size());
    scanned_.emplace_back(phrase.text);
  }

  std::array<std::uint16_t, 1U << kKeyBits> first_{};
  std::vector<Entry> entries_;
  std::vector<std::string> scanned_;
  std::vector<std::string_view> texts_;  // of `scanned_`
};

const PhraseIndex& phrase_index() {
  static const std::unique_ptr<const PhraseIndex> index = std::make_unique<PhraseIndex>();
  return *index;
}

}  // namespace

void find_phrases(std::string_view text, std::vector<const Phrase*>& found) {
  phrase_index().find(text, found);
}

std::span<const std::string_view> stage_phrases() {
  return phrase_index().texts();
}

}  // namespace fragscope::stages
