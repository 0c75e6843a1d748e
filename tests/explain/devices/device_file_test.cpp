// SPDX-License-Identifier: Apache-2.0
// The file of `explain --devices`, in both its forms, and what is none.
#include "analyzer/explain/devices/device_file.hpp"

#include "analyzer/report/explain/figure_labels.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace fragscope::explain {
namespace {

using testing::HasSubstr;

std::string inventory(const std::string& devices, const std::string& from = "\"driver\"") {
  return R"({"schema":1,"kind":"devices","time_s":1770112740,"cuda_ordinals_from":)" + from +
         R"(,"devices":[)" + devices + "]}";
}

std::string device(const std::string& numbers, const std::string& processes = "[]") {
  return R"({"uuid":"GPU-1","name":"NVIDIA Test",)" + numbers +
         R"(,"total_bytes":1000,"free_bytes":400,"processes":)" + processes + "}";
}

std::string refusal(const std::string& text) {
  const auto devices = read_device_file(text);
  return devices ? "none" : devices.error().message;
}

TEST(DeviceFile, CudasNumberCountsAndNotTheMachines) {
  const auto devices =
      read_device_file(inventory(device(R"("host_ordinal":0,"cuda_ordinal":3)") + "," +
                                 device(R"("host_ordinal":1,"cuda_ordinal":null)")));
  ASSERT_TRUE(devices);
  ASSERT_EQ(devices->size(), 1U) << "a device that is not shown has no number";
  EXPECT_EQ(devices->begin()->first, 3);
  EXPECT_EQ(devices->begin()->second.before->free_bytes, 400U);
}

TEST(DeviceFile, WithoutCudasNumbersTheMachinesCount) {
  const auto devices =
      read_device_file(inventory(device(R"("host_ordinal":1,"cuda_ordinal":null)"), "null"));
  ASSERT_TRUE(devices);
  EXPECT_TRUE(devices->contains(1));
}

TEST(DeviceFile, AListingIsStillRead) {
  const auto devices = read_device_file("GPU 2: NVIDIA A10 (UUID: GPU-2)\n");
  ASSERT_TRUE(devices);
  EXPECT_EQ(devices->at(2).uuid, "GPU-2");
  EXPECT_FALSE(devices->at(2).before);
}

TEST(DeviceFile, AnythingElseIsRefusedWithWhatWasExpected) {
  EXPECT_THAT(refusal("hello"), HasSubstr("expected the output of fragscope devices --json"));
  EXPECT_THAT(refusal("{"), HasSubstr("no list of devices"));
  EXPECT_THAT(refusal(R"({"kind":"devices"})"), HasSubstr("no list of devices"));
  EXPECT_THAT(refusal(R"({"kind":"devices","devices":7})"), HasSubstr("no list of devices"));
  EXPECT_THAT(refusal(std::string(100000, '{')), HasSubstr("no list of devices"));
  EXPECT_THAT(refusal(inventory("")), HasSubstr("no device"));
  EXPECT_THAT(refusal(inventory(device(R"("cuda_ordinal":99999999)"))), HasSubstr("no device"));
}

TEST(DeviceFile, OddValuesAreNotKnown) {
  const auto devices = read_device_file(inventory(
      R"({"cuda_ordinal":0,"free_bytes":5,"total_bytes":-3,"name":7,"processes":[1,{"pid":"x"}]})"));
  ASSERT_TRUE(devices);
  const DeviceBefore& before = *devices->at(0).before;
  EXPECT_EQ(before.total_bytes, std::nullopt);
  ASSERT_EQ(before.processes.size(), 1U);
  EXPECT_EQ(before.processes[0].used_bytes, std::nullopt);
}

TEST(DeviceFile, WhatWasFreeIsASentence) {
  const auto devices = read_device_file(inventory(device(
      R"("cuda_ordinal":0)",
      R"([{"pid":7,"name":"vllm","used_bytes":500},{"pid":8,"name":null,"used_bytes":null}])")));
  ASSERT_TRUE(devices);
  EXPECT_EQ(report::before_text(*devices->at(0).before),
            "400 B of 1000 B were free at 2026-02-03 09:59:00 UTC, by fragscope devices; process 7 "
            "(vllm) used 500 B; process 8 used an unknown amount");
}

}  // namespace
}  // namespace fragscope::explain
