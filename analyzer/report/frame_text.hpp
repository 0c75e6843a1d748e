// SPDX-License-Identifier: Apache-2.0
// Frames as they are printed: which line of a stack names the place, and what is hidden when the
// output may leave the house.
#pragma once

#include "analyzer/recording/recording.hpp"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace fragscope::report {

class FrameText {
 public:
  FrameText(const model::Recording& recording, bool redact)
      : recording_(recording)
      , redact_(redact)
      , masks_(std::make_shared<Masks>()) {}
  /// What both hide goes by the same names.
  FrameText(const model::Recording& recording, const FrameText& like)
      : recording_(recording)
      , redact_(like.redact_)
      , masks_(like.masks_) {}

  [[nodiscard]] bool redacts() const { return redact_; }
  [[nodiscard]] std::string name(const model::Frame& frame) const;
  [[nodiscard]] std::string filename(const model::Frame& frame) const;
  /// The innermost line of the program itself (not of PyTorch, not C++), as "train.py:88 step";
  /// the innermost line of all if the program has none; "no stack recorded" without a stack.
  [[nodiscard]] std::string place(model::StackId stack) const;
  [[nodiscard]] const model::Recording& recording() const { return recording_; }

 private:
  using Masks = std::map<std::string, std::size_t>;

  [[nodiscard]] std::string shown(std::string_view text) const;

  const model::Recording& recording_;
  bool redact_;
  std::shared_ptr<Masks> masks_;
};

/// Text without control characters and without bytes that are no UTF-8, so that a file cannot steer
/// the terminal.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace fragscope::report
