// SPDX-License-Identifier: Apache-2.0
// Where facts come from, and which message of a log is about the failure at hand.
#include "analyzer/analysis/device_facts.hpp"

#include "tests/support/heap_builder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>

namespace fragscope::analysis {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace)
using ::testing::HasSubstr;
using verdict::Fact;

/// What PyTorch would print of the failure below: 24 tried, 10 of 100 free, 55 in use, 64 allowed.
explain::Message matching_message() {
  explain::Message message;
  message.device = 1;
  message.line = 17;
  message.figures.request = model::exactly(24_MiB);
  message.figures.free = model::exactly(10_MiB);
  message.figures.total = model::exactly(100_MiB);
  message.figures.limit = model::exactly(64_MiB);
  message.figures.process = model::exactly(55_MiB);
  return message;
}

/// Device 1, 24 MiB asked for behind 40 live ones; the driver's figure at that event is 10 MiB.
struct Failure24 {
  Options options;
  model::Settings settings;
  std::optional<std::uint64_t> process_bytes;
  verdict::DeviceFacts recorded{
      .free = {model::exactly(10_MiB), "recording"}, .total = {}, .limit = {}, .context = {}};
  Question question = failed(24_MiB);
  explain::Message message = matching_message();
  Supply supply = verdict::find_supply(heap({segment({live(40_MiB)})}), question, {});

  Failure24() {
    question.device = 1;
    options.log_name = "job.log";
  }
  [[nodiscard]] FoundFacts find() const {
    return find_device_facts({options, settings, recorded, process_bytes}, question, supply);
  }
  /// With `message` as all that the log has.
  [[nodiscard]] FoundFacts find_with_log() {
    options.messages = {message};
    return find();
  }
};

TEST(DeviceFacts, TheContextIsWhatTheProcessUsesBesideTheAllocator) {
  Failure24 given;
  given.process_bytes = 45_MiB;
  EXPECT_EQ(given.find().facts.context.bytes, model::exactly(5_MiB));
  EXPECT_EQ(given.find().facts.context.source, "NVML at the failure");
  EXPECT_EQ(given.find_with_log().facts.context.bytes, model::exactly(5_MiB))
      << "exact, where the log has a rounded figure";

  given.options.messages = {};
  given.process_bytes = 39_MiB;
  EXPECT_FALSE(given.find().facts.context.known()) << "less than the allocator holds";
}

TEST(DeviceFacts, AreUnknownWithoutASource) {
  Failure24 given;
  given.recorded.free = {};

  const FoundFacts found = given.find();

  EXPECT_FALSE(found.facts.free.known());
  EXPECT_FALSE(found.facts.total.known());
  EXPECT_FALSE(found.facts.limit.known());
  EXPECT_FALSE(found.facts.context.known());
}

TEST(DeviceFacts, TakeFreeFromTheRecording) {
  const FoundFacts found = Failure24().find();

  EXPECT_EQ(found.facts.free.bytes, model::exactly(10_MiB));
  EXPECT_EQ(found.facts.free.source, "recording");
  EXPECT_FALSE(found.log_matched);
}

TEST(DeviceFacts, BelieveAnOptionBeforeTheRecording) {
  Failure24 given;
  given.options.device_free_bytes = 12_MiB;
  given.options.device_total_bytes = 90_MiB;
  given.options.limit_bytes = 70_MiB;

  const FoundFacts found = given.find();

  EXPECT_EQ(found.facts.free.bytes, model::exactly(12_MiB));
  EXPECT_EQ(found.facts.free.source, "--device-free");
  EXPECT_EQ(found.facts.total.bytes, model::exactly(90_MiB));
  EXPECT_EQ(found.facts.total.source, "--device-total");
  EXPECT_EQ(found.facts.limit.bytes, model::exactly(70_MiB));
  EXPECT_EQ(found.facts.limit.source, "--limit");
}

// The process holds 55, of which 40 are this allocator's: 15 are its context.
TEST(DeviceFacts, TakeTheRestFromTheMessageOfTheFailure) {
  Failure24 given;

  const FoundFacts found = given.find_with_log();

  EXPECT_TRUE(found.log_matched);
  EXPECT_EQ(found.facts.total.bytes, model::exactly(100_MiB));
  EXPECT_EQ(found.facts.total.source, "job.log, line 17");
  EXPECT_EQ(found.facts.limit.bytes, model::exactly(64_MiB));
  EXPECT_EQ(found.facts.context.bytes, model::exactly(15_MiB));
  EXPECT_EQ(found.facts.free.source, "recording");
}

TEST(DeviceFacts, BelieveAnOptionBeforeTheLog) {
  Failure24 given;
  given.options.device_total_bytes = 90_MiB;
  given.options.limit_bytes = 70_MiB;

  const FoundFacts found = given.find_with_log();

  EXPECT_TRUE(found.log_matched);
  EXPECT_EQ(found.facts.total.bytes, model::exactly(90_MiB));
  EXPECT_EQ(found.facts.limit.bytes, model::exactly(70_MiB));
}

TEST(DeviceFacts, KeepTheRoundingOfAPrintedFigure) {
  Failure24 given;
  given.message.figures.total = model::Bounds{100_MiB - 5_KiB, 100_MiB + 5_KiB};

  EXPECT_EQ(given.find_with_log().facts.total.bytes, (Bounds{100_MiB - 5_KiB, 100_MiB + 5_KiB}));
}

TEST(LogMatch, NeedsTheDevice) {
  Failure24 given;
  given.message.device = 0;

  const FoundFacts found = given.find_with_log();

  EXPECT_FALSE(found.log_matched);
  EXPECT_FALSE(found.facts.total.known());
}

TEST(LogMatch, NeedsTheRequest) {
  Failure24 given;
  given.message.figures.request = model::exactly(26_MiB);

  EXPECT_FALSE(given.find_with_log().log_matched);
}

TEST(LogMatch, NeedsTheFreeMemory) {
  Failure24 given;
  given.message.figures.free = model::exactly(11_MiB);

  EXPECT_FALSE(given.find_with_log().log_matched);
}

// "10.00 MiB" is anything within 5 KiB; the recording's 10 MiB + 5 KiB still prints so.
TEST(LogMatch, AllowsForTheRounding) {
  Failure24 given;
  given.message.figures.free = model::Bounds{10_MiB - 5_KiB, 10_MiB + 5_KiB};
  given.recorded.free = {model::exactly(10_MiB + 5_KiB), "recording"};

  EXPECT_TRUE(given.find_with_log().log_matched);
}

TEST(LogMatch, EndsAtTheRounding) {
  Failure24 given;
  given.message.figures.free = model::Bounds{10_MiB - 5_KiB, 10_MiB + 5_KiB};
  given.recorded.free = {model::exactly(10_MiB + 5_KiB + 1), "recording"};

  EXPECT_FALSE(given.find_with_log().log_matched);
}

// "Tried to allocate" prints the device allocation: 20 MiB for a request of 3.
TEST(LogMatch, ComparesTheDeviceAllocation) {
  Failure24 given;
  given.question.size_bytes = 3_MiB;
  given.supply = verdict::find_supply(heap({segment({live(40_MiB)})}), given.question, {});
  given.message.figures.request = model::exactly(20_MiB);

  EXPECT_TRUE(given.find_with_log().log_matched);
}

// A line about mapping names the page, so the request is no help.
TEST(LogMatch, DoesWithoutARequestThatIsNotPrinted) {
  Failure24 given;
  given.message.figures.request = std::nullopt;

  EXPECT_TRUE(given.find_with_log().log_matched);
}

// A question at the moment of a failure is another request: device and free decide.
TEST(LogMatch, LeavesTheRequestOfAQuestionAside) {
  Failure24 given;
  given.question.recorded = false;
  given.message.figures.request = model::exactly(26_MiB);

  EXPECT_TRUE(given.find_with_log().log_matched);
}

// Without the free memory of that moment no message can be told to be about it.
TEST(LogMatch, NeedsAKnownFree) {
  Failure24 given;
  given.recorded.free = {};

  EXPECT_FALSE(given.find_with_log().log_matched);
}

TEST(LogMatch, TakesTheMessageThatMatchesOutOfSeveral) {
  Failure24 given;
  explain::Message other = given.message;
  other.figures.free = model::exactly(9_MiB);
  other.figures.total = model::exactly(50_MiB);
  given.options.messages = {other, given.message};

  EXPECT_EQ(given.find().facts.total.bytes, model::exactly(100_MiB));
}

// 0.5 * 90 = 45.
TEST(LimitFraction, IsOfTheDeviceTotal) {
  Failure24 given;
  given.options.limit_fraction = 0.5;
  given.options.device_total_bytes = 90_MiB;

  const FoundFacts found = given.find();

  EXPECT_EQ(found.facts.limit.bytes, model::exactly(45_MiB));
  EXPECT_THAT(found.facts.limit.source, HasSubstr("--limit: 0.5"));
}

// The card has at least what is reserved and free: 40 + 10. Half of that is the least the limit is.
TEST(LimitFraction, HasALowerEndWithoutATotal) {
  Failure24 given;
  given.options.limit_fraction = 0.5;

  EXPECT_EQ(given.find().facts.limit.bytes, (Bounds{25_MiB, verdict::kUnlimited}));
}

TEST(LimitFraction, OfOneGivenByHandIsNoLimit) {
  Failure24 given;
  given.options.limit_fraction = 1.0;
  given.settings.memory_fraction = 0.5;
  given.options.device_total_bytes = 90_MiB;

  EXPECT_FALSE(given.find().facts.limit.known());
}

// The nearest byte: 0.3 * 101 = 30.3, 0.5 * 101 = 50.5 rounds up.
TEST(LimitFraction, RoundsToTheNearestByte) {
  Failure24 given;
  given.options.device_total_bytes = 101;
  const auto limit_with = [&given](double fraction) {
    given.options.limit_fraction = fraction;
    return given.find().facts.limit.bytes;
  };

  EXPECT_EQ(limit_with(0.3), model::exactly(30));
  EXPECT_EQ(limit_with(0.5), model::exactly(51));
}

TEST(LimitFraction, OfTheSettingsIsTaken) {
  Failure24 given;
  given.settings.memory_fraction = 0.5;
  given.options.device_total_bytes = 90_MiB;

  const FoundFacts found = given.find();

  EXPECT_EQ(found.facts.limit.bytes, model::exactly(45_MiB));
  EXPECT_THAT(found.facts.limit.source, HasSubstr("settings"));
}

// 1 is the default: no limit.
TEST(LimitFraction, OfOneInTheSettingsIsNoLimit) {
  Failure24 given;
  given.settings.memory_fraction = 1.0;
  given.options.device_total_bytes = 90_MiB;

  EXPECT_FALSE(given.find().facts.limit.known());
}

TEST(LimitFraction, GivenByHandBeatsTheSettings) {
  Failure24 given;
  given.settings.memory_fraction = 0.5;
  given.options.limit_fraction = 0.25;
  given.options.device_total_bytes = 80_MiB;

  EXPECT_EQ(given.find().facts.limit.bytes, model::exactly(20_MiB));
}

// A total out of a log is an interval; so is half of it.
TEST(LimitFraction, KeepsTheBoundsOfTheTotal) {
  Failure24 given;
  given.message.figures.total = model::Bounds{90_MiB, 100_MiB};
  given.message.figures.limit = std::nullopt;
  given.options.limit_fraction = 0.5;

  EXPECT_EQ(given.find_with_log().facts.limit.bytes, (Bounds{45_MiB, 50_MiB}));
}

// By hand beats the log, for a fraction as for bytes: 0.5 * 100 = 50, not the 64 of the message.
TEST(LimitFraction, GivenByHandBeatsTheLog) {
  Failure24 given;
  given.options.limit_fraction = 0.5;

  EXPECT_EQ(given.find_with_log().facts.limit.bytes, model::exactly(50_MiB));
}

}  // namespace
}  // namespace fragscope::analysis
