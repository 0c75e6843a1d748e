// SPDX-License-Identifier: Apache-2.0
// The kernels that libraries register when they are loaded, by the address that launches name them
// with. Apart from the machine: registration happens long before a program chooses its devices.
#pragma once

namespace fragscope::virtual_cuda {

/// `name` must live for good, as the strings in a fat binary do.
void register_kernel(const void* function, const char* name);

/// The name, or an empty string for a kernel that nobody registered.
[[nodiscard]] const char* kernel_name(const void* function);

}  // namespace fragscope::virtual_cuda
