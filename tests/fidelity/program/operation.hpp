// SPDX-License-Identifier: Apache-2.0
// One step of a program that PyTorch's allocator and our policy both run. A step refers to its
// tensor, pool or stream by a small number; a step that makes no sense where it stands (a free of
// nothing) is skipped, so that any part of a program is a program, and a failing one can be shrunk.
#pragma once

#include "trace/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::fidelity {

enum class OperationKind : std::uint8_t {
  kAllocate,          ///< slot, bytes, stream, which becomes the current one
  kFree,              ///< slot
  kRecordStream,      ///< slot, stream
  kHoldStream,        ///< stream: its work from now on is not done
  kReleaseStream,     ///< stream
  kEmptyCache,        ///<
  kUseStream,         ///< stream: current from now on, until an allocation
  kSetFraction,       ///< millionths of the device
  kApplyConf,         ///< text
  kResetPeaks,        ///<
  kResetAccumulated,  ///<
  kAllocateAt,        ///< slot, which of what was freed last, bytes (0: as many as there were)
  kCreatePool,        ///< pool, 1: with an allocator of its own
  kBeginPool,         ///< pool, stream or kAnyStream
  kEndPool,           ///< pool
  kReleasePool,       ///< pool
  kUseOnOom,          ///< pool, 0 or 1
  kNoSplit,           ///< pool
  kBeginCapture,      ///< pool, stream
  kJoinCapture,       ///< stream in the capture, stream that joins it
  kCaptureWork,       ///< stream: one more node of the graph
  kEndCapture,        ///<
  kSetNeighbour,      ///< bytes that other processes hold
  kFailMalloc,        ///< nth, 1: and all later ones
  kFailCreate,        ///< nth, 1: and all later ones
  kClearFaults,       ///<
  kDeviceAllocate,    ///< slot, bytes: past the allocator
  kDeviceFree,        ///< slot
  kTagStream,         ///< stream; text: the class of its reserve
};

inline constexpr std::uint64_t kAnyStream = 0xffffffff;

struct Operation {
  OperationKind kind = OperationKind::kAllocate;
  std::uint64_t first = 0;  ///< As the kind says.
  std::uint64_t second = 0;
  std::uint64_t third = 0;
  std::string text;
};

using Program = std::vector<Operation>;

/// One line: the kind's name, its numbers, its text.
[[nodiscard]] std::string to_string(const Operation& operation);

/// Reads what `to_string` wrote, a line each; empty lines and lines with '#' in front are skipped.
[[nodiscard]] Result<Program> read_program(std::string_view text);

}  // namespace fragscope::fidelity
