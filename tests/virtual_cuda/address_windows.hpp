// SPDX-License-Identifier: Apache-2.0
// For tests that need real host pages at the addresses of a virtual device.
#pragma once

namespace fragscope::virtual_cuda {

// ThreadSanitizer keeps those addresses for itself, so under it such tests are skipped.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kHaveAddressWindows = false;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
inline constexpr bool kHaveAddressWindows = false;
#else
inline constexpr bool kHaveAddressWindows = true;
#endif
#else
inline constexpr bool kHaveAddressWindows = true;
#endif

}  // namespace fragscope::virtual_cuda
