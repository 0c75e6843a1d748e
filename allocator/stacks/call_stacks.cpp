// SPDX-License-Identifier: Apache-2.0
#include "allocator/stacks/call_stacks.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdlib>
#include <string_view>
#include <utility>

namespace fragscope::stacks {
namespace {

/// Holds Python's lock.
class GilScope {
 public:
  explicit GilScope(const PythonApi& api)
      : api_(api)
      , state_(api.gil_ensure()) {}
  GilScope(const GilScope&) = delete;
  GilScope& operator=(const GilScope&) = delete;
  ~GilScope() { api_.gil_release(state_); }

 private:
  const PythonApi& api_;
  int state_;
};

std::string text_of(const PythonApi& api, PyObject* object, const char* attribute) {
  PyObject* value = api.attribute(object, attribute);
  std::ptrdiff_t size = 0;
  const char* text = value == nullptr ? nullptr : api.utf8(value, &size);
  std::string copy = text == nullptr ? "?" : std::string(text, static_cast<std::size_t>(size));
  if (text == nullptr) api.clear_error();
  if (value != nullptr) api.decrement(value);
  return copy;
}

/// A function of compiled code, as the dynamic linker knows it.
Frame native_frame(std::uintptr_t address) {
  Frame frame;
  Dl_info info{};
  if (::dladdr(std::bit_cast<void*>(address), &info) == 0) return {"?", "?", 0};
  frame.file = info.dli_fname == nullptr ? "?" : info.dli_fname;
  if (info.dli_sname == nullptr) {
    frame.function = "?";
    return frame;
  }
  int status = 0;
  char* plain = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
  frame.function = status == 0 ? plain : info.dli_sname;
  std::free(plain);  // NOLINT(cppcoreguidelines-no-malloc): the library's own form
  return frame;
}

/// Quick, and enough to find a stack by, which is then compared.
std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  constexpr std::uint64_t kGoldenRatio = 0x9E3779B97F4A7C15;
  hash = (hash ^ value) * kGoldenRatio;
  return hash ^ hash >> 32;
}

bool is_interpreter(const Frame& frame) {
  return frame.function.starts_with("_PyEval_EvalFrame");
}

/// Of the allocator itself, which says nothing about the program.
bool is_own(const Frame& frame) {
  const std::string_view file = frame.file;
  return file.substr(file.rfind('/') + 1).starts_with("libfragscope_");
}

}  // namespace

CallStacks& CallStacks::of_process() {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): its stacks are known by address for ever
  static auto* const stacks = new CallStacks();
  return *stacks;
}

std::vector<recorder::FrameText> CallStack::texts() const {
  std::vector<recorder::FrameText> texts;
  texts.reserve(frames.size());
  for (const Frame* frame : frames)
    texts.push_back({frame->function, frame->file, frame->line});
  return texts;
}

const CallStack* CallStacks::walk(StackKind kind) {
  if (kind == StackKind::kOff) return nullptr;
  std::array<Place, kMostFrames> places;
  std::size_t count = kind == StackKind::kAll ? walk_native(places) : 0;

  // Only threads that Python knows have a stack there, and none of them any more once it ends.
  const PythonApi* api = python_api();
  const bool has_python = api != nullptr && api->is_initialized() != 0 &&
                          api->is_finalizing() == 0 && api->this_thread_state() != nullptr;
  if (!has_python) {
    return count == 0 ? nullptr : find(nullptr, std::span(places).first(count));
  }
  const GilScope gil(*api);
  count += walk_python(*api, std::span(places).subspan(count));
  return count == 0 ? nullptr : find(api, std::span(places).first(count));
}

// Compiled code from its caller up to the interpreter. Whose frames those are is known by name.
std::size_t CallStacks::walk_native(std::span<Place> places) {
  std::array<void*, kMostFrames> addresses{};
  const int found = ::backtrace(addresses.data(), static_cast<int>(addresses.size()));
  const auto used = static_cast<std::size_t>(std::max(found, 0));
  std::size_t count = 0;
  for (std::size_t i = 0; i < used && count < places.size(); ++i) {
    const Place place{nullptr, std::bit_cast<std::uintptr_t>(addresses[i]) - 1};
    const Frame* frame = frame_of(nullptr, place);
    if (frame == nullptr || is_interpreter(*frame)) break;
    if (count == 0 && is_own(*frame)) continue;
    places[count++] = place;
  }
  return count;
}

// The references are given back at once: a code object that is not known yet is kept by the frame
// that runs it until `find` has taken one.
std::size_t CallStacks::walk_python(const PythonApi& api, std::span<Place> places) {
  PyObject* frame = api.current_frame();
  if (frame == nullptr) return 0;
  api.increment(frame);
  std::size_t count = 0;
  while (frame != nullptr && count < places.size()) {
    PyObject* code = api.frame_code(frame);
    places[count++] = {code, static_cast<std::uintptr_t>(api.frame_lasti(frame))};
    api.decrement(code);
    PyObject* back = api.frame_back(frame);
    api.decrement(frame);
    frame = back;
  }
  if (frame != nullptr) api.decrement(frame);
  return count;
}

const CallStack* CallStacks::find(const PythonApi* api, std::span<const Place> places) {
  std::uint64_t hash = 0;
  for (const Place& place : places) {
    hash = mix(hash, std::bit_cast<std::uintptr_t>(place.code));
    hash = mix(hash, place.offset);
  }
  {
    const std::lock_guard lock(mutex_);
    if (const CallStack* known = known_stack(hash, places)) return known;
  }
  auto added = std::make_unique<Known>();
  for (const Place& place : places) {
    const Frame* frame = frame_of(api, place);
    if (frame == nullptr) return nullptr;
    added->places.push_back(place);
    added->stack.frames.push_back(frame);
  }
  const std::lock_guard lock(mutex_);
  if (const CallStack* known = known_stack(hash, places)) return known;  // by now
  if (stacks_.size() >= kMostPlaces) return nullptr;
  return &stacks_[hash].emplace_back(std::move(added))->stack;
}

const CallStack* CallStacks::known_stack(std::uint64_t hash, std::span<const Place> places) const {
  const auto same_hash = stacks_.find(hash);
  if (same_hash == stacks_.end()) return nullptr;
  for (const auto& candidate : same_hash->second) {
    if (std::ranges::equal(candidate->places, places)) return &candidate->stack;
  }
  return nullptr;
}

// Python's names are taken without the lock: to take one may run the program's own code (a garbage
// collection, a finalizer), which may allocate and come here again, or let another thread do so.
const Frame* CallStacks::frame_of(const PythonApi* api, const Place& place) {
  {
    const std::lock_guard lock(mutex_);
    if (const auto known = frames_.find(place); known != frames_.end()) return known->second.get();
  }
  Frame frame = place.code == nullptr ? native_frame(place.offset) : python_frame(*api, place);
  const std::lock_guard lock(mutex_);
  if (frames_.size() >= kMostPlaces) return nullptr;
  const auto [added, is_new] = frames_.try_emplace(place);
  if (!is_new) return added->second.get();  // by now
  // An address stands for a code object only as long as somebody holds it.
  if (place.code != nullptr) api->increment(place.code);
  added->second = std::make_unique<Frame>(std::move(frame));
  return added->second.get();
}

Frame CallStacks::python_frame(const PythonApi& api, const Place& place) {
  Frame frame;
  frame.function = text_of(api, place.code, "co_qualname");
  if (frame.function == "?") frame.function = text_of(api, place.code, "co_name");
  frame.file = text_of(api, place.code, "co_filename");
  const int line = api.code_line(place.code, static_cast<int>(place.offset));
  frame.line = static_cast<std::uint32_t>(std::max(line, 0));
  return frame;
}

}  // namespace fragscope::stacks
