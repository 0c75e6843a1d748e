// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/message/forms/other_forms.hpp"

#include "trace/ascii.hpp"

#include <algorithm>
#include <array>

namespace fragscope::explain {
namespace {

using stages::MemoryWords;
using stages::Wording;

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// The rest of the line that the cursor stands in.
std::string_view rest_of_line(const Reading& reading) {
  const std::string_view rest = reading.window.substr(reading.cursor.at());
  return rest.substr(0, rest.find('\n'));
}

// "allocating 1024.00 MiB on device 0: cudaMalloc failed: out of memory" (llama.cpp).
void read_request_in_front(Reading& reading) {
  auto front = reading.behind_last("allocating ", 200);
  if (!front) return;
  Reading before = reading;
  before.cursor = *front;
  before.request();
  if (!before.message.figures.request) return;
  reading.message.figures.request = before.message.figures.request;
  reading.message.shape = Shape::kRequest;
  if (before.cursor.pass(" on device ")) reading.device(before.cursor);
}

// "failed to allocate 17.79G (19104890880 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY".
bool read_driver_error(Reading& reading) {
  static_cast<void>(reading.be(Shape::kBare, Backend::kCuda));
  static_cast<void>(reading.cursor.pass(": out of memory"));
  constexpr std::size_t kFarthest = 160;
  const std::size_t first = reading.at - std::min(reading.at, kFarthest);
  const std::string_view front = reading.before(kFarthest);
  const auto before_name = stages::without_end(front, "CUDA_ERROR_OUT_OF_MEMORY: ");
  const std::size_t own = first + before_name.value_or(front).size();
  for (std::size_t start = reading.at; start-- > first;) {
    if (!is_digit(reading.window[start])) continue;
    // The last number in front of " bytes", from its first digit on.
    std::size_t preceding = start;
    while (preceding > 0 && is_blank(reading.window[preceding - 1]))
      --preceding;
    if (preceding > 0 && is_digit(reading.window[preceding - 1])) continue;
    JoinedCursor number(reading.window, start);
    const auto bytes = number.count();
    if (!bytes || !number.pass(" bytes") || number.at() > reading.at) continue;
    if (reading.has_message(number.at(), own)) break;
    reading.message.figures.request = model::exactly(*bytes);
    reading.message.shape = Shape::kRequest;
    break;
  }
  return true;
}

// TensorFlow warns in the same words where it goes on with less.
bool goes_on_without(const Reading& reading) {
  return has(rest_of_line(reading), "this is not a failure");
}

// "Allocator (GPU_0_bfc) ran out of memory trying to allocate 4.00GiB".
void read_bfc_device(Reading& reading) {
  if (auto number = reading.behind_last("(GPU_", 60)) {
    reading.device(*number);
    reading.message.backend = Backend::kCuda;
  } else {
    reading.message.backend = Backend::kNone;
  }
}

bool read_assertion(Reading& reading) {
  const MemoryWords nvml = {"NVML_SUCCESS == ", Wording::kAssertion};
  if (!reading.tells_of_failure(nvml)) {
    // Broken in two lines.
    if (!reading.cursor.pass("r INTERNAL ASSERT FAILED")) return false;
  }
  static_cast<void>(reading.pass_through(reading.cursor, "INTERNAL ASSERT FAILED", 240));
  return reading.be(Shape::kReplaced, Backend::kCuda);
}

bool read_handles_assertion(Reading& reading) {
  if (!reading.pass_through(reading.cursor, " INTERNAL ASSERT FAILED", 40)) return false;
  return reading.be(Shape::kBare, Backend::kCuda);
}

// "Free memory on device [cuda:0 ](F/T GiB) on startup is less than desired GPU memory
// utilization (u, R GiB)."
bool read_check(Reading& reading) {
  static_cast<void>(reading.be(Shape::kCheck, Backend::kNone));
  JoinedCursor& cursor = reading.cursor;
  if (cursor.pass("cuda:")) {
    reading.device();
    static_cast<void>(cursor.pass(" "));
  }
  if (!cursor.pass("(")) return false;
  const auto figures = cursor.size_pair();
  if (!figures) return false;
  reading.message.figures.free = figures->first;
  reading.message.figures.total = figures->second;
  JoinedCursor wanted = cursor;
  if (reading.pass_through(wanted, "utilization (", 120) &&
      reading.pass_through(wanted, ", ", 12)) {
    cursor = wanted;
    reading.request();
  }
  return true;
}

bool read_no_cache_blocks(Reading& reading) {
  return reading.be(Shape::kCheck, Backend::kNone);
}

// "OOM when allocating tensor with shape[...] and type float on /job:.../device:GPU:0 by ...".
bool read_tensor_flow(Reading& reading) {
  static_cast<void>(reading.be(Shape::kBare, Backend::kNone));
  if (!reading.pass_through(reading.cursor, "/device:", 200)) return true;
  if (!reading.cursor.pass("GPU:")) return true;
  reading.message.backend = Backend::kCuda;
  reading.device();
  return true;
}

// "can't allocate memory: you tried to allocate N bytes. Error code 12 (Cannot allocate memory)".
bool read_host_allocator(Reading& reading) {
  JoinedCursor& cursor = reading.cursor;
  if (!cursor.pass("not enough memory") && !cursor.pass("can't allocate memory")) return false;
  if (cursor.pass(": you tried to allocate ")) reading.request_in_bytes();
  return reading.be(Shape::kHost, Backend::kNone);
}

// --- Words without figures. ----------------------------------------------------------------------

bool read_exception(Reading& reading) {
  const MemoryWords words = {"OutOfMemoryError", Wording::kException};
  if (!reading.tells_of_failure(words)) return false;
  reading.yields = reading.is_exception = true;
  const bool is_host = has(reading.before(12), "java.lang.") || has(reading.before(18), "ray.exc");
  if (reading.cursor.pass(": Allocation on device ")) reading.device();
  return is_host ? reading.be(Shape::kHost, Backend::kNone)
                 : reading.be(Shape::kBare, Backend::kCuda);
}

bool read_bad_alloc(Reading& reading) {
  const MemoryWords words = {"std::bad_alloc", Wording::kException, true};
  if (!reading.tells_of_failure(words)) return false;
  reading.yields = reading.is_exception = true;
  // The words come again where nobody caught it.
  if (reading.cursor.pass("'")) static_cast<void>(reading.cursor.pass(" what(): std::bad_alloc"));
  return reading.be(Shape::kHost, Backend::kNone);
}

bool read_status(Reading& reading, Backend backend) {
  const MemoryWords words = {"", Wording::kStatus};
  if (!reading.tells_of_failure(words)) return false;
  reading.yields = true;
  return reading.be(Shape::kBare, backend);
}

bool read_cuda_status(Reading& reading) {
  return read_status(reading, Backend::kCuda);
}
bool read_hip_status(Reading& reading) {
  return read_status(reading, Backend::kHip);
}
bool read_device_status(Reading& reading) {
  const bool is_sycl = has(reading.before(20), "UR_RESULT") || has(reading.before(20), "ZE_RESULT");
  return read_status(reading, is_sycl ? Backend::kXpu : Backend::kNone);
}
bool read_host_status(Reading& reading) {
  return read_status(reading, Backend::kNone) && reading.be(Shape::kHost, Backend::kNone);
}

bool read_exhausted(Reading& reading) {
  const MemoryWords words = {"RESOURCE_EXHAUSTED", Wording::kExhausted};
  if (!reading.tells_of_failure(words)) return false;
  reading.yields = true;
  return reading.be(Shape::kBare, Backend::kNone);
}

bool read_cannot_allocate(Reading& reading) {
  const MemoryWords words = {"Cannot allocate memory", Wording::kPhrase, true};
  if (!reading.tells_of_failure(words)) return false;
  reading.yields = true;
  return reading.be(Shape::kHost, Backend::kNone);
}

// These are seen where memory was short, but have other causes, too.
bool read_doubtful(Reading& reading) {
  return reading.be(Shape::kDoubtful, Backend::kCuda);
}

constexpr Form kForms[] = {
    {"NVML_SUCCESS == ", read_assertion},
    {"!handles_.at(i)", read_handles_assertion},
    {"Free memory on device ", read_check},
    {"No available memory for the cache blocks", read_no_cache_blocks},
    {"CUDA_ERROR_OUT_OF_MEMORY", read_driver_error},
    {"OOM when allocating tensor with shape", read_tensor_flow},
    {"DefaultCPUAllocator: ", read_host_allocator},
    {"OutOfMemoryError", read_exception},
    {"std::bad_alloc", read_bad_alloc},
    {"CUBLAS_STATUS_ALLOC_FAILED", read_cuda_status},
    {"CUDNN_STATUS_ALLOC_FAILED", read_cuda_status},
    {"cudaErrorMemoryAllocation", read_cuda_status},
    {"hipErrorOutOfMemory", read_hip_status},
    {"OUT_OF_DEVICE_MEMORY", read_device_status},
    {"ErrorOutOfDeviceMemory", read_device_status},
    {"OUT_OF_HOST_MEMORY", read_host_status},
    {"ErrorOutOfHostMemory", read_host_status},
    {"RESOURCE_EXHAUSTED", read_exhausted},
    {"Cannot allocate memory", read_cannot_allocate},
    {"cuDNN error: CUDNN_STATUS_NOT_SUPPORTED", read_doubtful},
    {"CUDA driver error: device not ready", read_doubtful},
};

}  // namespace

bool read_bare(Reading& reading) {
  const MemoryWords words = {"out of memory", Wording::kWords};
  if (!reading.tells_of_failure(words)) return false;
  const std::string_view front = reading.before(120);
  if (stages::without_end(front, "CUDA_ERROR_OUT_OF_MEMORY: ")) return read_driver_error(reading);
  static_cast<void>(reading.be(
      Shape::kBare, has(front, "HIP") || has(front, "hip") ? Backend::kHip : Backend::kCuda));
  if (stages::without_end(front, "RESOURCE_EXHAUSTED: ")) reading.message.backend = Backend::kNone;
  JoinedCursor& cursor = reading.cursor;
  if (cursor.pass(" while trying to allocate ") || cursor.pass(" trying to allocate ") ||
      cursor.pass(" allocating ")) {
    if (stages::without_end(front, "ran ")) read_bfc_device(reading);
    reading.message.shape = goes_on_without(reading) ? Shape::kAttempt : Shape::kRequest;
    reading.request();
  } else {
    read_request_in_front(reading);
  }
  return true;
}

std::span<const Form> other_forms() {
  return kForms;
}

}  // namespace fragscope::explain
