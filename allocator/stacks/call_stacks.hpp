// SPDX-License-Identifier: Apache-2.0
// Call stacks of the program for the trace: walked at each request that wants one, kept once each.
// Names are taken when a place is seen for the first time; later a stack is a few comparisons.
#pragma once

#include "allocator/recorder/device_recorder.hpp"
#include "allocator/stacks/python_api.hpp"

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace fragscope::stacks {

/// A line of a program.
struct Frame {
  std::string function;
  std::string file;
  std::uint32_t line = 0;  ///< 0: not known.
};

/// The innermost frame first. Lives as long as the process, so that its address stands for it.
struct CallStack {
  std::vector<const Frame*> frames;

  /// As a recorder takes them; good as long as the stack.
  [[nodiscard]] std::vector<recorder::FrameText> texts() const;
};

enum class StackKind : std::uint8_t {
  kOff,
  kPython,  ///< Python's frames.
  kAll,     ///< Those of compiled code below them, too.
};

/// Thread-safe.
class CallStacks {
 public:
  /// The process's own; never destroyed.
  [[nodiscard]] static CallStacks& of_process();

  static constexpr std::size_t kMostFrames = 128;
  /// Beyond this many places nothing new is kept: a program that makes code as it runs must not
  /// fill the host's memory.
  static constexpr std::size_t kMostPlaces = std::size_t{1} << 18;

  /// The stack of this thread; of a deeper one the innermost `kMostFrames`. Null if it has none, or
  /// there is no room for it. Takes Python's lock, so no lock that somebody with Python's may wait
  /// for is to be held. Not noexcept: an interpreter that ends may end the thread right here.
  [[nodiscard]] const CallStack* walk(StackKind kind);

  // Held while a process forks.
  void lock() { mutex_.lock(); }
  void unlock() { mutex_.unlock(); }

 private:
  /// An instruction: in a Python code object, or an address with no code object.
  struct Place {
    PyObject* code = nullptr;
    std::uintptr_t offset = 0;
    friend bool operator==(const Place&, const Place&) = default;
    template <class H>
    friend H AbslHashValue(H hash, const Place& place) {
      return H::combine(std::move(hash), place.code, place.offset);
    }
  };
  struct Known {
    std::vector<Place> places;
    CallStack stack;
  };

  [[nodiscard]] std::size_t walk_native(std::span<Place> places);
  [[nodiscard]] static std::size_t walk_python(const PythonApi& api, std::span<Place> places);
  [[nodiscard]] const CallStack* find(const PythonApi* api, std::span<const Place> places);
  [[nodiscard]] const CallStack* known_stack(std::uint64_t hash,
                                             std::span<const Place> places) const;
  [[nodiscard]] const Frame* frame_of(const PythonApi* api, const Place& place);
  [[nodiscard]] static Frame python_frame(const PythonApi& api, const Place& place);

  std::mutex mutex_;
  absl::flat_hash_map<Place, std::unique_ptr<Frame>> frames_;
  absl::flat_hash_map<std::uint64_t, std::vector<std::unique_ptr<Known>>> stacks_;  // by hash
};

}  // namespace fragscope::stacks
