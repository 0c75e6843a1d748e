// SPDX-License-Identifier: Apache-2.0
// Checks for programmer errors, never for input. FRAGSCOPE_CHECK stays on in release builds of the
// tool; FRAGSCOPE_DCHECK only where FRAGSCOPE_ENABLE_DCHECKS is defined (test and sanitizer
// builds). Neither may be used in code that runs inside the user's job.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace fragscope {

[[noreturn]] inline void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "fragscope: bug: %s does not hold (%s:%d)\n", condition, file, line);
  std::abort();
}

}  // namespace fragscope

#define FRAGSCOPE_CHECK(condition) \
  ((condition) ? static_cast<void>(0) : ::fragscope::check_failed(#condition, __FILE__, __LINE__))

#ifdef FRAGSCOPE_ENABLE_DCHECKS
#define FRAGSCOPE_DCHECK(condition) FRAGSCOPE_CHECK(condition)
#else
#define FRAGSCOPE_DCHECK(condition) static_cast<void>(sizeof(!(condition)))
#endif
