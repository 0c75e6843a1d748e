// SPDX-License-Identifier: Apache-2.0
// PyTorch's native allocator, recorded: calls go through here on their way to it, and a trace
// tracker hears what it decides. Blocks, addresses, statistics and errors stay what they are.
#pragma once

namespace fragscope::shim {

/// Puts it in, also where CUDA is in use already. Null, or in one line why not, and nothing has
/// changed. `library` is the path of libfragscope_alloc.so, which stays loaded.
[[nodiscard]] const char* attach(const char* library);

/// Writes what the program said since PyTorch's last decision. Nothing where nothing is attached.
/// May throw what PyTorch throws.
void flush();

}  // namespace fragscope::shim
