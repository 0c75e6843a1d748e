// SPDX-License-Identifier: Apache-2.0
// Random heaps for the tests of the scans, and the answers by the plainest loops there are. A heap
// is a list of groups, a group a list of segments, a segment a list of blocks; nothing here shares
// code with what it checks, but for the packing of a block.
#pragma once

#include "kernels/run_stream.hpp"
#include "kernels/scans.hpp"

#include <cstdint>
#include <iosfwd>
#include <random>
#include <string>
#include <vector>

namespace fragscope::kernels {

struct TestBlock {
  std::uint64_t size_bytes = 0;
  bool free = false;
};
using TestSegment = std::vector<TestBlock>;
using TestGroup = std::vector<TestSegment>;

/// What the random heaps look like.
struct Regime {
  std::string name;
  std::uint64_t blocks = 0;          ///< About so many; exactly, if `exact`.
  std::uint64_t group_blocks = 0;    ///< Of a group, at most.
  std::uint64_t segment_blocks = 0;  ///< Of a segment, at most.
  unsigned free_percent = 50;
  unsigned empty_group_percent = 0;
};

/// Those that every form of every scan is tested on. `tile` is the number of blocks of a tile, so
/// that lengths around its multiples are among them.
[[nodiscard]] std::vector<Regime> regimes(std::uint64_t tile);

/// The heap as a table, which it owns.
struct TestHeap {
  std::vector<TestGroup> groups;
  std::vector<PackedBlock> blocks;
  std::vector<std::uint64_t> group_begins;
  std::vector<std::uint64_t> segment_begins;

  [[nodiscard]] BlockTable table() const { return {blocks, group_begins}; }
};

/// The same heap for the same seed. Blocks are counted from `first_index`.
[[nodiscard]] TestHeap random_heap(const Regime& regime,
                                   std::uint64_t seed,
                                   std::uint64_t first_index = 0);
[[nodiscard]] TestHeap heap_of(std::vector<TestGroup> groups, std::uint64_t first_index = 0);

/// The runs of a group, one by one, by size.
[[nodiscard]] std::vector<std::uint64_t> reference_run_sizes(const TestGroup& group);
[[nodiscard]] GroupRuns reference_runs(const TestGroup& group);
/// The runs and the histogram of all groups.
[[nodiscard]] Runs reference_runs(const TestHeap& heap);

/// Compares group by group, so that a failure says where.
void expect_same_runs(const Runs& found, const Runs& wanted);
void expect_same_windows(const Windows& found, const Windows& wanted);

/// The seed of all random heaps; a failure prints it. FRAGSCOPE_TEST_SEED replaces it.
[[nodiscard]] std::uint64_t test_seed();

/// How a failed comparison shows them.
void PrintTo(const GroupRuns& runs, std::ostream* out);
void PrintTo(const Window& window, std::ostream* out);

/// A heap as the two ends of a stream: as many groups into each chunk as fit, and what was found of
/// them in the order in which it came.
class HeapSource {
 public:
  explicit HeapSource(const TestHeap& heap)
      : heap_(heap) {}

  /// Both lean on this object.
  [[nodiscard]] FillChunk fill();
  [[nodiscard]] TakeRuns take();
  [[nodiscard]] const std::vector<GroupRuns>& taken() const { return taken_; }
  [[nodiscard]] std::uint64_t chunks() const { return chunks_; }

 private:
  const TestHeap& heap_;
  std::uint64_t next_group_ = 0;
  std::uint64_t chunks_ = 0;  ///< Taken.
  std::vector<GroupRuns> taken_;
};

}  // namespace fragscope::kernels
