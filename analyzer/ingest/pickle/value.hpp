// SPDX-License-Identifier: Apache-2.0
// What `PickleMachine` and its builder hand to each other: a number, or a handle to something that
// the builder keeps. Plain data.
#pragma once

#include <cstdint>

namespace fragscope::ingest {

enum class ValueKind : std::uint8_t {
  kNone,
  kBool,
  kInt,     ///< Signed 64 bits in `payload`.
  kUint,    ///< 2^63 or more.
  kFloat,   ///< The bits of a double.
  kString,  ///< A handle from Builder::string.
  kDict,    ///< A handle from Builder::new_dict.
  kList,    ///< A handle from Builder::new_list.
  kPair,    ///< A handle from Builder::tuple.
  kOpaque,  ///< Something nobody needs.
};

struct Value {
  ValueKind kind = ValueKind::kNone;
  std::uint64_t payload = 0;
};

}  // namespace fragscope::ingest
