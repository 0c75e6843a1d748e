// SPDX-License-Identifier: Apache-2.0
// Counts every allocation on the heap: a program that is built with heap_counter.cpp has its
// operators. Not under sanitizers, which have their own.
#pragma once

#include <cstddef>

namespace fragscope::test {

/// Allocations so far, of all threads, counted without a lock.
[[nodiscard]] std::size_t heap_allocations();

}  // namespace fragscope::test
