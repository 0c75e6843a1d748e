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

// FNV-1a: the same name gets the same mask in every output, so that masked reports compare.
std::uint32_t mask_of(std::string_view text) {
  std::uint32_t hash = 2166136261U;
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
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
  for (const char c : text) {
    const bool control = static_cast<unsigned char>(c) < 32 || c == 127;
    kept += control ? '?' : c;
  }
  return kept;
}

std::string FrameText::shown(std::string_view text) const {
  return redact_ ? fmt::format("masked-{:08x}", mask_of(text)) : std::string(text);
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
