// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/core/options.hpp"

#include "virtual_cuda/device/device.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

namespace fragscope::virtual_cuda {
namespace {

tl::unexpected<Error> usage(std::string message) {
  return failure(ErrorCode::kUsage, std::move(message));
}

tl::unexpected<Error> bad_value(std::string_view key,
                                std::string_view value,
                                std::string_view expected) {
  return usage(std::string(key) + "=" + std::string(value) + ": expected " + std::string(expected));
}

std::optional<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return value;
}

// The values of the keys that may be given once for each GPU.
struct PerDevice {
  std::vector<const DeviceModel*> presets;
  std::vector<std::uint64_t> memory_bytes;
  std::vector<std::string> names;
  std::vector<std::pair<int, int>> computes;
  std::vector<int> multiprocessor_counts;
};

// The value for this GPU, or null if the key was not given.
template <class T>
const T* value_for(const std::vector<T>& values, std::size_t device) {
  return values.empty() ? nullptr : &values[std::min(device, values.size() - 1)];
}

Result<void> add_preset(std::string_view value, PerDevice& devices) {
  const DeviceModel* const preset = find_preset(value);
  if (preset == nullptr) {
    std::string known;
    for (const DeviceModel& model : device_presets())
      known += " " + std::string(model.preset);
    return bad_value("preset", value, "one of" + known);
  }
  devices.presets.push_back(preset);
  return {};
}

Result<void> add_memory(std::string_view value, PerDevice& devices) {
  const auto bytes = parse_size(value);
  if (!bytes || *bytes < kPageBytes) return bad_value("memory", value, "a size such as 80GiB");
  devices.memory_bytes.push_back(*bytes);
  return {};
}

Result<void> add_compute(std::string_view value, PerDevice& devices) {
  const std::size_t dot = value.find('.');
  constexpr std::uint64_t kNone = 100;
  const std::uint64_t major = parse_number(value.substr(0, dot)).value_or(kNone);
  const std::uint64_t minor =
      dot == std::string_view::npos ? kNone : parse_number(value.substr(dot + 1)).value_or(kNone);
  if (major >= kNone || minor > 9) return bad_value("compute", value, "M.N");
  devices.computes.emplace_back(static_cast<int>(major), static_cast<int>(minor));
  return {};
}

Result<void> add_multiprocessors(std::string_view value, PerDevice& devices) {
  const auto count = parse_number(value);
  if (!count || *count == 0 || *count > 1024) return bad_value("sms", value, "1 to 1024");
  devices.multiprocessor_counts.push_back(static_cast<int>(*count));
  return {};
}

// [DEVICE:]SIZE[@ATTEMPT]
Result<void> add_neighbour(std::string_view value, Options& options) {
  constexpr std::string_view kExpected = "[GPU:]SIZE[@ATTEMPT]";
  Neighbour neighbour;
  std::string_view rest = value;
  if (const std::size_t colon = rest.find(':'); colon != std::string_view::npos) {
    const auto device = parse_number(rest.substr(0, colon));
    if (!device || *device >= kMaxDevices) return bad_value("neighbour", value, kExpected);
    neighbour.device = static_cast<int>(*device);
    rest.remove_prefix(colon + 1);
  }
  if (const std::size_t at = rest.find('@'); at != std::string_view::npos) {
    const auto attempt = parse_number(rest.substr(at + 1));
    if (!attempt) return bad_value("neighbour", value, kExpected);
    neighbour.attempt = *attempt;
    rest = rest.substr(0, at);
  }
  const auto bytes = parse_size(rest);
  if (!bytes) return bad_value("neighbour", value, kExpected);
  neighbour.bytes = *bytes;
  options.neighbours.push_back(neighbour);
  return {};
}

// GPU:PID:SIZE[:NAME]
Result<void> add_process(std::string_view value, Options& options) {
  constexpr std::string_view kExpected = "GPU:PID:SIZE[:NAME]";
  std::string_view rest = value;
  const auto next = [&rest] {
    const std::size_t colon = rest.find(':');
    const std::string_view part = rest.substr(0, colon);
    rest.remove_prefix(colon == std::string_view::npos ? rest.size() : colon + 1);
    return part;
  };
  const auto device = parse_number(next());
  const auto pid = parse_number(next());
  const auto bytes = parse_size(next());
  if (!device || *device >= kMaxDevices || !pid || *pid == 0 || *pid > UINT32_MAX || !bytes) {
    return bad_value("process", value, kExpected);
  }
  options.processes.push_back(
      {static_cast<int>(*device), static_cast<std::uint32_t>(*pid), *bytes, std::string(rest)});
  return {};
}

// FUNCTION:CODE
Result<void> add_nvml_answer(std::string_view value, Options& options) {
  const std::size_t colon = value.find(':');
  const auto code =
      colon == std::string_view::npos ? std::nullopt : parse_number(value.substr(colon + 1));
  if (colon == 0 || !code || *code > 999) return bad_value("nvml", value, "FUNCTION:CODE");
  options.nvml_answers.push_back(
      {std::string(value.substr(0, colon)), static_cast<std::int32_t>(*code)});
  return {};
}

// KIND:NTH or KIND:NTH..
Result<void> add_fault(std::string_view value, Options& options) {
  constexpr std::string_view kExpected =
      "KIND:NTH or KIND:NTH.., KIND one of malloc create reserve map access host nvml";
  const std::size_t colon = value.find(':');
  const auto kind = find_fault_kind(value.substr(0, colon));
  if (!kind || colon == std::string_view::npos) return bad_value("fail", value, kExpected);
  std::string_view nth = value.substr(colon + 1);
  FaultRule rule{.kind = *kind};
  if (nth.ends_with("..")) {
    rule.onward = true;
    nth.remove_suffix(2);
  }
  const auto number = parse_number(nth);
  if (!number || *number == 0) return bad_value("fail", value, kExpected);
  rule.nth = *number;
  options.faults.push_back(rule);
  return {};
}

Result<void> apply(std::string_view key,
                   std::string_view value,
                   Options& options,
                   PerDevice& devices) {
  if (key == "gpus") {
    const auto count = parse_number(value);
    if (!count || *count > kMaxDevices) return bad_value(key, value, "0 to 8");
    options.devices.resize(*count);
    return {};
  }
  if (key == "preset") return add_preset(value, devices);
  if (key == "memory") return add_memory(value, devices);
  if (key == "compute") return add_compute(value, devices);
  if (key == "sms") return add_multiprocessors(value, devices);
  if (key == "neighbour") return add_neighbour(value, options);
  if (key == "fail") return add_fault(value, options);
  if (key == "process") return add_process(value, options);
  if (key == "nvml") return add_nvml_answer(value, options);
  if (key == "nvml-pid") {
    const auto pid = parse_number(value);
    if (!pid || *pid > UINT32_MAX) return bad_value(key, value, "a process id");
    options.nvml_pid = static_cast<std::uint32_t>(*pid);
    return {};
  }
  if (key == "name") {
    devices.names.emplace_back(value);
    return {};
  }
  if (key == "context") {
    const auto bytes = parse_size(value);
    if (!bytes) return bad_value(key, value, "a size such as 512MiB");
    options.context_bytes = *bytes;
    return {};
  }
  if (key == "kernel-ns") {
    const auto duration = parse_number(value);
    if (!duration) return bad_value(key, value, "nanoseconds");
    options.kernel_ns = *duration;
    return {};
  }
  if (key == "trace") {
    options.trace = true;
    return {};
  }
  return usage("unknown option " + std::string(key));
}

void describe_devices(const PerDevice& given, std::vector<DeviceModel>& devices) {
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto* const preset = value_for(given.presets, i);
    devices[i] = preset != nullptr ? **preset : device_presets().front();
    if (const auto* memory = value_for(given.memory_bytes, i)) devices[i].memory_bytes = *memory;
    if (const auto* name = value_for(given.names, i)) devices[i].name = *name;
    if (const auto* count = value_for(given.multiprocessor_counts, i)) {
      devices[i].multiprocessor_count = *count;
    }
    if (const auto* compute = value_for(given.computes, i)) {
      devices[i].compute_major = compute->first;
      devices[i].compute_minor = compute->second;
    }
  }
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, number);
  const std::string_view unit(stopped, static_cast<std::size_t>(end - stopped));
  constexpr std::pair<std::string_view, std::uint64_t> kUnits[] = {
      {"", 1}, {"B", 1}, {"KiB", kKiB}, {"MiB", kMiB}, {"GiB", kGiB}, {"TiB", kTiB}};
  const auto* const found = std::find_if(std::begin(kUnits),
                                         std::end(kUnits),
                                         [unit](const auto& known) { return known.first == unit; });
  if (error != std::errc() || found == std::end(kUnits) || !(number >= 0) || number > 1e15) {
    return usage("expected a size such as 80GiB, found " + std::string(text));
  }
  const double bytes = std::floor(number * static_cast<double>(found->second));
  if (bytes > static_cast<double>(kWindowBytes)) return usage("too large: " + std::string(text));
  return static_cast<std::uint64_t>(bytes);
}

Result<Options> parse_options(std::string_view text) {
  Options options;
  options.devices.resize(1);
  PerDevice devices;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view pair = text.substr(0, comma);
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    if (pair.empty()) continue;
    const std::size_t equals = pair.find('=');
    const std::string_view value =
        equals == std::string_view::npos ? std::string_view() : pair.substr(equals + 1);
    const auto applied = apply(pair.substr(0, equals), value, options, devices);
    if (!applied) return tl::unexpected(applied.error());
  }
  describe_devices(devices, options.devices);
  return options;
}

}  // namespace fragscope::virtual_cuda
