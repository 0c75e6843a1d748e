// SPDX-License-Identifier: Apache-2.0
// The rings that lie on this machine: how they are named, whose they are, whether somebody still
// writes them, and which may go. Everything else in the directory is left alone.
#pragma once

#include "trace/format/header.hpp"
#include "trace/result.hpp"
#include "trace/ring/ring_file.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace fragscope::trace {

/// FRAGSCOPE_RING_DIR where it is set, else /dev/shm.
[[nodiscard]] std::string ring_directory();

/// How folders begin in which one job's rings lie apart from the others (`fragscope run`).
inline constexpr const char* kJobFolderPrefix = "fragscope-run-";

/// A name that nobody else takes: "fragscope-PID-DEVICE-RANDOM.ring", with a rank
/// "fragscope-PID-DEVICE-rankN-RANDOM.ring".
[[nodiscard]] std::string ring_name(const ProcessIdentity& process, std::int32_t device);

/// One line for whoever reads of a failed request: what says why. Another one under `fragscope
/// run`, which takes the ring away and says it itself.
[[nodiscard]] std::string what_explains(const std::string& ring_path);

enum class WriterState : std::uint8_t {
  kAlive,
  kEnded,  ///< It closed the ring.
  kDead,   ///< It is gone and did not close it.
};

struct RingEntry {
  std::string path;
  std::uint64_t bytes = 0;
  std::uint32_t owner = 0;     ///< User id.
  std::int64_t changed_s = 0;  ///< The file or its last record, seconds since the Unix epoch.
  std::optional<Header> header;
  std::string problem;  ///< Why there is no header.
  WriterState writer = WriterState::kDead;

  /// Shows something that somebody may want to know: a failed request, or an end that was none.
  [[nodiscard]] bool is_evidence() const {
    return writer == WriterState::kDead || (header && header->failures > 0);
  }
};

/// Whether somebody writes the ring at `path` now.
[[nodiscard]] WriterState writer_state(const std::string& path, const Header& header);

/// All rings in the directory and in folders of jobs there, by name. Files that are not rings are
/// not listed, except under a ring's name: those say what is wrong. Fails if the directory cannot
/// be read.
[[nodiscard]] Result<std::vector<RingEntry>> list_rings(const std::string& directory);

/// How much evidence stays.
struct KeepLimits {
  std::size_t rings = 16;
  std::uint64_t bytes = std::uint64_t{256} << 20;
};

/// Removes this user's rings that nobody writes: all without evidence, and of the others the oldest
/// beyond the limits. Never one without a sound header, nor one of another user; folders of jobs go
/// with their last ring. Gives how many.
std::size_t reap_rings(const std::string& directory, const KeepLimits& limits = {});

}  // namespace fragscope::trace
