// SPDX-License-Identifier: Apache-2.0
// The texts word for word. Compared with real PyTorch by tests/fidelity.
#include "allocator/policy/inspect/out_of_memory_message.hpp"

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string>

namespace fragscope::policy {
namespace {

constexpr std::string_view kHint26 =
    " If reserved but unallocated memory is large try setting "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation "
    "for Memory Management  "
    "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)";
constexpr std::string_view kHint215 =
    " If reserved but unallocated memory is large try setting "
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See documentation "
    "for Memory Management  (https://docs.pytorch.org/docs/stable/notes/"
    "cuda.html#optimizing-memory-usage-with-pytorch-cuda-alloc-conf)";
constexpr std::string_view kHintExpandable =
    " expandable_segments is enabled. If instead the process is running out of virtual address "
    "space (VSZ), expandable segments may be over-reserving VA (each segment reserves ~9/8 of "
    "device memory, times the number of streams); reduce it via PYTORCH_CUDA_ALLOC_CONF "
    "expandable_segments_reserve / expandable_segments_reserve_by_class.";

/// 20 MiB were asked for; of 80 GiB PyTorch holds 70 and uses 68.5.
AllocationFailure some_failure() {
  AllocationFailure failure;
  failure.device_allocation = 20 * kMiB;
  failure.capacity = {.free_bytes = 12 * kMiB, .total_bytes = 80 * kGiB};
  failure.allocated_bytes = 68 * kGiB + 512 * kMiB;
  failure.reserved_bytes = 70 * kGiB;
  return failure;
}

PolicyOptions with(TorchVersion version, bool expandable = false) {
  PolicyOptions options;
  options.version = version;
  options.conf.rules.expandable_segments = expandable;
  return options;
}

std::string message(const AllocationFailure& failure,
                    const PolicyOptions& options = {},
                    std::span<const ProcessMemory> processes = {}) {
  return out_of_memory_message(failure, options, 3, processes);
}

const std::string kFigures =
    "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 3 has a total capacity of 80.00 GiB of "
    "which 12.00 MiB is free. ";
const std::string kUse =
    "Of the allocated memory 68.50 GiB is allocated by PyTorch, and 1.50 GiB is reserved by "
    "PyTorch but unallocated.";

TEST(OutOfMemoryMessage, IsThatOf26) {
  EXPECT_EQ(message(some_failure(), with(TorchVersion::kTorch26)),
            kFigures + kUse + std::string(kHint26));
}

TEST(OutOfMemoryMessage, IsThatOf215) {
  EXPECT_EQ(message(some_failure(), with(TorchVersion::kTorch215)),
            kFigures + kUse + std::string(kHint215));
}

TEST(OutOfMemoryMessage, AdvisesOtherwiseUnderExpandableSegmentsSince210) {
  EXPECT_EQ(message(some_failure(), with(TorchVersion::kTorch26, true)),
            kFigures + kUse + std::string(kHint26));
  EXPECT_EQ(message(some_failure(), with(TorchVersion::kTorch215, true)),
            kFigures + kUse + std::string(kHintExpandable));
}

TEST(OutOfMemoryMessage, NamesTheProcesses) {
  const std::array<ProcessMemory, 2> processes{
      {{.pid = 1, .bytes = 71 * kGiB, .is_this = true}, {.pid = 4711, .bytes = 9 * kGiB}}};
  EXPECT_EQ(message(some_failure(), {}, processes),
            kFigures +
                "Including non-PyTorch memory, this process has 71.00 GiB memory in use. Process "
                "4711 has 9.00 GiB memory in use. " +
                kUse + std::string(kHint215));
}

TEST(OutOfMemoryMessage, NamesTheLimit) {
  AllocationFailure failure = some_failure();
  failure.limit_bytes = 72 * kGiB;
  EXPECT_EQ(message(failure), kFigures + "72.00 GiB allowed; " + kUse + std::string(kHint215));
}

// What is free there counts as allocated.
TEST(OutOfMemoryMessage, NamesPrivatePools) {
  AllocationFailure failure = some_failure();
  failure.private_free_bytes = 512 * kMiB;
  EXPECT_EQ(message(failure),
            kFigures +
                "Of the allocated memory 69.00 GiB is allocated by PyTorch, with 512.00 MiB "
                "allocated in private pools (e.g., CUDA Graphs), and 1024.00 MiB is reserved by "
                "PyTorch but unallocated." +
                std::string(kHint215));
}

TEST(OutOfMemoryMessage, NamesAReserveThatIsTooSmall) {
  AllocationFailure failure = some_failure();
  failure.reserve_bytes = 10 * kMiB;
  const std::string rest =
      ", and a single allocation cannot span expandable segments. Raise PYTORCH_CUDA_ALLOC_CONF "
      "expandable_segments_reserve or expandable_segments_reserve_by_class (or unset it) so that a "
      "segment is at least 20.00 MiB.";
  const PolicyOptions options = with(TorchVersion::kTorch215, true);
  const std::string reserve =
      kFigures + kUse + " This allocation exceeds the expandable-segment reserve of 10.00 MiB";
  EXPECT_EQ(message(failure, options), reserve + " for this stream" + rest);
  failure.reserve_class = "draft";
  EXPECT_EQ(message(failure, options), reserve + " for stream reserve class 'draft'" + rest);
}

TEST(OutOfMemoryMessage, NamesNoReserveThatIsLargeEnough) {
  AllocationFailure failure = some_failure();
  failure.reserve_bytes = 20 * kMiB;
  EXPECT_EQ(message(failure, with(TorchVersion::kTorch215, true)),
            kFigures + kUse + std::string(kHintExpandable));
}

TEST(OutOfMemoryMessage, NamesAnEmptySourceLastBut26DoesNot) {
  AllocationFailure failure = some_failure();
  failure.is_source_empty = true;
  EXPECT_EQ(message(failure),
            kFigures + kUse + std::string(kHint215) +
                " The custom allocator backing this MemPool returned nullptr. Check preceding "
                "allocator warnings or logs for the underlying cause. This can indicate an "
                "allocator-specific error or memory constraint, even when device-wide free memory "
                "is available.");
  EXPECT_EQ(message(failure, with(TorchVersion::kTorch26)), kFigures + kUse + std::string(kHint26));
}

TEST(OutOfMemoryMessage, OfAnExbibyteHasNoFigures) {
  AllocationFailure failure;
  failure.kind = AllocationFailure::Kind::kBeyondAnExbibyte;
  EXPECT_EQ(message(failure), "CUDA out of memory. Tried to allocate more than 1EB memory.");
}

TEST(OutOfMemoryMessage, OfARejectionHasTheRequestedSizeOnly) {
  AllocationFailure failure;
  failure.kind = AllocationFailure::Kind::kRejected;
  failure.requested_size = 1000;
  EXPECT_EQ(message(failure),
            "CUDA out of memory. Allocation was preemptively rejected because it would exceed "
            "per_process_memory_fraction limit. Requested size: 1000 bytes");
}

// A unit has to be exceeded to be used.
TEST(FormatSize, ChangesItsUnitBehindEachBorder) {
  EXPECT_EQ(format_size(0), "0 bytes");
  EXPECT_EQ(format_size(kKiB), "1024 bytes");
  EXPECT_EQ(format_size(kKiB + 1), "1.00 KiB");
  EXPECT_EQ(format_size(kMiB), "1024.00 KiB");
  EXPECT_EQ(format_size(kMiB + 1), "1.00 MiB");
  EXPECT_EQ(format_size(kGiB), "1024.00 MiB");
  EXPECT_EQ(format_size(kGiB + 1), "1.00 GiB");
}

// 1.005 KiB are 1029.12 bytes; 1029 is nearer to 1.00, 1030 to 1.01.
TEST(FormatSize, RoundsToTwoDigits) {
  EXPECT_EQ(format_size(1029), "1.00 KiB");
  EXPECT_EQ(format_size(1030), "1.01 KiB");
  EXPECT_EQ(format_size(kGiB - 1), "1024.00 MiB");
}

TEST(FormatSize, HasNoUnitBeyondGibibytes) {
  EXPECT_EQ(format_size(3072 * kGiB), "3072.00 GiB");
  EXPECT_EQ(format_size(kUnlimited), "17179869184.00 GiB");
}

}  // namespace
}  // namespace fragscope::policy
