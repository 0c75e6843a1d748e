// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/memory/host_pages.hpp"

#include "virtual_cuda/device/device.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include <sys/mman.h>

namespace fragscope::virtual_cuda::host_pages {
namespace {

constexpr int kNoBacking = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
// Below this, asking the kernel which pages exist costs more than copying them.
constexpr std::uint64_t kSparseFromBytes = 256 * kKiB;
constexpr std::uint64_t kStepBytes = 4 * kMiB;

void* pointer(std::uint64_t address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

std::uint64_t address_of(const void* pointer) {
  return reinterpret_cast<std::uint64_t>(pointer);
}

std::uint64_t page_bytes() {
  static const auto bytes = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

// Whether the range was opened by us, so that its whole pages may be dropped.
bool is_ours(std::uint64_t address) {
  return address >= kFirstWindow && address < kFirstWindow + kMaxDevices * kWindowBytes;
}

// Zeroes by dropping the whole pages; the kernel gives zeros when they are touched again.
void zero(std::uint64_t begin, std::uint64_t size_bytes) {
  const std::uint64_t end = begin + size_bytes;
  const std::uint64_t page = page_bytes();
  const std::uint64_t first_page = (begin + page - 1) / page * page;
  const std::uint64_t end_page = end / page * page;
  if (!is_ours(begin) || first_page >= end_page) {
    std::memset(pointer(begin), 0, size_bytes);
    return;
  }
  std::memset(pointer(begin), 0, first_page - begin);
  madvise(pointer(first_page), end_page - first_page, MADV_DONTNEED);
  std::memset(pointer(end_page), 0, end - end_page);
}

// One step of a sparse copy. Copies runs of source pages that exist and zeroes where the others go.
void copy_step(std::uint64_t destination, std::uint64_t source, std::uint64_t size_bytes) {
  const std::uint64_t page = page_bytes();
  const std::uint64_t first_page = source / page * page;
  std::array<unsigned char, kStepBytes / 4096 + 2> exists{};
  if (mincore(pointer(first_page), source + size_bytes - first_page, exists.data()) != 0) {
    std::memcpy(pointer(destination), pointer(source), size_bytes);
    return;
  }
  const auto page_exists = [&](std::uint64_t address) {
    return (exists[(address - first_page) / page] & 1U) != 0;
  };
  std::uint64_t at = source;
  while (at < source + size_bytes) {
    const bool present = page_exists(at);
    std::uint64_t run_end = at;
    while (run_end < source + size_bytes && page_exists(run_end) == present) {
      run_end = std::min(source + size_bytes, (run_end / page + 1) * page);
    }
    const std::uint64_t to = destination + (at - source);
    if (present) {
      std::memcpy(pointer(to), pointer(at), run_end - at);
    } else {
      zero(to, run_end - at);
    }
    at = run_end;
  }
}

}  // namespace

bool claim(AddressRange window) {
  void* const wanted = pointer(window.begin);
  void* const got =
      mmap(wanted, window.size_bytes, PROT_NONE, kNoBacking | MAP_FIXED_NOREPLACE, -1, 0);
  if (got == wanted) return true;
  // A kernel older than 4.17 does not know the flag and takes the address as a wish.
  if (got != MAP_FAILED) munmap(got, window.size_bytes);
  return false;
}

void unclaim(AddressRange window) {
  munmap(pointer(window.begin), window.size_bytes);
}

bool open(AddressRange range) {
  return mprotect(pointer(range.begin), range.size_bytes, PROT_READ | PROT_WRITE) == 0;
}

void close(AddressRange range) {
  // Mapped anew, since that also drops the contents. Where the kernel refuses, having too many
  // mappings, they stay, which costs host memory and harms no book.
  static_cast<void>(
      mmap(pointer(range.begin), range.size_bytes, PROT_NONE, kNoBacking | MAP_FIXED, -1, 0));
}

void copy(void* destination, const void* source, std::uint64_t size_bytes) {
  const std::uint64_t to = address_of(destination);
  const std::uint64_t from = address_of(source);
  const bool overlap = to < from + size_bytes && from < to + size_bytes;
  if (overlap || size_bytes < kSparseFromBytes || !is_ours(from)) {
    std::memmove(destination, source, size_bytes);
    return;
  }
  for (std::uint64_t done = 0; done < size_bytes; done += kStepBytes) {
    copy_step(to + done, from + done, std::min(kStepBytes, size_bytes - done));
  }
}

void fill(void* destination, std::uint8_t value, std::uint64_t size_bytes) {
  if (value == 0 && size_bytes >= kSparseFromBytes) {
    zero(address_of(destination), size_bytes);
  } else {
    std::memset(destination, value, size_bytes);
  }
}

}  // namespace fragscope::virtual_cuda::host_pages
