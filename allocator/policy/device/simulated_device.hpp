// SPDX-License-Identifier: Apache-2.0
// A device that keeps books and holds nothing. Addresses follow a documented rule, so that a run
// repeats exactly, and so that it can be compared with another implementation of the same rule.
#pragma once

#include "allocator/policy/device/device_memory.hpp"

#include <cstdint>
#include <map>
#include <set>

namespace fragscope::policy {

/// First fit, ascending: a range goes to the lowest address, a multiple of 2 MiB, from which it is
/// free. Segments and reservations share one address space; only segments and mapped pages count
/// as used memory.
class SimulatedDevice final : public DeviceMemory {
 public:
  explicit SimulatedDevice(std::uint64_t total_bytes, Address base = Address{1} << 45);

  [[nodiscard]] std::optional<Address> allocate(std::uint64_t size) override;
  void free(Address address, std::uint64_t size) override;
  [[nodiscard]] std::optional<Address> reserve(std::uint64_t size) override;
  [[nodiscard]] bool map(Address address, std::uint64_t size, std::uint64_t page_size) override;
  void unmap(Address address, std::uint64_t size) override;
  void release(Address address, std::uint64_t size) override;
  [[nodiscard]] Capacity capacity() const override;

  /// Memory that others take; what they cannot have they do not get.
  void set_outside_bytes(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t used_bytes() const { return used_bytes_; }

 private:
  [[nodiscard]] Address place(std::uint64_t size);

  std::uint64_t total_bytes_;
  Address base_;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t outside_bytes_ = 0;
  std::map<Address, std::uint64_t> ranges_;  // segments and reservations
};

/// Streams whose work is done when the test says so.
class SimulatedStreams final : public StreamEvents {
 public:
  [[nodiscard]] EventId record(StreamId stream) override;
  [[nodiscard]] bool is_done(EventId event) override;
  void wait(EventId event) override;

  /// Events on this stream stay open until released (or waited for).
  void hold(StreamId stream) { held_.insert(stream); }
  void release(StreamId stream);

 private:
  std::set<StreamId> held_;
  std::map<EventId, StreamId> open_;
  EventId next_ = 0;
};

}  // namespace fragscope::policy
