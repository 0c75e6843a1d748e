// SPDX-License-Identifier: Apache-2.0
#include "tests/fidelity/program/operation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <span>

namespace fragscope::fidelity {
namespace {

struct Form {
  OperationKind kind;
  std::string_view name;
  std::size_t numbers;
  bool has_text = false;
};

constexpr auto kForms = std::to_array<Form>({
    {OperationKind::kAllocate, "allocate", 3},
    {OperationKind::kFree, "free", 1},
    {OperationKind::kRecordStream, "record_stream", 2},
    {OperationKind::kHoldStream, "hold_stream", 1},
    {OperationKind::kReleaseStream, "release_stream", 1},
    {OperationKind::kEmptyCache, "empty_cache", 0},
    {OperationKind::kUseStream, "use_stream", 1},
    {OperationKind::kSetFraction, "set_fraction", 1},
    {OperationKind::kApplyConf, "apply_conf", 0, true},
    {OperationKind::kResetPeaks, "reset_peaks", 0},
    {OperationKind::kResetAccumulated, "reset_accumulated", 0},
    {OperationKind::kAllocateAt, "allocate_at", 3},
    {OperationKind::kCreatePool, "create_pool", 2},
    {OperationKind::kBeginPool, "begin_pool", 2},
    {OperationKind::kEndPool, "end_pool", 1},
    {OperationKind::kReleasePool, "release_pool", 1},
    {OperationKind::kUseOnOom, "use_on_oom", 2},
    {OperationKind::kNoSplit, "no_split", 1},
    {OperationKind::kBeginCapture, "begin_capture", 2},
    {OperationKind::kJoinCapture, "join_capture", 2},
    {OperationKind::kCaptureWork, "capture_work", 1},
    {OperationKind::kEndCapture, "end_capture", 0},
    {OperationKind::kSetNeighbour, "set_neighbour", 1},
    {OperationKind::kFailMalloc, "fail_malloc", 2},
    {OperationKind::kFailCreate, "fail_create", 2},
    {OperationKind::kClearFaults, "clear_faults", 0},
    {OperationKind::kDeviceAllocate, "device_allocate", 2},
    {OperationKind::kDeviceFree, "device_free", 1},
    {OperationKind::kTagStream, "tag_stream", 1, true},
});

/// Cuts the next word off `line`; empty at its end.
std::string_view next_word(std::string_view& line) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string_view word = line.substr(0, line.find(' '));
  line.remove_prefix(word.size());
  return word;
}

std::optional<Operation> read_operation(std::string_view line) {
  const std::string_view name = next_word(line);
  const auto* const form = std::ranges::find(kForms, name, &Form::name);
  if (form == kForms.end()) return std::nullopt;
  Operation operation;
  operation.kind = form->kind;
  std::uint64_t* const places[] = {&operation.first, &operation.second, &operation.third};
  for (std::uint64_t* const place : std::span(places).first(form->numbers)) {
    const std::string_view word = next_word(line);
    const auto [end, error] = std::from_chars(word.begin(), word.end(), *place);
    if (error != std::errc{} || end != word.end()) return std::nullopt;
  }
  if (form->has_text && !line.empty()) operation.text = line.substr(1);
  return operation;
}

}  // namespace

std::string to_string(const Operation& operation) {
  const auto* const form = std::ranges::find(kForms, operation.kind, &Form::kind);
  std::string line(form->name);
  const std::uint64_t numbers[] = {operation.first, operation.second, operation.third};
  for (std::size_t i = 0; i < form->numbers; ++i)
    line += fmt::format(" {}", numbers[i]);
  if (form->has_text) line += " " + operation.text;
  return line;
}

Result<Program> read_program(std::string_view text) {
  Program program;
  std::size_t number = 0;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    ++number;
    if (line.empty() || line.front() == '#') continue;
    auto operation = read_operation(line);
    if (!operation)
      return failure(ErrorCode::kDamaged, fmt::format("line {}: no operation: {}", number, line));
    program.push_back(std::move(*operation));
  }
  return program;
}

}  // namespace fragscope::fidelity
