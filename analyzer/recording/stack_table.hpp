// SPDX-License-Identifier: Apache-2.0
// Interned strings, frames and call stacks. A snapshot repeats a few hundred stacks a million
// times; here each exists once and is named by a 32-bit id. Not thread-safe.
#pragma once

#include "analyzer/recording/ids.hpp"

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace fragscope::model {

/// Each distinct string once. Views stay valid as long as the table lives.
class StringTable {
 public:
  StringTable() = default;
  StringTable(StringTable&&) noexcept = default;
  StringTable& operator=(StringTable&&) noexcept = default;

  [[nodiscard]] StringId intern(std::string_view text);
  [[nodiscard]] std::string_view view(StringId id) const { return views_[index_of(id)]; }
  /// Bytes held, for limits on memory.
  [[nodiscard]] std::size_t held_bytes() const { return held_bytes_; }

 private:
  [[nodiscard]] std::string_view store(std::string_view text);

  std::vector<std::unique_ptr<char[]>> pages_;
  std::size_t page_used_ = 0;
  std::size_t page_size_ = 0;
  std::size_t held_bytes_ = 0;
  std::vector<std::string_view> views_;
  absl::flat_hash_map<std::string_view, StringId> ids_;
};

/// One line of a call stack. `line` may be 0 or negative where the writer knew none.
struct Frame {
  StringId name{};
  StringId filename{};
  std::int64_t line = 0;

  friend bool operator==(const Frame&, const Frame&) = default;
  template <class H>
  friend H AbslHashValue(H state, const Frame& frame) {
    return H::combine(std::move(state), frame.name, frame.filename, frame.line);
  }
};

/// Each distinct frame and each distinct sequence of frames once.
class StackTable {
 public:
  StackTable();
  StackTable(StackTable&&) noexcept = default;
  StackTable& operator=(StackTable&&) noexcept = default;

  [[nodiscard]] FrameId intern_frame(const Frame& frame);
  /// Innermost frame first, as PyTorch writes them.
  [[nodiscard]] StackId intern_stack(std::span<const FrameId> frames);
  [[nodiscard]] const Frame& frame(FrameId id) const { return frames_[index_of(id)]; }
  [[nodiscard]] std::span<const FrameId> stack(StackId id) const {
    const Range range = stacks_[index_of(id)];
    return {stack_frames_.data() + range.first, range.count};
  }
  [[nodiscard]] std::size_t stack_count() const { return stacks_.size(); }
  [[nodiscard]] std::size_t held_bytes() const;

 private:
  struct Range {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  void grow_slots();

  std::vector<Frame> frames_;
  absl::flat_hash_map<Frame, FrameId> frame_ids_;
  std::vector<FrameId> stack_frames_;
  std::vector<Range> stacks_;
  std::vector<std::uint32_t> stack_hashes_;
  // Open addressing over stack ids (0 = empty slot, since the empty stack is never looked up).
  std::vector<std::uint32_t> slots_;
};

}  // namespace fragscope::model
