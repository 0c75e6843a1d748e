// SPDX-License-Identifier: Apache-2.0
// The opcodes of the pickle format, protocols 0 to 5: codes for those that `PickleMachine` runs,
// names for all of them, since a refusal names what it refused. Source: Python's pickletools.
#pragma once

#include <cstdint>
#include <string_view>

namespace fragscope::ingest {

enum class Opcode : std::uint8_t {
  kMark = '(',
  kStop = '.',
  kBinfloat = 'G',
  kBinint = 'J',
  kBinint1 = 'K',
  kBinint2 = 'M',
  kNone = 'N',
  kBinunicode = 'X',
  kAppend = 'a',
  kDict = 'd',
  kEmptyDict = '}',
  kAppends = 'e',
  kBinget = 'h',
  kLongBinget = 'j',
  kList = 'l',
  kEmptyList = ']',
  kBinput = 'q',
  kLongBinput = 'r',
  kSetitem = 's',
  kTuple = 't',
  kEmptyTuple = ')',
  kSetitems = 'u',
  kProto = 0x80,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewtrue = 0x88,
  kNewfalse = 0x89,
  kLong1 = 0x8a,
  kShortBinunicode = 0x8c,
  kMemoize = 0x94,
  kFrame = 0x95,
};

/// The name in pickletools, empty for a byte that is no opcode.
[[nodiscard]] std::string_view opcode_name(std::uint8_t code);

}  // namespace fragscope::ingest
