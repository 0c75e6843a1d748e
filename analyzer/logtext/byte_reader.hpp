// SPDX-License-Identifier: Apache-2.0
// The bytes of a log, piece by piece: compressed ones unfolded, UTF-16 as UTF-8. Whatever the log
// is like, no more than a few pieces are held.
#pragma once

#include "trace/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace fragscope::logtext {

/// Where bytes come from. Not thread-safe.
class ByteReader {
 public:
  ByteReader() = default;
  ByteReader(const ByteReader&) = delete;
  ByteReader& operator=(const ByteReader&) = delete;
  virtual ~ByteReader() = default;

  /// Fills the start of `into` (not empty) and says how far; 0 only at the end.
  [[nodiscard]] virtual Result<std::size_t> read(std::span<char> into) = 0;
};

struct LogBytes {
  std::unique_ptr<ByteReader> reader;
  /// Bytes taken from the file so far, as it is stored; lives as long as `reader`.
  const std::uint64_t* stored_read = nullptr;
  std::uint64_t stored_total = 0;  ///< 0 for a pipe.
  std::string_view encoding;       ///< "UTF-16"; empty where the bytes are taken as they are.
};

/// Opens a log; "-" is standard input. gzip, zstd and UTF-16 are known by content, also on a pipe.
/// Fails: cannot be opened, is a directory. Damaged compression shows while reading.
[[nodiscard]] Result<LogBytes> open_log(const std::string& path);

}  // namespace fragscope::logtext
