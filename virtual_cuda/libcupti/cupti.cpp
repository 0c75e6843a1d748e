// SPDX-License-Identifier: Apache-2.0
// CUPTI: a profiler may subscribe to everything, and nothing is ever there to see. The other
// functions are generated and succeed as well: they only say what to watch.
#include <cstdint>

extern "C" {

std::int32_t cuptiGetVersion(std::uint32_t* version) {
  *version = 130201;
  return 0;
}

std::int32_t cuptiGetResultString(std::int32_t, const char** text) {
  *text = "virtual CUDA has no CUPTI";
  return 0;
}

std::int32_t cuptiGetCallbackName(std::int32_t, std::uint32_t, const char** name) {
  *name = "";
  return 0;
}

std::int32_t cuptiActivityGetNextRecord(void*, std::size_t, void** record) {
  constexpr std::int32_t kMaxLimitReached = 12;  // "No more records", in CUPTI's words.
  *record = nullptr;
  return kMaxLimitReached;
}

std::int32_t cuptiActivityGetNumDroppedRecords(void*, std::uint32_t, std::size_t* count) {
  *count = 0;
  return 0;
}

}  // extern "C"
