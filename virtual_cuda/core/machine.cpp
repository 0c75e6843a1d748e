// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/core/machine.hpp"

#include "virtual_cuda/memory/host_pages.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <system_error>
#include <utility>

namespace fragscope::virtual_cuda {
namespace {

std::atomic<const Machine*> usable_machine = nullptr;

Options options_from_environment(std::string& error) {
  const char* const text = std::getenv(kOptionsVariable);  // NOLINT(concurrency-mt-unsafe)
  auto options = parse_options(text == nullptr ? "" : text);
  if (options) return *std::move(options);
  error = options.error().message;
  return Options();
}

}  // namespace

const Machine* Machine::existing() noexcept {
  // Pairs with the release in `instance`.
  return usable_machine.load(std::memory_order_acquire);
}

Machine& Machine::instance() {
  static Machine* const machine = [] {
    std::string error;
    Options options = options_from_environment(error);
    const char* const visible =
        std::getenv("CUDA_VISIBLE_DEVICES");  // NOLINT(concurrency-mt-unsafe)
    auto* const made = new Machine(std::move(options), visible);
    if (!error.empty()) {
      std::fprintf(stderr, "virtual_cuda: %s: %s\n", kOptionsVariable, error.c_str());
      made->status_ = Status::kNotInitialized;
    }
    // A fork while another thread is inside a call would leave the child with a lock that nobody
    // ends.
    static_cast<void>(pthread_atfork([] { instance().mutex_.lock(); },
                                     [] { instance().mutex_.unlock(); },
                                     [] { instance().mutex_.unlock(); }));
    const bool usable = made->status_ == Status::kSuccess && made->visible_count() > 0;
    if (usable) usable_machine.store(made, std::memory_order_release);
    return made;
  }();
  return *machine;
}

Machine::Machine(Options options, const char* visible)
    : options_(std::move(options))
    , allocations_(memory_, faults_)
    , virtual_memory_(memory_, faults_)
    , timeline_(static_cast<int>(options_.devices.size())) {
  for (const DeviceModel& model : options_.devices) {
    const int index = static_cast<int>(devices_.size());
    devices_.push_back(std::make_unique<Device>(index, model, options_.context_bytes));
    pools_.push_back(std::make_unique<AsyncPool>(*devices_.back(), allocations_, memory_));
  }
  for (const Neighbour& neighbour : options_.neighbours) {
    const auto index = static_cast<std::size_t>(neighbour.device);
    if (index < devices_.size()) devices_[index]->schedule(neighbour);
  }
  for (const FaultRule& rule : options_.faults)
    faults_.add(rule);
  choose_visible(visible);
  status_ = claim_windows();
}

Machine::~Machine() {
  for (const AddressRange& window : claimed_)
    host_pages::unclaim(window);
}

int Machine::ordinal_of(int index) const {
  const auto found =
      std::find_if(visible_.begin(), visible_.end(), [index](const Device* candidate) {
        return candidate->index() == index;
      });
  return found == visible_.end() ? -1 : static_cast<int>(found - visible_.begin());
}

// As the driver reads it: indices with commas between them, and the first that is none ends the
// list.
void Machine::choose_visible(const char* visible) {
  if (visible == nullptr) {
    for (const auto& device : devices_)
      visible_.push_back(device.get());
    return;
  }
  const std::string_view text(visible);
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at < end) {
    std::size_t index = 0;
    const auto [stopped, error] = std::from_chars(at, end, index);
    if (error != std::errc() || index >= devices_.size()) return;
    visible_.push_back(devices_[index].get());
    if (stopped == end || *stopped != ',') return;
    at = stopped + 1;
  }
}

Status Machine::claim_windows() {
  std::vector<AddressRange> windows{kPinnedWindow};
  for (const auto& device : devices_)
    windows.push_back(device->addresses().window());
  for (const AddressRange& window : windows) {
    if (!host_pages::claim(window)) {
      std::fprintf(
          stderr,
          "virtual_cuda: the addresses from 0x%llx on are not free in this process, or the "
          "limit of its address space (ulimit -v) is below 64 TiB\n",
          static_cast<unsigned long long>(window.begin));
      return Status::kNotInitialized;
    }
    claimed_.push_back(window);
  }
  return Status::kSuccess;
}

}  // namespace fragscope::virtual_cuda
