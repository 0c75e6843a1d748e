// SPDX-License-Identifier: Apache-2.0
// A small valid snapshot as JSON, to be changed by a test and read through a pickle. One device,
// one segment of class small with a live block, a pending one and a hole, and a trace of five
// entries. Used by the tests of the snapshot reader.
#pragma once

#include "analyzer/ingest/torch_snapshot.hpp"
#include "tests/support/pickle_writer.hpp"

#include <string>
#include <utility>

namespace fragscope::ingest {

using testing::Json;

inline constexpr std::uint64_t kSegmentAddress = 0x7f00'0000'0000;
inline constexpr std::uint64_t kSegmentBytes = 2 << 20;

[[nodiscard]] inline Json frame(std::string_view name, std::string_view file, int line) {
  return {{"name", name}, {"filename", file}, {"line", line}};
}

[[nodiscard]] inline Json block(std::uint64_t address, std::uint64_t size, std::string_view state) {
  return {{"address", address},
          {"size", size},
          {"requested_size", size - 12},
          {"state", state},
          {"frames", Json::array({frame("step", "train.py", 7), frame("main", "train.py", 90)})}};
}

[[nodiscard]] inline Json segment(std::uint64_t address, const Json& blocks) {
  std::uint64_t total = 0;
  for (const Json& each : blocks)
    total += each["size"].get<std::uint64_t>();
  return {{"device", 0},
          {"address", address},
          {"total_size", total},
          {"allocated_size", 0},
          {"active_size", 0},
          {"requested_size", 0},
          {"stream", 0},
          {"segment_type", "small"},
          {"segment_pool_id", {0, 0}},
          {"is_expandable", false},
          {"frames", Json::array()},
          {"blocks", blocks}};
}

[[nodiscard]] inline Json entry(std::string_view action,
                                std::uint64_t address,
                                std::uint64_t size) {
  return {{"action", action},
          {"addr", address},
          {"size", size},
          {"stream", 0},
          {"time_us", 1'700'000'000'000'000},
          {"frames", Json::array({frame("step", "train.py", 7)})}};
}

[[nodiscard]] inline Json small_snapshot() {
  Json blocks = Json::array();
  blocks.push_back(block(kSegmentAddress, 512, "active_allocated"));
  blocks.push_back(block(kSegmentAddress + 512, 1024, "active_pending_free"));
  blocks.push_back(block(kSegmentAddress + 1536, kSegmentBytes - 1536, "inactive"));
  Json trace = Json::array();
  trace.push_back(entry("segment_alloc", kSegmentAddress, kSegmentBytes));
  trace.push_back(entry("alloc", kSegmentAddress, 500));
  trace.push_back(entry("alloc", kSegmentAddress + 512, 1012));
  trace.push_back(entry("free_requested", kSegmentAddress + 512, 1012));
  Json oom = entry("oom", 0, 1 << 30);
  oom.erase("addr");
  oom["device_free"] = 123'456'789;
  trace.push_back(oom);
  return {{"segments", Json::array({segment(kSegmentAddress, blocks)})},
          {"device_traces", Json::array({trace})},
          {"allocator_settings",
           {{"PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:128"},
            {"max_split_size", 128 << 20},
            {"expandable_segments", false},
            {"roundup_power2_divisions", {{"1", 0}, {"256", 2}}}}},
          {"external_annotations", Json::array()}};
}

[[nodiscard]] inline Result<model::Recording> read_bytes(const std::string& bytes) {
  return read_torch_snapshot(testing::as_bytes(bytes));
}

[[nodiscard]] inline Result<model::Recording> read_json(const Json& snapshot) {
  return read_bytes(testing::pickle_of(snapshot));
}

}  // namespace fragscope::ingest
