// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/core/machine.hpp"

#include "virtual_cuda/device/device_attributes.hpp"
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
  for (const OtherProcess& process : options_.processes) {
    const auto index = static_cast<std::size_t>(process.device);
    if (index < devices_.size()) devices_[index]->add_other(process);
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

// The device that one entry of CUDA_VISIBLE_DEVICES names, or null: a number, of which only the
// digits count, or as much of a UUID as no other has.
Device* Machine::named(std::string_view entry) {
  if (!entry.starts_with("GPU-")) {
    std::size_t index = 0;
    const auto [stopped, error] = std::from_chars(entry.data(), entry.data() + entry.size(), index);
    return error != std::errc() || index >= devices_.size() ? nullptr : devices_[index].get();
  }
  Device* found = nullptr;
  for (const auto& device : devices_) {
    if (!device_uuid_text(*device).starts_with(entry)) continue;
    if (found != nullptr) return nullptr;
    found = device.get();
  }
  return found;
}

// As the driver reads it: names with commas between them; the first that is none ends the list, and
// one that comes twice empties it.
void Machine::choose_visible(const char* visible) {
  if (visible == nullptr) {
    for (const auto& device : devices_)
      visible_.push_back(device.get());
    return;
  }
  std::string_view rest(visible);
  while (!rest.empty()) {
    const std::size_t comma = rest.find(',');
    std::string_view entry = rest.substr(0, comma);
    while (entry.starts_with(' '))
      entry.remove_prefix(1);
    Device* const device = named(entry);
    if (device == nullptr) return;
    if (std::find(visible_.begin(), visible_.end(), device) != visible_.end()) {
      visible_.clear();
      return;
    }
    visible_.push_back(device);
    if (comma == std::string_view::npos) return;
    rest.remove_prefix(comma + 1);
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
