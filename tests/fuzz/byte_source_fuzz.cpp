// SPDX-License-Identifier: Apache-2.0
// Any bytes as an input file: plain, gzip or zstd. `ByteSource` opens paths, so the bytes lie in a
// memory file that has one under /proc. What unfolds is read as a snapshot.
#include "analyzer/ingest/byte_source.hpp"
#include "analyzer/ingest/torch_snapshot.hpp"

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include <sys/mman.h>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int file = ::memfd_create("fuzz", MFD_CLOEXEC);
  if (file < 0) std::abort();
  std::size_t written = 0;
  while (written < size) {
    const ssize_t count = ::write(file, data + written, size - written);
    if (count <= 0) std::abort();
    written += static_cast<std::size_t>(count);
  }
  {
    auto source = fragscope::ingest::ByteSource::open("/proc/self/fd/" + std::to_string(file));
    if (source) {
      if (source->bytes().empty() || source->stored_bytes() != size) std::abort();
      const auto recording = fragscope::ingest::read_torch_snapshot(
          source->bytes(),
          [&source](std::uint64_t done, std::uint64_t) { source->release_until(done); });
      if (!recording && recording.error().message.empty()) std::abort();
    } else if (source.error().message.empty()) {
      std::abort();
    }
  }
  ::close(file);
  return 0;
}
