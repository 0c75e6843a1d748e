// SPDX-License-Identifier: Apache-2.0
#include "allocator/recorder/fork_guard.hpp"

#include <sys/mman.h>

namespace fragscope::recorder {
namespace {

constexpr std::size_t kPage = 4096;

}  // namespace

ForkGuard::ForkGuard() {
  void* page = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (::madvise(page, kPage, MADV_WIPEONFORK) != 0) {
    ::munmap(page, kPage);
    return;
  }
  page_ = static_cast<std::uint32_t*>(page);
  *page_ = 1;
}

ForkGuard::~ForkGuard() {
  if (page_ != nullptr) ::munmap(page_, kPage);
}

}  // namespace fragscope::recorder
