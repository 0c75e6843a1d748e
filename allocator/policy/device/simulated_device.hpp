// SPDX-License-Identifier: Apache-2.0
// A device that keeps books and holds nothing. Addresses follow a documented rule, so that a run
// repeats exactly, and so that it can be compared with another implementation of the same rule.
#pragma once

#include "allocator/policy/device/device_memory.hpp"

#include <array>
#include <cstdint>
#include <map>
#include <set>

namespace fragscope::policy {

/// Streams whose work is done, and which are captured, when the test says so.
class SimulatedStreams final : public StreamEvents {
 public:
  [[nodiscard]] EventId record(StreamId stream) override;
  [[nodiscard]] bool is_done(EventId event) override;
  void wait(EventId event) override;
  [[nodiscard]] bool is_capturing() const override { return captured_.contains(current_); }

  [[nodiscard]] std::optional<std::vector<CaptureNode>> capture_ends(
      StreamId stream) const override;
  [[nodiscard]] bool precede(const std::vector<CaptureNode>& nodes, StreamId stream) const override;

  void use(StreamId stream) { current_ = stream; }
  /// The first stream of a capture.
  void capture(StreamId stream) { captured_[stream]; }
  /// `joining` waits for `stream`, and is in the capture from then on.
  void join_capture(StreamId stream, StreamId joining);
  /// One more node on a captured stream.
  void capture_work(StreamId stream);
  void end_capture();
  [[nodiscard]] bool is_captured(StreamId stream) const { return captured_.contains(stream); }
  /// Events on this stream stay open until it is released, or one of them is waited for, which
  /// releases it.
  void hold(StreamId stream) { held_.insert(stream); }
  void release(StreamId stream);
  /// Every open event, as cudaDeviceSynchronize.
  void wait_for_all();

 private:
  StreamId current_ = 0;
  std::map<StreamId, std::set<CaptureNode>> captured_;  // with the nodes their work ends in
  std::vector<std::set<CaptureNode>> nodes_;            // what each of this capture depends on
  CaptureNode first_node_ = 0;  // of this capture; whoever still holds an older one must not err
  std::set<StreamId> held_;
  std::map<EventId, StreamId> open_;
  EventId next_ = 0;
};

/// First fit, ascending: a range goes to the lowest address, a multiple of 2 MiB, from which it is
/// free. Segments and reservations share one address space of 64 TiB; only segments, in whole pages
/// of 2 MiB, and mapped pages count as used memory.
class SimulatedDevice final : public DeviceMemory {
 public:
  static constexpr std::uint64_t kAddressSpace = std::uint64_t{1} << 46;

  /// `streams`, where given, are those of this device: giving a segment back waits for all of them,
  /// as cudaFree does.
  explicit SimulatedDevice(std::uint64_t total_bytes,
                           Address base = Address{1} << 45,
                           SimulatedStreams* streams = nullptr);

  [[nodiscard]] std::optional<Address> allocate(std::uint64_t size) override;
  void free(Address address, std::uint64_t size) override;
  [[nodiscard]] std::optional<Address> reserve(std::uint64_t size) override;
  [[nodiscard]] bool map(Address address, std::uint64_t size, std::uint64_t page_size) override;
  void unmap(Address address, std::uint64_t size) override;
  void release(Address address, std::uint64_t size) override;
  [[nodiscard]] Capacity capacity() const override;

  /// The `nth` call from now on that takes memory of this kind (1 is the next one) fails, with
  /// `onward` every later one too. A call of `map` counts once for each page.
  enum class Fault : std::uint8_t { kAllocate, kPage };
  void fail(Fault kind, std::uint64_t nth, bool onward);
  void clear_faults() { faults_ = {}; }

  /// A segment, or address space with so much memory behind it, that this device's user has
  /// already.
  void hold(Address address, std::uint64_t size, std::uint64_t memory_bytes);
  /// Memory that others hold. What this device's user has already stays his.
  void set_outside_bytes(std::uint64_t bytes);
  [[nodiscard]] std::uint64_t used_bytes() const { return used_bytes_; }

 private:
  struct PlannedFault {
    std::uint64_t calls_left = 0;  ///< 0: none is planned.
    bool onward = false;
  };

  [[nodiscard]] std::optional<Address> place(std::uint64_t size);
  /// The address space of this range is free again.
  void forget(Address address);
  [[nodiscard]] bool take(Fault kind, std::uint64_t size);

  std::uint64_t total_bytes_;
  Address base_;
  SimulatedStreams* streams_;
  std::uint64_t used_bytes_ = 0;
  std::uint64_t outside_bytes_ = 0;
  std::array<PlannedFault, 2> faults_;
  std::map<Address, std::uint64_t> ranges_;  // segments and reservations
  /// By size: no range of that size, or a larger one, is free below. So that a search does not
  /// begin at the lowest address each time.
  std::map<std::uint64_t, Address> full_below_;
};

}  // namespace fragscope::policy
