// SPDX-License-Identifier: Apache-2.0
// PyTorch's native allocator, recorded: calls go through here on their way to it.
#pragma once

namespace fragscope::shim {

/// Puts it in. Null, or in one line why not. `library` is the path of libfragscope_alloc.so.
[[nodiscard]] const char* attach(const char* library);

}  // namespace fragscope::shim
