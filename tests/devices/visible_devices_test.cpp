// SPDX-License-Identifier: Apache-2.0
// CUDA_VISIBLE_DEVICES in all its forms.
#include "devices/visible_devices.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fragscope::devices {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<Candidate> kThree = {
    {"GPU-aa11", true}, {"GPU-ab22", true}, {"MIG-cc33", false}, {"GPU-dd44", true}};

VisibleDevices read(std::string_view text) {
  return read_visible_devices(text, kThree);
}

TEST(VisibleDevices, NotSetShowsEveryGpu) {
  EXPECT_THAT(read_visible_devices(std::nullopt, kThree).shown, ElementsAre(0, 1, 3));
}

TEST(VisibleDevices, EmptyShowsNothing) {
  EXPECT_THAT(read("").shown, IsEmpty());
  EXPECT_EQ(read("").stopped_at, std::nullopt);
}

TEST(VisibleDevices, TheOrderIsTheProgramsOrder) {
  EXPECT_THAT(read("2,0").shown, ElementsAre(3, 0));
  EXPECT_EQ(read("2,0").stopped_at, std::nullopt);
}

TEST(VisibleDevices, TheFirstThatNamesNoDeviceEndsTheList) {
  for (const char* text : {"0,7,1", "0,-1,1", "0,no,1", "0,,1", "0,GPU-ff,1"}) {
    const VisibleDevices visible = read(text);
    EXPECT_THAT(visible.shown, ElementsAre(0)) << text;
    EXPECT_NE(visible.stopped_at, std::nullopt) << text;
  }
  EXPECT_EQ(read("0,7,1").stopped_at, "7");
  EXPECT_THAT(read("0,7,1").reason, HasSubstr("3 GPUs"));
  EXPECT_THAT(read("-1").shown, IsEmpty());
  EXPECT_THAT(read("NoDevFiles").shown, IsEmpty());
}

TEST(VisibleDevices, OfANumberTheDigitsCount) {
  EXPECT_THAT(read("1gpu2, 2 ,+0").shown, ElementsAre(1, 3, 0));
}

TEST(VisibleDevices, AUuidMayBeCutShort) {
  EXPECT_THAT(read("GPU-dd,GPU-aa11").shown, ElementsAre(3, 0));
  EXPECT_THAT(read("GPU-a").shown, IsEmpty());
  EXPECT_EQ(read("GPU-a").reason, "several devices begin so");
}

TEST(VisibleDevices, AMigDeviceHasAUuidAndNoNumber) {
  EXPECT_THAT(read("MIG-cc33").shown, ElementsAre(2));
  EXPECT_THAT(read("3").shown, IsEmpty());
}

TEST(VisibleDevices, ADeviceNamedTwiceHidesAll) {
  EXPECT_THAT(read("0,1,0").shown, IsEmpty());
  EXPECT_EQ(read("0,1,0").stopped_at, "0");
  EXPECT_THAT(read("GPU-aa,0").shown, IsEmpty());
}

}  // namespace
}  // namespace fragscope::devices
