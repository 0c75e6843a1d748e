// SPDX-License-Identifier: Apache-2.0
// Distinct integer types for the things the analyzer counts, so that the compiler catches a stack
// handed over as a string or an event index as a block. Used by every part of the analyzer.
#pragma once

#include <cstdint>
#include <limits>

namespace fragscope::model {

/// An interned string; index into `StringTable`.
enum class StringId : std::uint32_t {};
/// An interned (function, file, line); index into `StackTable::frames`.
enum class FrameId : std::uint32_t {};
/// An interned call stack, innermost frame first. `kNoStack` is the empty one.
enum class StackId : std::uint32_t {};
/// An interned pool id, index into `Recording::pools`.
enum class PoolIndex : std::uint16_t {};
/// A block's life from hand-out to free; index into `Timeline::lives()`.
enum class LifeId : std::uint32_t {};

/// An event number of one device's trace; -1 stands for "before the first".
using EventIndex = std::int64_t;
inline constexpr EventIndex kBeforeFirst = -1;

inline constexpr StackId kNoStack{0};
inline constexpr PoolIndex kDefaultPool{0};
inline constexpr PoolIndex kUnknownPool{std::numeric_limits<std::uint16_t>::max()};
inline constexpr LifeId kNoLife{std::numeric_limits<std::uint32_t>::max()};

template <class Id>
[[nodiscard]] constexpr std::size_t index_of(Id id) {
  return static_cast<std::size_t>(id);
}

}  // namespace fragscope::model
