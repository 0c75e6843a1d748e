// SPDX-License-Identifier: Apache-2.0
#include "analyzer/ingest/pickle/opcodes.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace fragscope::ingest {
namespace {

using Named = std::pair<std::uint8_t, std::string_view>;

// Ordered by code.
constexpr std::array kNames = {
    Named{0x28, "MARK"},         Named{0x29, "EMPTY_TUPLE"},
    Named{0x2e, "STOP"},         Named{0x30, "POP"},
    Named{0x31, "POP_MARK"},     Named{0x32, "DUP"},
    Named{0x42, "BINBYTES"},     Named{0x43, "SHORT_BINBYTES"},
    Named{0x46, "FLOAT"},        Named{0x47, "BINFLOAT"},
    Named{0x49, "INT"},          Named{0x4a, "BININT"},
    Named{0x4b, "BININT1"},      Named{0x4c, "LONG"},
    Named{0x4d, "BININT2"},      Named{0x4e, "NONE"},
    Named{0x50, "PERSID"},       Named{0x51, "BINPERSID"},
    Named{0x52, "REDUCE"},       Named{0x53, "STRING"},
    Named{0x54, "BINSTRING"},    Named{0x55, "SHORT_BINSTRING"},
    Named{0x56, "UNICODE"},      Named{0x58, "BINUNICODE"},
    Named{0x5d, "EMPTY_LIST"},   Named{0x61, "APPEND"},
    Named{0x62, "BUILD"},        Named{0x63, "GLOBAL"},
    Named{0x64, "DICT"},         Named{0x65, "APPENDS"},
    Named{0x67, "GET"},          Named{0x68, "BINGET"},
    Named{0x69, "INST"},         Named{0x6a, "LONG_BINGET"},
    Named{0x6c, "LIST"},         Named{0x6f, "OBJ"},
    Named{0x70, "PUT"},          Named{0x71, "BINPUT"},
    Named{0x72, "LONG_BINPUT"},  Named{0x73, "SETITEM"},
    Named{0x74, "TUPLE"},        Named{0x75, "SETITEMS"},
    Named{0x7d, "EMPTY_DICT"},   Named{0x80, "PROTO"},
    Named{0x81, "NEWOBJ"},       Named{0x82, "EXT1"},
    Named{0x83, "EXT2"},         Named{0x84, "EXT4"},
    Named{0x85, "TUPLE1"},       Named{0x86, "TUPLE2"},
    Named{0x87, "TUPLE3"},       Named{0x88, "NEWTRUE"},
    Named{0x89, "NEWFALSE"},     Named{0x8a, "LONG1"},
    Named{0x8b, "LONG4"},        Named{0x8c, "SHORT_BINUNICODE"},
    Named{0x8d, "BINUNICODE8"},  Named{0x8e, "BINBYTES8"},
    Named{0x8f, "EMPTY_SET"},    Named{0x90, "ADDITEMS"},
    Named{0x91, "FROZENSET"},    Named{0x92, "NEWOBJ_EX"},
    Named{0x93, "STACK_GLOBAL"}, Named{0x94, "MEMOIZE"},
    Named{0x95, "FRAME"},        Named{0x96, "BYTEARRAY8"},
    Named{0x97, "NEXT_BUFFER"},  Named{0x98, "READONLY_BUFFER"},
};

}  // namespace

std::string_view opcode_name(std::uint8_t code) {
  const auto found = std::ranges::lower_bound(kNames, code, {}, &Named::first);
  return found != kNames.end() && found->first == code ? found->second : std::string_view{};
}

}  // namespace fragscope::ingest
