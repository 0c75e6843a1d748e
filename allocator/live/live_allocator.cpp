// SPDX-License-Identifier: Apache-2.0
#include "allocator/live/live_allocator.hpp"

#include "allocator/policy/conf/allocator_conf.hpp"

#include <pthread.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <utility>

namespace fragscope::live {
namespace {

policy::PolicyOptions options_of_environment() {
  policy::PolicyOptions options;
  // PyTorch itself says what is wrong with the variable; here the rest of it counts.
  static_cast<void>(policy::apply_environment(
      options.version,
      [](const char* name) {
        return std::getenv(name); /* NOLINT(concurrency-mt-unsafe) */
      },
      options.conf));
  return options;
}

/// The command line, arguments separated by spaces.
std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  for (char& c : text)
    c = c == '\0' ? ' ' : c;
  while (text.ends_with(' '))
    text.pop_back();
  return text;
}

recorder::RecorderOptions recorder_options(const policy::PolicyOptions& options) {
  recorder::RecorderOptions recorder;
  recorder.conf = options.conf.last_text;
  recorder.command = command_line();
  recorder.library_version = FRAGSCOPE_VERSION;
  return recorder;
}

}  // namespace

recorder::RecorderOptions recorder_options_of_environment() {
  return recorder_options(options_of_environment());
}

LiveAllocator& LiveAllocator::instance() {
  static auto* const allocator = [] {
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): never destroyed
    auto* made = new LiveAllocator();
    pthread_atfork([] { instance().lock_all(); },
                   [] { instance().unlock_all(); },
                   [] { instance().unlock_all(); });
    static_cast<void>(std::atexit(
        [] { instance().visit_open([](LiveDevice& device) { device.end_recording(); }); }));
    return made;
  }();
  return *allocator;
}

LiveAllocator::LiveAllocator()
    : options_(options_of_environment())
    , recorders_(recorder_options(options_)) {}

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
  auto opened = std::make_unique<LiveDevice>(*api, std::move(*device), options_, recorders_);
  devices_[static_cast<std::size_t>(ordinal)].store(opened.get(), std::memory_order_release);
  return opened.release();
}

LiveDevice* LiveAllocator::find_open(int ordinal) const {
  if (ordinal < 0 || ordinal >= kMostDevices) return nullptr;
  return devices_[static_cast<std::size_t>(ordinal)].load(std::memory_order_acquire);
}

void LiveAllocator::lock_all() {
  opening_.lock();
  visit_open([](LiveDevice& device) { device.mutex().lock(); });
}

void LiveAllocator::unlock_all() {
  visit_open([](LiveDevice& device) { device.mutex().unlock(); });
  opening_.unlock();
}

}  // namespace fragscope::live
