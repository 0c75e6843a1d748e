// SPDX-License-Identifier: Apache-2.0
// A directory for rings, what was recorded there read back, heaps as text to compare them with, and
// children to be jobs.
#pragma once

#include "allocator/policy/inspect/snapshot.hpp"
#include "analyzer/model/trace/trace_history.hpp"
#include "trace/file/drain.hpp"
#include "trace/ring/ring_file.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sys/mount.h>
#include <sys/wait.h>

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

/// The heap that the trace shows before that record, or at its end.
inline HeapText heap_before(const ReadBack& back, std::uint64_t record) {
  const auto event = static_cast<model::EventIndex>(record);
  if (!back.history->is_known_before(event)) return {"not known"};
  HeapText text;
  back.history->visit_states_until(std::span(&event, 1),
                                   [&](model::EventIndex, const model::HeapState& state) {
                                     text = heap_text(state, back.recording);
                                     return true;
                                   });
  return text;
}
inline HeapText heap_at_end(const ReadBack& back) {
  return heap_before(back, static_cast<std::uint64_t>(back.history->end_event()));
}

/// How a child ends that cannot have what its test needs of the system.
inline constexpr int kNotHere = 77;

/// Forks a child that runs `body` and exits with what that gives, or 1 if a claim failed in it.
template <class Body>
pid_t start_child(Body body) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const int code = body();
    std::fflush(stdout);
    _exit(::testing::Test::HasFailure() ? 1 : code);
  }
  return child;
}

/// As waitpid tells it: 0 if all went well.
inline int wait_for(pid_t child) {
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

template <class Body>
int in_child(Body body) {
  return wait_for(start_child(std::move(body)));
}

inline bool is_not_here(int status) {
  return WIFEXITED(status) && WEXITSTATUS(status) == kNotHere;
}

/// Gives this process mounts of its own; false where the system forbids it.
inline bool unshare_mounts() {
  if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return false;
  return mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0;
}

/// What this process writes to standard error, as long as this lives.
class StandardError {
 public:
  StandardError()
      : file_(std::tmpfile())
      , before_(dup(STDERR_FILENO)) {
    dup2(fileno(file_), STDERR_FILENO);
  }
  StandardError(const StandardError&) = delete;
  StandardError& operator=(const StandardError&) = delete;
  ~StandardError() {
    dup2(before_, STDERR_FILENO);
    close(before_);
    std::fclose(file_);
  }
  [[nodiscard]] std::string text() const {
    std::array<char, 4096> bytes{};
    const ssize_t size = pread(fileno(file_), bytes.data(), bytes.size(), 0);
    return {bytes.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
  }

 private:
  std::FILE* file_;
  int before_;
};

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
