// SPDX-License-Identifier: Apache-2.0
#include "analyzer/recording/stack_table.hpp"

#include <algorithm>
#include <cstring>

namespace fragscope::model {
namespace {

constexpr std::size_t kPageBytes = std::size_t{64} << 10;
constexpr std::size_t kFirstSlots = 1024;

// A multiply-and-rotate hash: stacks are hashed once per event, so it has to be cheap; the table
// compares whole sequences, so a weak hash costs time only.
std::uint32_t hash_frames(std::span<const FrameId> frames) {
  std::uint64_t hash = 0x9e3779b97f4a7c15ULL ^ frames.size();
  for (const FrameId frame : frames) {
    hash = (hash ^ index_of(frame)) * 0xff51afd7ed558ccdULL;
    hash ^= hash >> 29;
  }
  return static_cast<std::uint32_t>(hash >> 32);
}

}  // namespace

std::string_view StringTable::store(std::string_view text) {
  if (text.size() > page_size_ - page_used_) {
    page_size_ = std::max(kPageBytes, text.size());
    page_used_ = 0;
    pages_.push_back(std::make_unique<char[]>(page_size_));
    held_bytes_ += page_size_;
  }
  char* at = pages_.back().get() + page_used_;
  if (!text.empty()) std::memcpy(at, text.data(), text.size());
  page_used_ += text.size();
  return {at, text.size()};
}

StringId StringTable::intern(std::string_view text) {
  if (const auto found = ids_.find(text); found != ids_.end()) return found->second;
  const StringId id{static_cast<std::uint32_t>(views_.size())};
  if (pages_.empty()) {
    pages_.push_back(std::make_unique<char[]>(kPageBytes));
    page_size_ = kPageBytes;
    held_bytes_ += kPageBytes;
  }
  const std::string_view kept = store(text);
  views_.push_back(kept);
  ids_.emplace(kept, id);
  held_bytes_ += 3 * sizeof(std::string_view);  // in the list and in the map
  return id;
}

StackTable::StackTable()
    : stacks_(1)
    , stack_hashes_(1)
    , slots_(kFirstSlots) {}

FrameId StackTable::intern_frame(const Frame& frame) {
  const auto [place, added] =
      frame_ids_.try_emplace(frame, FrameId{static_cast<std::uint32_t>(frames_.size())});
  if (added) frames_.push_back(frame);
  return place->second;
}

StackId StackTable::intern_stack(std::span<const FrameId> frames) {
  if (frames.empty()) return kNoStack;
  const std::uint32_t hash = hash_frames(frames);
  const std::size_t mask = slots_.size() - 1;
  for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
    const std::uint32_t id = slots_[at];
    if (id == 0) {
      const StackId added{static_cast<std::uint32_t>(stacks_.size())};
      slots_[at] = static_cast<std::uint32_t>(added);
      stacks_.push_back({static_cast<std::uint32_t>(stack_frames_.size()),
                         static_cast<std::uint32_t>(frames.size())});
      stack_hashes_.push_back(hash);
      stack_frames_.insert(stack_frames_.end(), frames.begin(), frames.end());
      if (stacks_.size() * 2 > slots_.size()) grow_slots();
      return added;
    }
    if (stack_hashes_[id] != hash) continue;
    if (std::ranges::equal(stack(StackId{id}), frames)) return StackId{id};
  }
}

void StackTable::grow_slots() {
  slots_.assign(slots_.size() * 2, 0);
  const std::size_t mask = slots_.size() - 1;
  for (std::uint32_t id = 1; id < stacks_.size(); ++id) {
    std::size_t at = stack_hashes_[id] & mask;
    while (slots_[at] != 0)
      at = (at + 1) & mask;
    slots_[at] = id;
  }
}

std::size_t StackTable::held_bytes() const {
  return frames_.capacity() * sizeof(Frame) * 2 + stack_frames_.capacity() * sizeof(FrameId) +
         stacks_.capacity() * (sizeof(Range) + sizeof(std::uint32_t)) +
         slots_.capacity() * sizeof(std::uint32_t);
}

}  // namespace fragscope::model
