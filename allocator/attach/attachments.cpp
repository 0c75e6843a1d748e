// SPDX-License-Identifier: Apache-2.0
#include "allocator/attach/attachments.hpp"

#include "allocator/driver/driver_api.hpp"
#include "allocator/driver/driver_memory.hpp"
#include "allocator/live/live_options.hpp"

#include <cstdlib>
#include <exception>
#include <utility>

namespace fragscope::attach {
namespace {

std::atomic<Attachments*> the_attachments = nullptr;

}  // namespace

Attachments* Attachments::existing() {
  return the_attachments.load(std::memory_order_acquire);
}

Attachments& Attachments::instance() {
  static auto* const attachments = [] {
    // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): never destroyed
    auto* made = new Attachments();
    the_attachments.store(made, std::memory_order_release);
    static_cast<void>(std::atexit([] { existing()->end_recording(); }));
    return made;
  }();
  return *attachments;
}

Attachments::Attachments()
    : options_(live::LiveOptions::of_process().recorder) {}

void Attachments::configure(recorder::RecorderOptions options) {
  const std::lock_guard lock(mutex_);
  options_ = std::move(options);
}

NativeDevice* Attachments::device(int ordinal) {
  if (ordinal < 0 || ordinal >= kMostDevices) return nullptr;
  auto& place = devices_[static_cast<std::size_t>(ordinal)];
  const std::lock_guard lock(mutex_);
  if (NativeDevice* made = place.load(std::memory_order_acquire)) return made;
  auto made = std::make_unique<NativeDevice>(ordinal, *this);
  place.store(made.get(), std::memory_order_release);
  return made.release();
}

recorder::DeviceRecorder* Attachments::make(std::int32_t ordinal,
                                            trace::TraceBeginning beginning,
                                            std::string_view conf) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    if (!recorders_) recorders_ = std::make_unique<recorder::ProcessRecorder>(options_);
    if (!conf.empty()) recorders_->set_conf(std::string(conf));
    recorder::RecordedDevice device;
    device.ordinal = ordinal;
    if (const Result<driver::Api>& api = driver::api()) {
      driver::Device known = driver::describe_device(*api, ordinal);
      device.uuid = known.uuid;
      device.name = std::move(known.name);
      device.total_bytes = known.total_bytes;
    }
    device.source = trace::TraceSource::kPytorchNative;
    device.beginning = beginning;
    return recorders_->of(device);
  } catch (const std::exception&) {
    return nullptr;
  }
}

std::string Attachments::path_of(std::int32_t ordinal) const {
  const std::lock_guard lock(mutex_);
  return recorders_ ? recorders_->ring_path(ordinal) : "";
}

}  // namespace fragscope::attach
