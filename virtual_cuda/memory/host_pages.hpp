// SPDX-License-Identifier: Apache-2.0
// The only file that maps memory of the host. A window is claimed without access and without
// backing; what the program allocates is opened for reading and writing, and costs nothing until it
// is touched. Used by the allocations and by virtual memory.
#pragma once

#include "virtual_cuda/device/address_space.hpp"

#include <cstdint>

namespace fragscope::virtual_cuda::host_pages {

/// Takes the window's addresses for us. Fails: something else lies there.
[[nodiscard]] bool claim(AddressRange window);
/// Gives a claimed window back to the operating system.
void unclaim(AddressRange window);

/// Makes claimed addresses readable and writable; they read as zero. Fails: the kernel refuses.
[[nodiscard]] bool open(AddressRange range);
/// Drops the contents and any access.
void close(AddressRange range);

/// Copies `size_bytes`, like memmove. Source pages that were never written are not read: what they
/// hold is zero, and whole pages of zeros cost no memory at the destination either.
void copy(void* destination, const void* source, std::uint64_t size_bytes);
/// Fills with a byte. Whole pages of zeros cost no memory. Only for memory that was opened here.
void fill(void* destination, std::uint8_t value, std::uint64_t size_bytes);

}  // namespace fragscope::virtual_cuda::host_pages
