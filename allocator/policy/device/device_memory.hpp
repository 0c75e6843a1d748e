// SPDX-License-Identifier: Apache-2.0
// The policy's seams to the outside: where segments come from, and when work on a stream is done.
// The live allocator puts the CUDA driver behind them, replay and tests a simulated device. Not
// thread-safe: the policy calls them under its own caller's lock.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace fragscope::policy {

using Address = std::uint64_t;
/// A stream's handle; 0 is the default stream.
using StreamId = std::uint64_t;

struct Capacity {
  std::uint64_t free_bytes = 0;  ///< Of the device, whoever uses the rest.
  std::uint64_t total_bytes = 0;
};

/// One device's memory. Sizes are bytes.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  virtual ~DeviceMemory() = default;

  /// A plain segment (cudaMalloc); none if the device is out of memory.
  [[nodiscard]] virtual std::optional<Address> allocate(std::uint64_t size) = 0;
  virtual void free(Address address, std::uint64_t size) = 0;

  /// Address space without memory behind it; none if there is no more.
  [[nodiscard]] virtual std::optional<Address> reserve(std::uint64_t size) = 0;
  /// Puts pages of `page_size` behind [address, address + size), all or none; false: out of memory.
  [[nodiscard]] virtual bool map(Address address, std::uint64_t size, std::uint64_t page_size) = 0;
  virtual void unmap(Address address, std::uint64_t size) = 0;
  /// Gives reserved address space back; nothing may be mapped in it.
  virtual void release(Address address, std::uint64_t size) = 0;

  [[nodiscard]] virtual Capacity capacity() const = 0;
};

/// A point in a stream's work.
using EventId = std::uint64_t;
/// A node of a graph that is being captured.
using CaptureNode = std::uint64_t;

class StreamEvents {
 public:
  StreamEvents() = default;
  StreamEvents(const StreamEvents&) = delete;
  StreamEvents& operator=(const StreamEvents&) = delete;
  virtual ~StreamEvents() = default;

  /// Marks the work that is on the stream now.
  [[nodiscard]] virtual EventId record(StreamId stream) = 0;
  [[nodiscard]] virtual bool is_done(EventId event) = 0;
  /// Whether the calling thread's current stream is in a capture. Asked only while one is underway.
  [[nodiscard]] virtual bool is_capturing() const = 0;
  /// The nodes that the next work on this stream will depend on; none if it is not captured.
  [[nodiscard]] virtual std::optional<std::vector<CaptureNode>> capture_ends(
      StreamId stream) const = 0;
  /// Whether all of `nodes` come before what is captured on this stream from now on.
  [[nodiscard]] virtual bool precede(const std::vector<CaptureNode>& nodes,
                                     StreamId stream) const = 0;
  /// Returns once the event is done. Each event is asked for until it is done, then forgotten.
  virtual void wait(EventId event) = 0;
};

}  // namespace fragscope::policy
