// SPDX-License-Identifier: Apache-2.0
// A file that holds a ring, mapped into memory. On /dev/shm it is shared memory that outlives its
// process; any other file system does as well.
#pragma once

#include "trace/format/header.hpp"
#include "trace/process/descriptor.hpp"
#include "trace/result.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <boost/interprocess/mapped_region.hpp>

namespace fragscope::trace {

struct RingOptions {
  ProcessIdentity process;                                 ///< Of the writer, see `this_process`.
  std::uint64_t record_capacity = std::uint64_t{1} << 18;  ///< A power of two; 64 bytes each.
  std::uint64_t table_bytes = std::uint64_t{4} << 20;
  std::int32_t device = 0;  ///< Ordinal in the process.
  TraceSource source = TraceSource::kFragscope;
  TraceBeginning beginning = TraceBeginning::kEmpty;
  std::array<char, 16> device_uuid = {};
  std::uint64_t device_total_bytes = 0;
  std::string_view device_name;
  std::string_view torch_version;
  std::string_view conf;
  std::string_view command;
  std::string_view library_version;
};

/// What the file of such a ring takes.
[[nodiscard]] std::uint64_t ring_bytes(const RingOptions& options);

class RingFile {
 public:
  /// Makes the file, which must not be there yet, for its owner alone (mode 0600). All its space is
  /// taken from the file system now, since touching what is not there later would kill the process.
  /// The header is complete and says "recording". Where the file system can do that, nothing is
  /// left of it if the process ends before. Fails if there is no space, no right, or a file.
  [[nodiscard]] static Result<RingFile> create(const std::string& path, const RingOptions& options);

  /// Maps an existing one for reading; its contents are not looked at.
  [[nodiscard]] static Result<RingFile> open(const std::string& path);

  RingFile(RingFile&&) noexcept = default;
  RingFile& operator=(RingFile&&) noexcept = default;
  RingFile(const RingFile&) = delete;
  RingFile& operator=(const RingFile&) = delete;
  ~RingFile();

  [[nodiscard]] std::byte* memory() const { return static_cast<std::byte*>(region_.get_address()); }
  [[nodiscard]] std::span<const std::byte> bytes() const { return {memory(), region_.get_size()}; }
  [[nodiscard]] Header& header() const { return *reinterpret_cast<Header*>(memory()); }

  /// Says how recording ended. Only for the writer.
  void end(TraceState state, std::string_view reason = {});

 private:
  explicit RingFile(boost::interprocess::mapped_region region)
      : region_(std::move(region)) {}

  boost::interprocess::mapped_region region_;
  Descriptor lock_{-1};      // shows others that the writer lives
  std::uint64_t inode_ = 0;  // of what `lock_` is
};

}  // namespace fragscope::trace
