// SPDX-License-Identifier: Apache-2.0
// The driver as it was recorded: it gives the same addresses, refuses what was refused, and says
// where it is asked for something else than then. It watches the policy, too, to know whether that
// asks for the first time or once more after a release.
#pragma once

#include "allocator/policy/blocks/observer.hpp"
#include "allocator/policy/device/device_memory.hpp"
#include "analyzer/whatif/program/program.hpp"
#include "analyzer/whatif/recorded/reserved_spaces.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

namespace fragscope::whatif {

class RecordedDevice final : public policy::DeviceMemory, public policy::Observer {
 public:
  /// `program` outlives this.
  explicit RecordedDevice(const Program& program)
      : program_(program)
      , spaces_(program) {}

  /// The calls of this op come; those of ops that were left out in between are its own.
  void begin(std::uint32_t op) {
    op_ = op;
    is_first_try_ = op < program_.ops.size() && program_.ops[op].retried;
  }
  /// All calls of the op were made; if not, `difference` says so.
  void end();
  /// The first call that differs from the recorded one, in words; empty: none.
  [[nodiscard]] const std::string& difference() const { return difference_; }

  [[nodiscard]] std::optional<policy::Address> allocate(std::uint64_t size) override;
  void free(policy::Address address, std::uint64_t size) override;
  [[nodiscard]] std::optional<policy::Address> reserve(std::uint64_t size) override;
  [[nodiscard]] bool map(policy::Address address,
                         std::uint64_t size,
                         std::uint64_t page_size) override;
  void unmap(policy::Address address, std::uint64_t size) override;
  void release(policy::Address /*address*/, std::uint64_t /*size*/) override {}
  [[nodiscard]] policy::Capacity capacity() const override { return {0, program_.total_bytes()}; }

  void on_retry(std::uint64_t /*device_allocation*/, policy::StreamId /*stream*/) override {
    is_first_try_ = false;
  }

 private:
  /// The call that the op makes next, as recorded; null: no further one.
  [[nodiscard]] const DeviceCall* next() const;
  /// The same if it is of this kind, else null.
  [[nodiscard]] const DeviceCall* next_if(DeviceCall::Kind kind) const;
  /// The same if it was granted in the try that is under way.
  [[nodiscard]] const DeviceCall* granted(DeviceCall::Kind kind) const;
  void differ(const std::string& what);
  void expect(DeviceCall::Kind kind, policy::Address address, std::uint64_t size);

  const Program& program_;
  ReservedSpaces spaces_;
  std::uint32_t op_ = 0;
  std::size_t next_ = 0;
  bool is_first_try_ = false;  ///< Of an op that asked once more.
  std::string difference_;
};

}  // namespace fragscope::whatif
