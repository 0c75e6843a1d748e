// SPDX-License-Identifier: Apache-2.0
#include "kernels/device_choice.hpp"

#include "kernels/cpu/scans_cpu.hpp"
#include "kernels/cuda/scans_cuda.hpp"
#include "kernels/cuda_devices.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

namespace fragscope::kernels {
namespace {

/// Below this, `kAuto` does not even look for a GPU: the first use of one takes some tenths of a
/// second, in which a single core scans more. (Arithmetic from the figures of docs/benchmarks.md.)
constexpr std::uint64_t kWorthLooking = std::uint64_t{1} << 30;

/// "1.5 GiB", "320.0 MiB", "0.4 KiB": for a sentence, not for arithmetic.
std::string about(double bytes) {
  constexpr double kKiB = 1024;
  constexpr double kMiB = 1024 * kKiB;
  constexpr double kGiB = 1024 * kMiB;
  const double unit = bytes >= kGiB ? kGiB : bytes >= kMiB ? kMiB : kKiB;
  std::string text = std::to_string(static_cast<std::uint64_t>(std::round(bytes * 10 / unit)));
  if (text.size() == 1) text.insert(0, "0");
  text.insert(text.size() - 1, ".");
  return text + (unit == kGiB ? " GiB" : unit == kMiB ? " MiB" : " KiB");
}

/// Seconds that `scan` takes, the second time: the first one brings up what later ones find.
template <class Scan>
Result<double> time_scan(const Scan& scan) {
  double seconds = 0;
  for (int round = 0; round < 2; ++round) {
    const auto start = std::chrono::steady_clock::now();
    if (Result<void> ran = scan(); !ran) return tl::unexpected(ran.error());
    seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  return seconds;
}

/// Both sides at a table of 128 MiB, CUDA also at one of a single group: a straight line through
/// two points has the start-up at 0.
Result<ScanSpeeds> measure_scan_speeds() {
  constexpr std::uint64_t kGroups = std::uint64_t{1} << 14;
  constexpr std::uint64_t kGroupBlocks = 1024;
  std::vector<PackedBlock> blocks(kGroups * kGroupBlocks);
  std::vector<std::uint64_t> begins(kGroups + 1);
  std::vector<GroupRuns> groups(kGroups);
  for (std::uint64_t i = 0; i < blocks.size(); ++i) {
    const PackedBlock block = i % 3 == 0 ? PackedBlock::free(512) : PackedBlock::live(512);
    blocks[i] = i % kGroupBlocks == 0 ? block.as_first() : block;
  }
  for (std::uint64_t i = 0; i < begins.size(); ++i)
    begins[i] = i * kGroupBlocks;
  const BlockTable table{blocks, begins};
  const BlockTable small = table.part(0, 1);
  const RunsOutput output{groups.data(), nullptr};

  const Result<double> cpu = time_scan([&]() -> Result<void> {
    find_runs_cpu(table, 0, output);
    return {};
  });
  const Result<double> cuda = time_scan([&] { return find_runs_cuda(table, output); });
  if (!cuda) return tl::unexpected(cuda.error());
  const Result<double> cuda_small = time_scan([&] { return find_runs_cuda(small, output); });
  if (!cuda_small) return tl::unexpected(cuda_small.error());
  const auto bytes = static_cast<double>(table.blocks.size_bytes());
  // Clocks are coarse: no side is taken for faster than a byte in a picosecond.
  const auto speed = [&](double seconds) { return bytes / std::max(seconds, bytes * 1e-12); };
  return ScanSpeeds{speed(*cpu), speed(*cuda - *cuda_small), *cuda_small};
}

/// Measured at the first call.
const Result<ScanSpeeds>& measured_speeds() {
  static const Result<ScanSpeeds> speeds = measure_scan_speeds();
  return speeds;
}

}  // namespace

DeviceChoice choose_by_speed(const ScanSpeeds& speeds, std::uint64_t work_bytes) {
  const auto bytes = static_cast<double>(work_bytes);
  const double cpu_s = bytes / speeds.cpu_bytes_per_s;
  const double cuda_s = speeds.cuda_start_s + bytes / speeds.cuda_bytes_per_s;
  const std::string measured = "measured here: the CPU scans " + about(speeds.cpu_bytes_per_s) +
                               "/s, CUDA " + about(speeds.cuda_bytes_per_s) +
                               "/s with the transfer";
  if (cuda_s < cpu_s) return {Device::kCuda, "CUDA, since " + measured};
  return {Device::kCpu, "the CPU, since for " + about(bytes) + " it is done first; " + measured};
}

Result<DeviceChoice> choose_device(Device wanted, std::uint64_t work_bytes) {
  if (wanted == Device::kCpu) return DeviceChoice{Device::kCpu, "the CPU, as asked for"};
  if (wanted == Device::kAuto && work_bytes < kWorthLooking) {
    return DeviceChoice{Device::kCpu,
                        "the CPU, since no GPU would be ready before " +
                            about(static_cast<double>(work_bytes)) + " are scanned"};
  }
  const auto devices = find_cuda_devices();
  if (!devices && wanted == Device::kAuto) {
    return DeviceChoice{Device::kCpu, "the CPU, since " + devices.error().message};
  }
  if (!devices) return tl::unexpected(devices.error());
  if (wanted == Device::kCuda) return DeviceChoice{Device::kCuda, "CUDA, as asked for"};
  const Result<ScanSpeeds>& speeds = measured_speeds();
  if (speeds) return choose_by_speed(*speeds, work_bytes);
  return DeviceChoice{Device::kCpu, "the CPU, since the GPU failed: " + speeds.error().message};
}

}  // namespace fragscope::kernels
