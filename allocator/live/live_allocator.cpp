// SPDX-License-Identifier: Apache-2.0
#include "allocator/live/live_allocator.hpp"

#include <pthread.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <utility>

namespace fragscope::live {
namespace {

thread_local std::string last_reason;
std::atomic<LiveAllocator*> the_allocator = nullptr;

}  // namespace

LiveAllocator& LiveAllocator::instance() {
  static auto* const allocator = [] {
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): never destroyed
    auto* made = new LiveAllocator(LiveOptions::of_process());
    static_cast<void>(std::atexit([] { instance().end_recording(); }));
    the_allocator.store(made, std::memory_order_release);
    return made;
  }();
  return *allocator;
}

LiveAllocator* LiveAllocator::existing() {
  return the_allocator.load(std::memory_order_acquire);
}

LiveAllocator::LiveAllocator(const LiveOptions& options)
    : options_(options)
    , recorders_(options.recorder) {}

Result<LiveDevice*> LiveAllocator::device(int ordinal) {
  if (LiveDevice* open = find_open(ordinal)) return open;
  if (ordinal < 0 || ordinal >= kMostDevices) {
    return failure(ErrorCode::kUsage, "no device " + std::to_string(ordinal));
  }
  const std::lock_guard lock(opening_);
  if (LiveDevice* open = find_open(ordinal)) return open;
  const Result<driver::Api>& api = driver::api();
  if (!api) return tl::unexpected(api.error());
  auto device = driver::open_device(*api, ordinal);
  if (!device) return tl::unexpected(std::move(device.error()));
  // Only now that the driver is in use: what is registered last is asked first. A driver that locks
  // itself for a fork before us would be waited for by whoever holds a lock of ours inside a call.
  if (!std::exchange(guards_forks_, true)) {
    pthread_atfork([] { instance().lock_all(); },
                   [] { instance().unlock_all(); },
                   [] { instance().renew_all(); });
  }
  auto opened = std::make_unique<LiveDevice>(*api, std::move(*device), options_, recorders_);
  devices_[static_cast<std::size_t>(ordinal)].store(opened.get(), std::memory_order_release);
  return opened.release();
}

LiveDevice* LiveAllocator::open(int ordinal) noexcept {
  try {
    const auto opened = device(ordinal);
    if (opened) return *opened;
    last_reason = opened.error().message;
  } catch (const std::exception&) {
    last_reason = "the host has no memory for the allocator's books";
  }
  return nullptr;
}

LiveDevice* LiveAllocator::find_open(int ordinal) const noexcept {
  if (ordinal < 0 || ordinal >= kMostDevices) return nullptr;
  return devices_[static_cast<std::size_t>(ordinal)].load(std::memory_order_acquire);
}

std::string_view LiveAllocator::reason() const noexcept {
  return last_reason;
}

void LiveAllocator::end_recording() const {
  visit_open([](LiveDevice& device) { device.end_recording(); });
}

void LiveAllocator::lock_all() {
  stacks::CallStacks::of_process().lock();
  opening_.lock();
  visit_open([](LiveDevice& device) { device.lock(); });
}

void LiveAllocator::renew_all() {
  visit_open([](LiveDevice& device) { device.renew_lock(); });
  opening_.unlock();
  stacks::CallStacks::of_process().unlock();
}

void LiveAllocator::unlock_all() {
  visit_open([](LiveDevice& device) { device.unlock(); });
  opening_.unlock();
  stacks::CallStacks::of_process().unlock();
}

}  // namespace fragscope::live
