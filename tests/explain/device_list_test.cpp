// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/device_list.hpp"

#include "analyzer/explain/explainer.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace fragscope::explain {
namespace {

constexpr std::string_view kListing =
    "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-0a1b2c3d-0000-1111-2222-333344445555)\n"
    "  MIG 1g.10gb     Device  0: (UUID: MIG-0a1b2c3d-0000-1111-2222-333344445555)\n"
    "GPU 11: NVIDIA A10 (UUID: GPU-ffffffff-0000-1111-2222-333344445555)\n";

TEST(DeviceList, ReadsAListing) {
  const DeviceList devices = read_device_list(kListing);
  ASSERT_EQ(devices.size(), 2U);
  EXPECT_EQ(devices.at(0).name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(devices.at(0).uuid, "GPU-0a1b2c3d-0000-1111-2222-333344445555");
  EXPECT_EQ(devices.at(11).name, "NVIDIA A10");
}

TEST(DeviceList, IsFoundInALogToo) {
  const Explanation explanation =
      explain_log_text("server-1 | " + std::string(kListing) + "something else\n");
  ASSERT_EQ(explanation.devices.size(), 2U);
  EXPECT_EQ(explanation.devices.at(0).name, "NVIDIA H100 80GB HBM3");
}

TEST(DeviceList, PassesOverWhatIsNoDevice) {
  for (const std::string_view line : {"",
                                      "GPU 0: NVIDIA H100",
                                      "GPU x: NVIDIA H100 (UUID: GPU-1)",
                                      "GPU -1: NVIDIA H100 (UUID: GPU-1)",
                                      "GPU 99999999999: NVIDIA H100 (UUID: GPU-1)",
                                      "GPU 0 (UUID: GPU-1",
                                      "0: NVIDIA H100 (UUID: GPU-1)"}) {
    EXPECT_TRUE(read_device_list(line).empty()) << line;
  }
}

}  // namespace
}  // namespace fragscope::explain
