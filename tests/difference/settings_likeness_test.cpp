// SPDX-License-Identifier: Apache-2.0
#include "analyzer/difference/settings_likeness.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace fragscope::difference {
namespace {

model::Recording recording_with(std::optional<std::string> conf) {
  model::Recording recording;
  recording.kind = "torch-snapshot";
  recording.settings.conf = std::move(conf);
  return recording;
}

SettingsLikeness compared(const model::Recording& first, const model::Recording& second) {
  return settings_likeness(compare_facts(first, second));
}

TEST(SettingsLikeness, IsNotByTheOrderOfOptions) {
  EXPECT_EQ(compared(recording_with("a:1,b:[2:3,4:5]"), recording_with("b:[2:3,4:5], a:1")),
            SettingsLikeness::kSame);
}

TEST(SettingsLikeness, IsNotByWhoRecords) {
  EXPECT_EQ(compared(recording_with("backend:fragscope,fragscope_ring:1GiB"), recording_with("")),
            SettingsLikeness::kSame);
}

TEST(SettingsLikeness, AnOptionThatOneLacksDiffers) {
  EXPECT_EQ(compared(recording_with("a:1"), recording_with("a:1,b:2")), SettingsLikeness::kOther);
}

TEST(SettingsLikeness, WhatWasInForceDiffersThoughTheStringsDoNot) {
  model::Recording changed = recording_with("");
  changed.settings.rules.expandable_segments = true;

  EXPECT_EQ(compared(recording_with(""), changed), SettingsLikeness::kOther);
}

TEST(SettingsLikeness, WithoutSettingsInTheFileCannotBeTold) {
  EXPECT_EQ(compared(recording_with(std::nullopt), recording_with("a:1")),
            SettingsLikeness::kUnknown);
  EXPECT_EQ(compared(recording_with(std::nullopt), recording_with(std::nullopt)),
            SettingsLikeness::kUnknown);
}

TEST(SettingsLikeness, AVersionIsNoSetting) {
  model::Recording newer = recording_with("a:1");
  newer.writer = "PyTorch 2.15";

  EXPECT_EQ(compared(recording_with("a:1"), newer), SettingsLikeness::kSame);
}

}  // namespace
}  // namespace fragscope::difference
