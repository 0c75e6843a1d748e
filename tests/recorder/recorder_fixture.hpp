// SPDX-License-Identifier: Apache-2.0
// A directory for rings, what was recorded there read back, and heaps as text to compare them with.
#pragma once

#include "allocator/policy/inspect/snapshot.hpp"
#include "analyzer/model/trace/trace_history.hpp"
#include "trace/file/drain.hpp"
#include "trace/ring/ring_file.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace fragscope::recorder::test {

/// A trace read back, with the bytes it refers to.
struct ReadBack {
  std::vector<std::byte> file;
  model::Recording recording;
  std::unique_ptr<model::TraceHistory> history;
};

[[nodiscard]] inline Result<ReadBack> read_ring(const std::string& path,
                                                bool is_writer_gone = true) {
  auto ring = trace::RingFile::open(path);
  if (!ring) return tl::unexpected(ring.error());
  auto file = trace::ring_as_file(ring->bytes(), is_writer_gone);
  if (!file) return tl::unexpected(file.error());
  ReadBack back;
  back.file = std::move(*file);
  auto history = model::TraceHistory::open(back.file, back.recording);
  if (!history) return tl::unexpected(history.error());
  back.history = std::move(*history);
  return back;
}

/// One line a segment: "0x200000000000 large stream 1 pool 0,2 plain: L4096/4000 P512/1 H2048".
using HeapText = std::vector<std::string>;

inline std::string segment_text(std::uint64_t address,
                                bool is_large,
                                std::uint64_t stream,
                                std::pair<std::uint64_t, std::uint64_t> pool,
                                bool is_expandable) {
  return std::to_string(address) + (is_large ? " large" : " small") + " stream " +
         std::to_string(stream) + " pool " + std::to_string(pool.first) + "," +
         std::to_string(pool.second) + (is_expandable ? " expandable:" : " plain:");
}

inline HeapText heap_text(const policy::CachingPolicy& policy) {
  HeapText text;
  for (const policy::SegmentSnapshot& segment : policy::snapshot(policy)) {
    std::string& line =
        text.emplace_back(segment_text(segment.address,
                                       segment.size_class == policy::SizeClass::kLarge,
                                       segment.stream,
                                       segment.pool,
                                       segment.is_expandable));
    for (const policy::BlockSnapshot& block : segment.blocks) {
      line += block.is_allocated ? " L" : block.is_active ? " P" : " H";
      line += std::to_string(block.size);
      if (block.is_active) line += "/" + std::to_string(block.requested_size);
    }
  }
  return text;
}

inline HeapText heap_text(const model::HeapState& state, const model::Recording& recording) {
  HeapText text;
  for (const model::HeapSegment& segment : state.segments) {
    const model::PoolId& pool = recording.pools[model::index_of(segment.home.pool)];
    std::string& line =
        text.emplace_back(segment_text(segment.address,
                                       segment.home.size_class == policy::SizeClass::kLarge,
                                       static_cast<std::uint64_t>(segment.home.stream),
                                       {pool.first, pool.second},
                                       segment.home.expandable));
    for (const model::HeapBlock& block : state.blocks_of(segment)) {
      line += block.state == model::BlockState::kLive      ? " L"
              : block.state == model::BlockState::kPending ? " P"
                                                           : " H";
      line += std::to_string(block.size_bytes);
      if (block.state != model::BlockState::kFree)
        line += "/" + std::to_string(block.requested_bytes);
    }
  }
  return text;
}

class RecorderTest : public ::testing::Test {
 public:
  RecorderTest() {
    std::string name = ::testing::TempDir() + "fragscope_rings_XXXXXX";
    directory_ = ::mkdtemp(name.data());
  }
  ~RecorderTest() override { std::filesystem::remove_all(directory_); }
  RecorderTest(const RecorderTest&) = delete;
  RecorderTest& operator=(const RecorderTest&) = delete;

 protected:
  [[nodiscard]] const std::string& directory() const { return directory_; }

 private:
  std::string directory_;
};

}  // namespace fragscope::recorder::test
