// SPDX-License-Identifier: Apache-2.0
#include "analyzer/ingest/byte_source.hpp"

#include "analyzer/ingest/input.hpp"

#include <zlib.h>
#include <zstd.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <sys/mman.h>
#include <sys/stat.h>

namespace fragscope::ingest {
namespace {

constexpr std::size_t kChunkBytes = std::size_t{1} << 20;
// Snapshots repeat themselves and shrink 20 to 60 times. Beyond this factor (and this many bytes,
// below which a factor means nothing) the file was made to fill the memory.
constexpr std::size_t kMaxUnfolding = 300;
constexpr std::size_t kAlwaysAllowedBytes = std::size_t{64} << 20;

tl::unexpected<Error> no_memory() {
  return failure(ErrorCode::kTooLarge, "not enough memory to hold the input");
}

tl::unexpected<Error> unfolds_too_far(std::size_t stored_bytes) {
  return failure(ErrorCode::kTooLarge,
                 "unfolds to more than " + std::to_string(kMaxUnfolding) + " times its " +
                     std::to_string(stored_bytes) + " bytes; no snapshot does that");
}

tl::unexpected<Error> damaged_at(std::size_t offset, const std::string& message) {
  Error error;
  error.code = ErrorCode::kDamaged;
  error.message = message;
  error.byte_offset = offset;
  return tl::unexpected<Error>(std::move(error));
}

bool starts_with(std::span<const std::uint8_t> bytes, std::initializer_list<std::uint8_t> magic) {
  return bytes.size() >= magic.size() && std::equal(magic.begin(), magic.end(), bytes.begin());
}

/// A snapshot, a trace of ours, or a log of requests as RMM ("Thread,...") and STAlloc ("1 0x...",
/// "Iteration ...") write it.
bool may_be_recording(std::span<const std::uint8_t> bytes) {
  const bool pickle = bytes[0] == 0x80 && bytes[1] >= 2 && bytes[1] <= 5;
  const bool log = starts_with(bytes, {'T', 'h', 'r', 'e'}) || starts_with(bytes, {'1', ' '}) ||
                   starts_with(bytes, {'0', ' '}) || starts_with(bytes, {'I', 't', 'e', 'r'});
  return pickle || log || starts_with(bytes, {0x1f, 0x8b}) ||
         starts_with(bytes, {0x28, 0xb5, 0x2f, 0xfd}) || starts_with(bytes, {'F', 'S', 'T', 'R'});
}

tl::unexpected<Error> no_snapshot() {
  Error error;
  error.code = ErrorCode::kForeign;
  error.message =
      "expected a pickle of protocol 2 to 5, as PyTorch writes snapshots, a trace of fragscope, or "
      "a .gz or .zst of one";
  error.byte_offset = 0;
  return tl::unexpected<Error>(std::move(error));
}

bool too_far(const ByteBuffer& out, std::span<const std::uint8_t> in) {
  return out.size() > kAlwaysAllowedBytes && out.size() / kMaxUnfolding > in.size();
}

Result<ByteBuffer> inflate_gzip(std::span<const std::uint8_t> in) {
  struct Stream : z_stream {
    Stream()
        : z_stream{} {}
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    ~Stream() { inflateEnd(this); }
  } stream;
  constexpr int kGzipOnly = 15 + 16;
  if (inflateInit2(&stream, kGzipOnly) != Z_OK) return no_memory();

  ByteBuffer out;
  std::size_t used = 0;
  while (used < in.size()) {
    if (!out.reserve_more(kChunkBytes)) return no_memory();
    const std::size_t give = std::min(in.size() - used, kChunkBytes);
    stream.next_in = const_cast<Bytef*>(in.data() + used);  // zlib reads only
    stream.avail_in = static_cast<uInt>(give);
    const std::size_t room = std::min(out.room(), kChunkBytes);
    stream.next_out = out.data() + out.size();
    stream.avail_out = static_cast<uInt>(room);
    const int status = inflate(&stream, Z_NO_FLUSH);
    used += give - stream.avail_in;
    out.add(room - stream.avail_out);
    if (status == Z_STREAM_END) {
      // Several members in a row are one file; anything else behind the last is padding.
      if (!starts_with(in.subspan(used), {0x1f, 0x8b})) return out;
      if (inflateReset(&stream) != Z_OK) return no_memory();
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      return damaged_at(used,
                        std::string("damaged gzip data: ") +
                            (stream.msg != nullptr ? stream.msg : "expected a gzip stream"));
    }
    if (too_far(out, in)) return unfolds_too_far(in.size());
  }
  return damaged_at(used, "the gzip data end too early; expected a whole stream");
}

Result<ByteBuffer> decompress_zstd(std::span<const std::uint8_t> in) {
  const std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> stream(ZSTD_createDStream(),
                                                                          &ZSTD_freeDStream);
  if (stream == nullptr) return no_memory();

  ByteBuffer out;
  ZSTD_inBuffer source{in.data(), in.size(), 0};
  std::size_t hint = 1;
  const auto frame_follows = [&source, in] {
    return starts_with(in.subspan(source.pos), {0x28, 0xb5, 0x2f, 0xfd});
  };
  // Several frames in a row are one file; anything else behind the last is padding.
  while (hint != 0 || frame_follows()) {
    if (!out.reserve_more(kChunkBytes)) return no_memory();
    ZSTD_outBuffer target{out.data() + out.size(), std::min(out.room(), kChunkBytes), 0};
    const std::size_t before = source.pos;
    hint = ZSTD_decompressStream(stream.get(), &target, &source);
    if (ZSTD_isError(hint) != 0) {
      return damaged_at(source.pos, std::string("damaged zstd data: ") + ZSTD_getErrorName(hint));
    }
    out.add(target.pos);
    if (too_far(out, in)) return unfolds_too_far(in.size());
    if (hint != 0 && target.pos == 0 && source.pos == before && source.pos == source.size) {
      return damaged_at(source.pos, "the zstd data end too early; expected a whole frame");
    }
  }
  return out;
}

}  // namespace

void ByteBuffer::Free::operator()(std::uint8_t* bytes) const {
  std::free(bytes);
}

bool ByteBuffer::reserve_more(std::size_t more) {
  if (capacity_ - size_ >= more) return true;
  const std::size_t grown = std::max(size_ + more, capacity_ + capacity_ / 2);
  void* moved = std::realloc(data_.get(), grown);
  if (moved == nullptr) return false;
  static_cast<void>(data_.release());
  data_.reset(static_cast<std::uint8_t*>(moved));
  capacity_ = grown;
  return true;
}

ByteSource::ByteSource(ByteSource&& other) noexcept {
  *this = std::move(other);
}

ByteSource& ByteSource::operator=(ByteSource&& other) noexcept {
  if (this == &other) return *this;
  unmap();
  view_ = std::exchange(other.view_, {});
  buffer_ = std::move(other.buffer_);
  mapping_ = std::exchange(other.mapping_, nullptr);
  mapping_bytes_ = std::exchange(other.mapping_bytes_, 0);
  released_bytes_ = std::exchange(other.released_bytes_, 0);
  stored_bytes_ = std::exchange(other.stored_bytes_, 0);
  return *this;
}

ByteSource::~ByteSource() {
  unmap();
}

void ByteSource::unmap() {
  if (mapping_ != nullptr) ::munmap(mapping_, mapping_bytes_);
  mapping_ = nullptr;
}

void ByteSource::release_until(std::uint64_t offset) {
  constexpr std::uint64_t kStep = std::uint64_t{8} << 20;
  const std::uint64_t until = offset / kStep * kStep;
  if (until < released_bytes_) released_bytes_ = 0;
  if (mapping_ == nullptr || until == released_bytes_) return;
  auto* start = static_cast<std::uint8_t*>(mapping_) + released_bytes_;
  ::madvise(start, until - released_bytes_, MADV_DONTNEED);
  released_bytes_ = until;
}

Result<ByteSource> ByteSource::map(int descriptor, std::size_t size) {
  void* mapping = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (mapping == MAP_FAILED) return system_failure("cannot be mapped");
  ::madvise(mapping, size, MADV_SEQUENTIAL);
  ByteSource source;
  source.mapping_ = mapping;
  source.mapping_bytes_ = size;
  source.view_ = {static_cast<const std::uint8_t*>(mapping), size};
  source.stored_bytes_ = size;
  return source;
}

Result<ByteSource> ByteSource::read_all(int descriptor) {
  ByteSource source;
  constexpr std::size_t kEnoughToTell = 4;
  bool is_told = false;
  while (true) {
    if (!source.buffer_.reserve_more(kChunkBytes)) return no_memory();
    const ssize_t got =
        ::read(descriptor, source.buffer_.data() + source.buffer_.size(), source.buffer_.room());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failure("cannot be read");
    if (got == 0) break;
    source.buffer_.add(static_cast<std::size_t>(got));
    // A pipe may never end: what is no recording at its start is not read to its end.
    if (!is_told && source.buffer_.size() >= kEnoughToTell) {
      is_told = true;
      if (!may_be_recording({source.buffer_.data(), source.buffer_.size()})) return no_snapshot();
    }
  }
  source.view_ = {source.buffer_.data(), source.buffer_.size()};
  source.stored_bytes_ = source.buffer_.size();
  return source;
}

Result<ByteSource> ByteSource::read(const std::string& path) {
  if (path == "-") return read_all(STDIN_FILENO);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() < 0) return system_failure("cannot be opened");
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) return system_failure("cannot be examined");
  if (S_ISDIR(status.st_mode)) {
    return failure(ErrorCode::kUnreadable, "is a directory; expected a snapshot file");
  }
  if (S_ISREG(status.st_mode) && status.st_size > 0) {
    return map(file.number(), static_cast<std::size_t>(status.st_size));
  }
  return read_all(file.number());
}

Result<ByteSource> ByteSource::open(const std::string& path) {
  Result<ByteSource> source = read(path);
  if (!source) return source;
  const auto stored = source->view_;
  if (stored.empty()) {
    return damaged_at(0, "the input is empty (0 bytes); a dump that was interrupted leaves this");
  }
  const bool gzip = starts_with(stored, {0x1f, 0x8b});
  const bool zstd = starts_with(stored, {0x28, 0xb5, 0x2f, 0xfd});
  if (!gzip && !zstd) return source;

  Result<ByteBuffer> unfolded = gzip ? inflate_gzip(stored) : decompress_zstd(stored);
  if (!unfolded) return tl::unexpected<Error>(std::move(unfolded.error()));
  if (unfolded->size() == 0) {
    return damaged_at(0, "a compressed file of nothing; expected a snapshot inside");
  }
  ByteSource result;
  result.stored_bytes_ = stored.size();
  result.buffer_ = std::move(*unfolded);
  result.view_ = {result.buffer_.data(), result.buffer_.size()};
  return result;
}

}  // namespace fragscope::ingest
