// SPDX-License-Identifier: Apache-2.0
#include "analyzer/logtext/byte_reader.hpp"

#include "analyzer/ingest/input.hpp"
#include "trace/format/header.hpp"

#include <zlib.h>
#include <zstd.h>

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include <sys/stat.h>

namespace fragscope::logtext {
namespace {

using Reader = std::unique_ptr<ByteReader>;

constexpr std::size_t kPieceBytes = std::size_t{256} << 10;
constexpr std::string_view kGzipMagic = "\x1f\x8b";
constexpr std::string_view kZstdMagic = "\x28\xb5\x2f\xfd";
constexpr std::string_view kTraceMagic(trace::kMagic.data(), trace::kMagic.size());

tl::unexpected<Error> damaged(const std::string& message) {
  return failure(ErrorCode::kDamaged, message);
}

class FileReader final : public ByteReader {
 public:
  explicit FileReader(int descriptor)
      : file_(descriptor) {}

  Result<std::size_t> read(std::span<char> into) override {
    while (true) {
      const ssize_t got = ::read(file_.number(), into.data(), into.size());
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return ingest::system_failure("cannot be read");
      read_bytes_ += static_cast<std::uint64_t>(got);
      return static_cast<std::size_t>(got);
    }
  }

  [[nodiscard]] const std::uint64_t* read_bytes() const { return &read_bytes_; }

 private:
  Descriptor file_;
  std::uint64_t read_bytes_ = 0;
};

/// Gives the bytes that were read to find out what follows, then what follows.
class HeadedReader final : public ByteReader {
 public:
  HeadedReader(std::string head, Reader rest)
      : head_(std::move(head))
      , rest_(std::move(rest)) {}

  Result<std::size_t> read(std::span<char> into) override {
    if (given_ == head_.size()) return rest_->read(into);
    const std::size_t given = head_.copy(into.data(), into.size(), given_);
    given_ += given;
    return given;
  }

 private:
  std::string head_;
  std::size_t given_ = 0;
  Reader rest_;
};

/// What a decoder has taken from the reader below it and not used yet.
class Pending {
 public:
  explicit Pending(Reader from)
      : from_(std::move(from))
      , bytes_(kPieceBytes) {}

  /// The bytes at hand; more are read if there are none. Empty at the end.
  Result<std::span<const char>> bytes() {
    if (used_ == filled_) {
      const auto got = from_->read(bytes_);
      if (!got) return tl::unexpected<Error>(got.error());
      used_ = 0;
      filled_ = *got;
    }
    return std::span<const char>(bytes_).subspan(used_, filled_ - used_);
  }

  void use(std::size_t count) { used_ += count; }

 private:
  Reader from_;
  std::vector<char> bytes_;
  std::size_t used_ = 0;
  std::size_t filled_ = 0;
};

/// Several members in a row are one log; anything else behind the last one is padding.
class GzipReader final : public ByteReader {
 public:
  explicit GzipReader(Reader from)
      : pending_(std::move(from)) {
    constexpr int kGzipOnly = 15 + 16;
    is_ready_ = inflateInit2(&stream_, kGzipOnly) == Z_OK;
  }
  ~GzipReader() override { inflateEnd(&stream_); }
  GzipReader(const GzipReader&) = delete;
  GzipReader& operator=(const GzipReader&) = delete;

  Result<std::size_t> read(std::span<char> into) override {
    if (!is_ready_) return failure(ErrorCode::kTooLarge, "not enough memory to unfold gzip data");
    while (!is_over_) {
      const auto given = pending_.bytes();
      if (!given) return tl::unexpected<Error>(given.error());
      // Without further input, what is still held inside comes out.
      stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(given->data()));  // reads only
      stream_.avail_in = static_cast<uInt>(given->size());
      stream_.next_out = reinterpret_cast<Bytef*>(into.data());
      stream_.avail_out = static_cast<uInt>(std::min<std::size_t>(into.size(), 1U << 30));
      const std::size_t room = stream_.avail_out;
      const int status = inflate(&stream_, Z_NO_FLUSH);
      pending_.use(given->size() - stream_.avail_in);
      if (status == Z_STREAM_END) {
        is_between_ = inflateReset(&stream_) == Z_OK;
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        if (is_between_) break;
        return damaged(std::string("damaged gzip data: ") +
                       (stream_.msg != nullptr ? stream_.msg : "expected a gzip stream"));
      } else if (!given->empty()) {
        is_between_ = false;
      }
      if (const std::size_t made = room - stream_.avail_out; made > 0) return made;
      if (given->empty() && !is_between_) {
        return damaged("the gzip data end too early; expected a whole stream");
      }
      if (given->empty()) break;
    }
    is_over_ = true;
    return 0;
  }

 private:
  Pending pending_;
  z_stream stream_{};
  bool is_ready_ = false;
  bool is_between_ = false;  // behind a whole member
  bool is_over_ = false;
};

class ZstdReader final : public ByteReader {
 public:
  explicit ZstdReader(Reader from)
      : pending_(std::move(from)) {}

  Result<std::size_t> read(std::span<char> into) override {
    if (stream_ == nullptr) {
      return failure(ErrorCode::kTooLarge, "not enough memory to unfold zstd data");
    }
    ZSTD_outBuffer target{into.data(), into.size(), 0};
    while (target.pos == 0) {
      const auto given = pending_.bytes();
      if (!given) return tl::unexpected<Error>(given.error());
      ZSTD_inBuffer source{given->data(), given->size(), 0};
      const std::size_t hint = ZSTD_decompressStream(stream_.get(), &target, &source);
      if (ZSTD_isError(hint) != 0) {
        if (is_between_) return 0;
        return damaged(std::string("damaged zstd data: ") + ZSTD_getErrorName(hint));
      }
      pending_.use(source.pos);
      if (given->empty() && target.pos == 0) {
        if (is_between_) return 0;
        return damaged("the zstd data end too early; expected a whole frame");
      }
      is_between_ = hint == 0;
    }
    return target.pos;
  }

 private:
  Pending pending_;
  std::unique_ptr<ZSTD_DStream, decltype(&ZSTD_freeDStream)> stream_{ZSTD_createDStream(),
                                                                     &ZSTD_freeDStream};
  bool is_between_ = false;  // behind a whole frame
};

/// UTF-16 as UTF-8; half a pair of surrogates becomes U+FFFD.
class Utf16Reader final : public ByteReader {
 public:
  Utf16Reader(Reader from, bool is_big_endian)
      : pending_(std::move(from))
      , is_big_endian_(is_big_endian) {}

  Result<std::size_t> read(std::span<char> into) override {
    while (made_.empty()) {
      const auto given = pending_.bytes();
      if (!given) return tl::unexpected<Error>(given.error());
      if (given->empty()) return 0;
      for (const char byte : *given)
        add(static_cast<unsigned char>(byte));
      pending_.use(given->size());
    }
    const std::size_t size = made_.copy(into.data(), into.size());
    made_.erase(0, size);
    return size;
  }

 private:
  void add(unsigned char byte) {
    has_half_ = !has_half_;
    if (has_half_) {
      half_ = byte;
      return;
    }
    const unsigned unit = is_big_endian_ ? half_ << 8U | byte : unsigned{byte} << 8U | half_;
    const bool is_low = unit >= 0xdc00 && unit < 0xe000;
    if (high_ != 0) {
      put(is_low ? 0x10000 + ((high_ - 0xd800) << 10U) + (unit - 0xdc00) : kReplacement);
      high_ = 0;
      if (is_low) return;
    }
    if (unit >= 0xd800 && unit < 0xdc00) {
      high_ = unit;
    } else if (unit != kByteOrderMark) {
      put(is_low ? kReplacement : unit);
    }
  }

  void put(unsigned code_point) {
    const auto tail = [code_point](unsigned shift) {
      return static_cast<char>(0x80 | ((code_point >> shift) & 0x3f));
    };
    if (code_point < 0x80) {
      made_ += static_cast<char>(code_point);
    } else if (code_point < 0x800) {
      made_ += {static_cast<char>(0xc0 | code_point >> 6), tail(0)};
    } else if (code_point < 0x10000) {
      made_ += {static_cast<char>(0xe0 | code_point >> 12), tail(6), tail(0)};
    } else {
      made_ += {static_cast<char>(0xf0 | code_point >> 18), tail(12), tail(6), tail(0)};
    }
  }

  static constexpr unsigned kReplacement = 0xfffd;
  static constexpr unsigned kByteOrderMark = 0xfeff;

  Pending pending_;
  bool is_big_endian_;
  bool has_half_ = false;
  unsigned half_ = 0;
  unsigned high_ = 0;
  std::string made_;
};

/// The first bytes of what a reader gives, which is put back.
Result<std::string> peek(Reader& reader, std::size_t count) {
  std::string head(count, '\0');
  std::size_t filled = 0;
  while (filled < count) {
    const auto got = reader->read(std::span(head).subspan(filled));
    if (!got) return tl::unexpected<Error>(got.error());
    if (*got == 0) break;
    filled += *got;
  }
  head.resize(filled);
  reader = std::make_unique<HeadedReader>(head, std::move(reader));
  return head;
}

enum class Encoding : std::uint8_t { kBytes, kUtf16Little, kUtf16Big };

/// No text begins so.
bool is_pickle(std::string_view head) {
  return head.size() >= 2 && head[0] == '\x80' && head[1] >= 2 && head[1] <= 5;
}

/// By the mark that editors and shells put in front, or by a run of ASCII as pairs with a zero.
Encoding encoding_of(std::string_view head) {
  if (head.starts_with("\xff\xfe")) return Encoding::kUtf16Little;
  if (head.starts_with("\xfe\xff")) return Encoding::kUtf16Big;
  constexpr std::size_t kEnoughToTell = 16;
  if (head.size() < kEnoughToTell) return Encoding::kBytes;
  bool even_zero = true;
  bool odd_zero = true;
  for (std::size_t i = 0; i < kEnoughToTell; ++i)
    (i % 2 == 0 ? even_zero : odd_zero) &= head[i] == '\0';
  if (even_zero == odd_zero) return Encoding::kBytes;
  return odd_zero ? Encoding::kUtf16Little : Encoding::kUtf16Big;
}

Result<int> open_file(const std::string& path, std::uint64_t& stored_total) {
  if (path == "-") return STDIN_FILENO;
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return ingest::system_failure("cannot be opened");
  struct stat status {};
  if (::fstat(descriptor, &status) == 0 && S_ISDIR(status.st_mode)) {
    ::close(descriptor);
    return failure(ErrorCode::kUnreadable, "is a directory; expected a log");
  }
  stored_total = static_cast<std::uint64_t>(std::max<off_t>(status.st_size, 0));
  ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_SEQUENTIAL);
  return descriptor;
}

}  // namespace

Result<LogBytes> open_log(const std::string& path) {
  LogBytes log;
  const auto descriptor = open_file(path, log.stored_total);
  if (!descriptor) return tl::unexpected<Error>(descriptor.error());
  auto file = std::make_unique<FileReader>(*descriptor);
  log.stored_read = file->read_bytes();
  Reader reader = std::move(file);

  auto head = peek(reader, kZstdMagic.size());
  if (!head) return tl::unexpected<Error>(head.error());
  if (head->starts_with(kGzipMagic)) reader = std::make_unique<GzipReader>(std::move(reader));
  if (head->starts_with(kZstdMagic)) reader = std::make_unique<ZstdReader>(std::move(reader));

  constexpr std::size_t kTextHead = 16;
  head = peek(reader, kTextHead);
  if (!head) return tl::unexpected<Error>(head.error());
  if (head->starts_with(kTraceMagic)) {
    return failure(ErrorCode::kForeign, "is a trace of fragscope; expected a log (see analyze)");
  }
  if (is_pickle(*head)) {
    return failure(ErrorCode::kForeign,
                   "is a pickle, as PyTorch writes snapshots; expected a log (see analyze)");
  }
  const Encoding encoding = encoding_of(*head);
  if (encoding != Encoding::kBytes) {
    log.encoding = "UTF-16";
    reader = std::make_unique<Utf16Reader>(std::move(reader), encoding == Encoding::kUtf16Big);
  }
  log.reader = std::move(reader);
  return log;
}

}  // namespace fragscope::logtext
