// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/frame_text.hpp"

#include <fmt/format.h>

#include <cstdint>

namespace fragscope::report {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// PyTorch's own Python and C++ frames say how, not where, memory was asked for.
bool is_program(std::string_view filename) {
  const bool is_python = filename.ends_with(".py");
  return is_python && !contains(filename, "/torch/") && !filename.starts_with("torch/");
}

struct Decoded {
  std::uint32_t code_point = 0;  ///< 0 for bytes that are no UTF-8.
  std::size_t length = 1;
};

/// The UTF-8 character at the start of `text`, which is not empty.
Decoded decode(std::string_view text) {
  const auto byte = [text](std::size_t at) { return static_cast<unsigned char>(text[at]); };
  const unsigned lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return {};
  std::uint32_t code_point = lead & (0xffU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code_point = code_point << 6 | (byte(i) & 0x3fU);
  }
  const bool overlong =
      (length == 3 && code_point < 0x800) || (length == 4 && code_point < 0x10000);
  const bool surrogate = code_point >= 0xd800 && code_point < 0xe000;
  if (overlong || surrogate || code_point > 0x10ffff) return {};
  return {code_point, length};
}

/// Not a control character of either set, nor one that turns the direction of the text around.
bool is_harmless(std::uint32_t code_point) {
  if (code_point < 32 || (code_point >= 127 && code_point < 160)) return false;
  const bool turns = (code_point >= 0x200b && code_point <= 0x200f) ||
                     (code_point >= 0x2028 && code_point <= 0x202e) ||
                     (code_point >= 0x2060 && code_point <= 0x206f) || code_point == 0xfeff;
  return !turns;
}

std::string_view last_parts(std::string_view path) {
  const auto last = path.rfind('/');
  if (last == std::string_view::npos || last == 0) return path;
  const auto before = path.rfind('/', last - 1);
  return before == std::string_view::npos ? path : path.substr(before + 1);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string kept;
  kept.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const Decoded next = decode(text.substr(at));
    if (is_harmless(next.code_point)) {
      kept += text.substr(at, next.length);
    } else {
      kept += '?';
    }
    at += next.length;
  }
  return kept;
}

std::string FrameText::shown(std::string_view text) const {
  if (!redact_) return std::string(text);
  // Numbered by first appearance: a hash could be undone with a list of likely names.
  const auto [place, added] = masks_->try_emplace(std::string(text), masks_->size() + 1);
  return fmt::format("masked-{}", place->second);
}

std::string FrameText::name(const model::Frame& frame) const {
  return shown(recording_.strings.view(frame.name));
}

std::string FrameText::filename(const model::Frame& frame) const {
  return shown(recording_.strings.view(frame.filename));
}

std::string FrameText::place(model::StackId stack) const {
  const auto frames = recording_.stacks.stack(stack);
  if (frames.empty()) return "no stack recorded";
  const model::Frame* chosen = &recording_.stacks.frame(frames.front());
  for (const model::FrameId id : frames) {
    const model::Frame& frame = recording_.stacks.frame(id);
    if (!is_program(recording_.strings.view(frame.filename))) continue;
    chosen = &frame;
    break;
  }
  return printable(
      fmt::format("{}:{} {}", last_parts(filename(*chosen)), chosen->line, name(*chosen)));
}

}  // namespace fragscope::report
