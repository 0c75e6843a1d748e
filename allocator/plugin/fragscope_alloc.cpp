// SPDX-License-Identifier: Apache-2.0
#include "allocator/plugin/fragscope_alloc.h"

#include "allocator/attach/attachments.hpp"
#include "allocator/live/live_allocator.hpp"
#include "allocator/live/live_options.hpp"

#include <bit>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>

using fragscope::attach::Attachments;
using fragscope::attach::NativeDevice;
using fragscope::engine::Refusal;
using fragscope::live::LiveAllocator;
using fragscope::live::LiveDevice;
using fragscope::live::LiveOptions;
using fragscope::policy::Address;
using fragscope::policy::StreamId;
using fragscope::recorder::MarkKind;
using fragscope::recorder::MarkLog;
using fragscope::recorder::MarkSource;

namespace {

/// What a failed request throws.
class OutOfMemory : public std::bad_alloc {
 public:
  explicit OutOfMemory(std::string message)
      : message_(std::make_shared<std::string>(std::move(message))) {}
  [[nodiscard]] const char* what() const noexcept override { return message_->c_str(); }

 private:
  std::shared_ptr<const std::string> message_;  // copying an exception must not throw
};

/// Nothing leaves a function that only gives back or tells.
template <class Body>
void quietly(Body&& body) noexcept {
  try {
    body();
  } catch (const std::exception&) {
    // Without memory for its own books the allocator keeps what it has.
  }
}

/// The open device that handed this out, and does as asked with it.
template <class Do>
void with_owner(void* pointer, Do action) {
  bool is_done = false;
  LiveAllocator::instance().visit_open([&](LiveDevice& device) {
    if (!is_done) is_done = action(device, std::bit_cast<Address>(pointer));
  });
}

}  // namespace

extern "C" {

void* fragscope_alloc(ssize_t size, int device, void* stream) {
  if (size == 0) return nullptr;
  const auto opened = LiveAllocator::instance().device(device);
  if (!opened) {
    throw OutOfMemory("fragscope: device " + std::to_string(device) +
                      " cannot be used: " + opened.error().message);
  }
  Refusal refusal;
  const auto bytes = static_cast<std::uint64_t>(size);
  const auto stack = (*opened)->stack_for(bytes);
  const Address address =
      (*opened)->allocate(bytes, std::bit_cast<StreamId>(stream), stack, refusal);
  if (address == 0) throw OutOfMemory(std::string(refusal.message));
  return std::bit_cast<void*>(address);
}

void fragscope_free(void* pointer, ssize_t /*size*/, int device, void* /*stream*/) {
  if (pointer == nullptr) return;
  quietly([&] {
    LiveDevice* open = LiveAllocator::instance().find_open(device);
    if (open != nullptr && open->give_back(std::bit_cast<Address>(pointer))) return;
    with_owner(pointer,
               [](LiveDevice& owner, Address address) { return owner.give_back(address); });
  });
}

void fragscope_record_stream(void* pointer, void* stream) {
  quietly([&] {
    with_owner(pointer, [stream](LiveDevice& owner, Address address) {
      return owner.record_stream(address, std::bit_cast<StreamId>(stream));
    });
  });
}

void fragscope_empty_cache(void) {
  quietly([] {
    LiveAllocator::instance().visit_open([](LiveDevice& device) { device.empty_cache({}); });
  });
}

void fragscope_memory_fraction(double fraction, int device) {
  quietly([&] {
    const auto opened = LiveAllocator::instance().device(device);
    if (opened) (*opened)->set_memory_fraction(fraction);
  });
}

void* fragscope_base_alloc(void* pointer, size_t* size) {
  void* base = nullptr;
  quietly([&] {
    with_owner(pointer, [&](LiveDevice& owner, Address address) {
      const auto found = owner.find(address);
      if (!found) return false;
      base = std::bit_cast<void*>(found->segment);
      if (size != nullptr) *size = found->segment_size;
      return true;
    });
  });
  return base;
}

void fragscope_mark(const char* text, int kind) {
  if (text == nullptr || kind < 0 || kind > 2) return;
  quietly([&] {
    MarkLog::of_process().say(text, static_cast<MarkKind>(kind), MarkSource::kProgram);
    // PyTorch's own allocator is recorded with its next decision.
    if (const LiveAllocator* live = LiveAllocator::existing()) {
      live->visit_open([](LiveDevice& device) { device.write_marks(); });
    }
  });
}

void fragscope_mark_earlier(const char* text, int kind, uint64_t monotonic_ns, uint32_t thread) {
  if (text == nullptr || kind < 0 || kind > 2) return;
  quietly([&] {
    MarkLog::of_process().say_earlier(text, static_cast<MarkKind>(kind), monotonic_ns, thread);
  });
}

void fragscope_annotation(const char* text, int kind) {
  if (text == nullptr || kind < 1 || kind > 2) return;
  quietly([&] {
    MarkLog::of_process().say(text, static_cast<MarkKind>(kind), MarkSource::kAnnotation);
    if (const LiveAllocator* live = LiveAllocator::existing()) {
      live->visit_open([](LiveDevice& device) { device.write_annotations(); });
    }
  });
}

void fragscope_end(void) {
  quietly([] {
    if (const Attachments* attached = Attachments::existing()) attached->end_recording();
    if (const LiveAllocator* live = LiveAllocator::existing()) live->end_recording();
  });
}

const char* fragscope_configure(const char* name, const char* value) {
  static thread_local std::string wrong;
  if (name == nullptr || value == nullptr) return "expected a name and a value";
  try {
    wrong = LiveOptions::of_process().set(name, value);
  } catch (const std::exception&) {
    return "the host has no memory";
  }
  return wrong.empty() ? nullptr : wrong.c_str();
}

void* fragscope_engine(void) {
  try {
    return static_cast<fragscope::engine::Engine*>(&LiveAllocator::instance());
  } catch (const std::exception&) {
    return nullptr;
  }
}

const char* fragscope_ring_path(int device) {
  if (Attachments* attached = Attachments::existing()) {
    const NativeDevice* recorded = attached->device(device);
    return recorded == nullptr ? "" : recorded->ring_path();
  }
  const LiveAllocator* live = LiveAllocator::existing();
  const LiveDevice* open = live == nullptr ? nullptr : live->find_open(device);
  return open == nullptr ? "" : open->ring_path().c_str();
}

}  // extern "C"
