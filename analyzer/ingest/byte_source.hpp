// SPDX-License-Identifier: Apache-2.0
// The bytes of an input, wherever they come from: a file (mapped, not copied), standard input, or
// a .gz or .zst of either (recognised by content, not by name). Owns the memory; movable only.
#pragma once

#include "trace/result.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace fragscope::ingest {

/// A growable buffer that never clears what it is about to fill.
class ByteBuffer {
 public:
  [[nodiscard]] std::uint8_t* data() { return data_.get(); }
  [[nodiscard]] std::size_t size() const { return size_; }
  /// Makes room for `more` bytes behind `size()`; false if there is no memory.
  [[nodiscard]] bool reserve_more(std::size_t more);
  [[nodiscard]] std::size_t room() const { return capacity_ - size_; }
  void add(std::size_t count) { size_ += count; }

 private:
  struct Free {
    void operator()(std::uint8_t* bytes) const;
  };
  std::unique_ptr<std::uint8_t[], Free> data_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

/// Read-only view of an input's bytes, decompressed.
class ByteSource {
 public:
  /// `path` "-" is standard input. Fails: unreadable, a directory, empty, damaged compression, or a
  /// compressed file that unfolds beyond all measure.
  [[nodiscard]] static Result<ByteSource> open(const std::string& path);

  ByteSource(ByteSource&& other) noexcept;
  ByteSource& operator=(ByteSource&& other) noexcept;
  ByteSource(const ByteSource&) = delete;
  ByteSource& operator=(const ByteSource&) = delete;
  ~ByteSource();

  [[nodiscard]] std::span<const std::uint8_t> bytes() const { return view_; }
  /// Size as stored, before decompression.
  [[nodiscard]] std::uint64_t stored_bytes() const { return stored_bytes_; }
  /// Tells the system that everything below `offset` has been read, for the last time or for long.
  /// An offset below the one before begins another pass.
  void release_until(std::uint64_t offset);

 private:
  ByteSource() = default;
  [[nodiscard]] static Result<ByteSource> read(const std::string& path);
  [[nodiscard]] static Result<ByteSource> map(int descriptor, std::size_t size);
  [[nodiscard]] static Result<ByteSource> read_all(int descriptor);
  void unmap();

  std::span<const std::uint8_t> view_;
  ByteBuffer buffer_;
  void* mapping_ = nullptr;
  std::size_t mapping_bytes_ = 0;
  std::uint64_t released_bytes_ = 0;
  std::uint64_t stored_bytes_ = 0;
};

}  // namespace fragscope::ingest
