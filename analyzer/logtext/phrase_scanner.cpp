// SPDX-License-Identifier: Apache-2.0
#include "analyzer/logtext/phrase_scanner.hpp"

#include "trace/ascii.hpp"
#include "trace/check.hpp"

#include <algorithm>

namespace fragscope::logtext {
namespace {}  // namespace

PhraseScanner::PhraseScanner(std::initializer_list<Phrases> groups)
    : first_entry_(1U << kSlotBits, ~0U) {
  std::size_t shortest = ~std::size_t{0};
  std::uint32_t group = 0;
  for (const Phrases phrases : groups) {
    for (const std::string_view phrase : phrases) {
      FRAGSCOPE_CHECK(phrase.size() >= kWindow);
      std::string lowered(phrase);
      std::ranges::transform(lowered, lowered.begin(), lower);
      shortest = std::min(shortest, lowered.size());
      longest_ = std::max(longest_, lowered.size());
      phrases_.push_back(std::move(lowered));
      groups_.push_back(group);
    }
    ++group;
  }
  stride_ = std::clamp<std::size_t>(shortest - kWindow + 1, 1, kMaxStride);
  for (std::uint32_t phrase = 0; phrase < phrases_.size(); ++phrase) {
    for (std::uint32_t offset = 0; offset < stride_; ++offset) {
      entries_.push_back({slot_of(phrases_[phrase].data() + offset), phrase, offset});
    }
  }
  std::ranges::stable_sort(entries_, {}, &Entry::slot);
  for (std::uint32_t i = 0; i < entries_.size(); ++i) {
    const std::uint32_t slot = entries_[i].slot;
    seen_[slot >> 6] |= std::uint64_t{1} << (slot & 63);
    first_entry_[slot] = std::min(first_entry_[slot], i);
  }
}

bool PhraseScanner::matches(std::string_view text, std::size_t start, std::uint32_t phrase) const {
  const std::string& wanted = phrases_[phrase];
  if (text.size() - start < wanted.size()) return false;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (lower(text[start + i]) != wanted[i]) return false;
  }
  return true;
}

}  // namespace fragscope::logtext
