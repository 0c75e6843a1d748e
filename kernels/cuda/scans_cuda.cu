// SPDX-License-Identifier: Apache-2.0
// The algorithms over the primitives on CUB, and the way of the data there and back.
#include "kernels/cuda/scans_cuda.hpp"

#include "kernels/algorithm/run_scan.hpp"
#include "kernels/algorithm/window_scan.hpp"
#include "kernels/cuda/cuda_buffer.hpp"
#include "kernels/primitives/cuda_form.cuh"

#include <array>
#include <utility>

namespace fragscope::kernels {
namespace {

using CudaRunScan = RunScan<GpuRunTile, CudaForm>;

/// `wanted` elements of the device's memory.
template <class T>
Result<void> make_room(DeviceBuffer<T>& buffer, std::uint64_t wanted) {
  auto made = DeviceBuffer<T>::make(wanted);
  if (!made) return tl::unexpected(std::move(made.error()));
  buffer = *std::move(made);
  return {};
}

template <class T>
Result<void> copy(T* to, const T* from, std::uint64_t count, cudaMemcpyKind way, cudaStream_t on) {
  if (count == 0) return {};
  return cuda_result("cudaMemcpyAsync", cudaMemcpyAsync(to, from, count * sizeof(T), way, on));
}

/// A copy on the device of what lies in host memory.
template <class T>
Result<void> upload(std::span<const T> from, DeviceBuffer<T>& to, cudaStream_t on) {
  return make_room(to, from.size()).and_then([&] {
    return copy(to.data(), from.data(), from.size(), cudaMemcpyHostToDevice, on);
  });
}

template <class T>
Result<void> set_to_zero(const DeviceBuffer<T>& buffer, std::uint64_t count, cudaStream_t on) {
  if (count == 0) return {};
  return cuda_result("cudaMemsetAsync", cudaMemsetAsync(buffer.data(), 0, count * sizeof(T), on));
}

Result<void> wait_for(cudaStream_t stream) {
  return cuda_result("cudaStreamSynchronize", cudaStreamSynchronize(stream));
}

/// One of the buffers that a stream of chunks goes through.
class ChunkSlot {
 public:
  ChunkSlot() = default;
  ChunkSlot(const ChunkSlot&) = delete;
  ChunkSlot& operator=(const ChunkSlot&) = delete;
  ~ChunkSlot() {
    if (stream_ == nullptr) return;
    // The buffers are still in use until then; errors were told where the work was waited for.
    static_cast<void>(cudaStreamSynchronize(stream_));
    static_cast<void>(cudaStreamDestroy(stream_));
  }

  [[nodiscard]] Result<void> prepare(const ChunkRoom& room) {
    return cuda_result("cudaStreamCreate",
                       cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking))
        .and_then([&] { return make_pinned(blocks_, room.blocks); })
        .and_then([&] { return make_pinned(begins_, room.groups + 1); })
        .and_then([&] { return make_pinned(runs_, room.groups); })
        .and_then([&] { return make_room(device_blocks_, room.blocks); })
        .and_then([&] { return make_room(device_begins_, room.groups + 1); })
        .and_then([&] { return make_room(device_runs_, room.groups); })
        .and_then([&]() -> Result<void> {
          form_ = CudaForm(stream_);
          auto made = CudaRunScan::make(form_, room.blocks);
          if (!made) return tl::unexpected(std::move(made.error()));
          scan_ = *std::move(made);
          return {};
        });
  }

  /// Has the chunk filled and sends it on its way. False: there was nothing left to fill it with.
  [[nodiscard]] Result<bool> fill_and_send(const FillChunk& fill) {
    const Chunk chunk{{blocks_.data(), blocks_.size()}, {begins_.data(), begins_.size()}};
    chunk.group_begins[0] = 0;
    const Result<std::uint64_t> groups = fill(chunk);
    if (!groups) return tl::unexpected(groups.error());
    if (*groups == 0) return false;
    const Result<BlockTable> table = filled_table(chunk, *groups);
    if (!table) return tl::unexpected(table.error());
    if (Result<void> sent = send(*table); !sent) return tl::unexpected(std::move(sent.error()));
    groups_ = *groups;
    return true;
  }

  /// Waits for what was sent and has it taken, if anything was. Returns how many groups that were.
  [[nodiscard]] Result<std::uint64_t> take(std::uint64_t first, const TakeRuns& take) {
    const std::uint64_t groups = std::exchange(groups_, 0);
    if (groups == 0) return groups;
    if (Result<void> done = wait_for(stream_); !done) return tl::unexpected(done.error());
    const std::span<const GroupRuns> runs{runs_.data(), groups};
    if (Result<void> taken = take(first, runs); !taken) return tl::unexpected(taken.error());
    return groups;
  }

 private:
  template <class T>
  static Result<void> make_pinned(PinnedBuffer<T>& buffer, std::uint64_t count) {
    auto made = PinnedBuffer<T>::make(count);
    if (!made) return tl::unexpected(std::move(made.error()));
    buffer = *std::move(made);
    return {};
  }

  Result<void> send(const BlockTable& table) {
    const std::uint64_t groups = table.groups();
    return copy(device_blocks_.data(),
                table.blocks.data(),
                table.blocks.size(),
                cudaMemcpyHostToDevice,
                stream_)
        .and_then([&] {
          return copy(device_begins_.data(),
                      table.group_begins.data(),
                      table.group_begins.size(),
                      cudaMemcpyHostToDevice,
                      stream_);
        })
        .and_then([&] { return set_to_zero(device_runs_, groups, stream_); })
        .and_then([&] {
          return scan_.run(form_,
                           device_blocks_.data(),
                           table.blocks.size(),
                           {device_begins_.data(), groups},
                           {device_runs_.data(), nullptr});
        })
        .and_then([&] {
          return copy(runs_.data(), device_runs_.data(), groups, cudaMemcpyDeviceToHost, stream_);
        });
  }

  cudaStream_t stream_ = nullptr;
  PinnedBuffer<PackedBlock> blocks_;
  PinnedBuffer<std::uint64_t> begins_;
  PinnedBuffer<GroupRuns> runs_;
  DeviceBuffer<PackedBlock> device_blocks_;
  DeviceBuffer<std::uint64_t> device_begins_;
  DeviceBuffer<GroupRuns> device_runs_;
  CudaForm form_{nullptr};
  CudaRunScan scan_;
  std::uint64_t groups_ = 0;  ///< Sent and not taken yet.
};

}  // namespace

Result<void> find_runs_cuda(const BlockTable& table, const RunsOutput& output) {
  const std::uint64_t groups = table.groups();
  const std::uint64_t counts = output.histogram == nullptr ? 0 : groups * kRunClasses;
  CudaForm form(nullptr);
  DeviceBuffer<PackedBlock> blocks;
  DeviceBuffer<std::uint64_t> begins;
  DeviceBuffer<GroupRuns> runs;
  DeviceBuffer<std::uint32_t> histogram;
  return upload(table.blocks, blocks, form.stream())
      .and_then([&] { return upload(table.group_begins, begins, form.stream()); })
      .and_then([&] { return make_room(runs, groups); })
      .and_then([&] { return set_to_zero(runs, groups, form.stream()); })
      .and_then([&] { return make_room(histogram, counts); })
      .and_then([&] { return set_to_zero(histogram, counts, form.stream()); })
      .and_then([&] { return CudaRunScan::make(form, table.blocks.size()); })
      .and_then([&](CudaRunScan scan) {
        return scan
            .run(form,
                 blocks.data(),
                 table.blocks.size(),
                 {begins.data(), groups},
                 {runs.data(), histogram.data()})
            // The scan's own memory must outlive its work.
            .and_then([&] { return wait_for(form.stream()); });
      })
      .and_then([&] {
        return copy(output.groups, runs.data(), groups, cudaMemcpyDeviceToHost, form.stream());
      })
      .and_then([&] {
        return copy(
            output.histogram, histogram.data(), counts, cudaMemcpyDeviceToHost, form.stream());
      })
      .and_then([&] { return wait_for(form.stream()); });
}

Result<void> find_servability_cuda(const FillServability& fill) {
  const std::uint64_t words = kSenses * fill.size_count * fill.words();
  const std::uint64_t failings = kSenses * fill.groups;
  const bool has_spare = fill.spare_bytes != nullptr;
  CudaForm form(nullptr);
  DeviceBuffer<GroupRuns> runs;
  DeviceBuffer<std::uint64_t> spare;
  DeviceBuffer<std::uint64_t> sizes;
  DeviceBuffer<std::uint64_t> served;
  DeviceBuffer<std::uint32_t> first_failing;
  return upload(std::span(fill.runs, fill.groups), runs, form.stream())
      .and_then([&] {
        return upload(
            std::span(fill.spare_bytes, has_spare ? fill.groups : 0), spare, form.stream());
      })
      .and_then(
          [&] { return upload(std::span(fill.sizes, fill.size_count), sizes, form.stream()); })
      .and_then([&] { return make_room(served, words); })
      .and_then([&] { return make_room(first_failing, failings); })
      .and_then([&] {
        FillServability on_device = fill;
        on_device.runs = runs.data();
        on_device.spare_bytes = spare.data();
        on_device.sizes = sizes.data();
        on_device.served = served.data();
        on_device.first_failing = first_failing.data();
        return form.for_each(kSenses * fill.words(), on_device);
      })
      .and_then([&] {
        return copy(fill.served, served.data(), words, cudaMemcpyDeviceToHost, form.stream());
      })
      .and_then([&] {
        return copy(fill.first_failing,
                    first_failing.data(),
                    failings,
                    cudaMemcpyDeviceToHost,
                    form.stream());
      })
      .and_then([&] { return wait_for(form.stream()); });
}

Result<void> find_windows_cuda(std::span<const PackedBlock> blocks,
                               std::span<const std::uint64_t> segment_begins,
                               std::uint64_t size_bytes,
                               std::span<Window> output) {
  CudaForm form(nullptr);
  DeviceBuffer<PackedBlock> device_blocks;
  DeviceBuffer<std::uint64_t> begins;
  DeviceBuffer<Window> windows;
  return upload(blocks, device_blocks, form.stream())
      .and_then([&] { return upload(segment_begins, begins, form.stream()); })
      .and_then([&] { return make_room(windows, output.size()); })
      .and_then([&] { return WindowScan<CudaForm>::make(form, blocks.size()); })
      .and_then([&](WindowScan<CudaForm> scan) {
        return scan
            .run(form,
                 device_blocks.data(),
                 blocks.size(),
                 {begins.data(), output.size()},
                 size_bytes,
                 windows.data())
            .and_then([&] { return wait_for(form.stream()); });
      })
      .and_then([&] {
        return copy(
            output.data(), windows.data(), output.size(), cudaMemcpyDeviceToHost, form.stream());
      })
      .and_then([&] { return wait_for(form.stream()); });
}

Result<void> stream_runs_cuda(const ChunkRoom& room, const FillChunk& fill, const TakeRuns& take) {
  std::array<ChunkSlot, 2> slots;
  for (ChunkSlot& slot : slots) {
    if (Result<void> prepared = slot.prepare(room); !prepared) return prepared;
  }
  std::uint64_t first = 0;
  // The slots take turns: what one sent is taken before it is filled again, and at the end the
  // other one's is the last.
  for (std::size_t turn = 0;; turn ^= 1) {
    const Result<std::uint64_t> taken = slots[turn].take(first, take);
    if (!taken) return tl::unexpected(taken.error());
    first += *taken;
    const Result<bool> filled = slots[turn].fill_and_send(fill);
    if (!filled) return tl::unexpected(filled.error());
    if (*filled) continue;
    const Result<std::uint64_t> last = slots[turn ^ 1].take(first, take);
    if (!last) return tl::unexpected(last.error());
    return {};
  }
}

}  // namespace fragscope::kernels
