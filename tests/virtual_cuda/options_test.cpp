// SPDX-License-Identifier: Apache-2.0
#include "virtual_cuda/core/options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace fragscope::virtual_cuda {
namespace {

using testing::HasSubstr;

Options options_of(std::string_view text) {
  const auto options = parse_options(text);
  EXPECT_TRUE(options) << text << ": " << options.error().message;
  return options.value_or(Options());
}

TEST(ParseOptions, NothingIsOneH100) {
  const Options options = options_of("");

  ASSERT_EQ(options.devices.size(), 1U);
  EXPECT_EQ(options.devices[0].preset, "h100-80g");
  EXPECT_EQ(options.context_bytes, 512 * kMiB);
}

TEST(ParseOptions, ValuesGivenAgainDescribeTheNextGpu) {
  const Options options = options_of("gpus=3,preset=a100-40g,preset=t4-16g,memory=10GiB,sms=7");

  ASSERT_EQ(options.devices.size(), 3U);
  EXPECT_EQ(options.devices[0].preset, "a100-40g");
  EXPECT_EQ(options.devices[1].preset, "t4-16g");
  EXPECT_EQ(options.devices[2].preset, "t4-16g");
  EXPECT_EQ(options.devices[2].memory_bytes, 10 * kGiB);
  EXPECT_EQ(options.devices[2].multiprocessor_count, 7);
}

TEST(ParseOptions, ReadsNeighboursAndFaults) {
  const Options options =
      options_of("gpus=2,neighbour=1GiB,neighbour=1:2GiB@40,fail=malloc:3,fail=nvml:1..");

  ASSERT_EQ(options.neighbours.size(), 2U);
  EXPECT_EQ(options.neighbours[0].bytes, kGiB);
  EXPECT_EQ(options.neighbours[1].device, 1);
  EXPECT_EQ(options.neighbours[1].attempt, 40U);
  ASSERT_EQ(options.faults.size(), 2U);
  EXPECT_EQ(options.faults[0].nth, 3U);
  EXPECT_FALSE(options.faults[0].onward);
  EXPECT_EQ(options.faults[1].kind, FaultKind::kNvml);
  EXPECT_TRUE(options.faults[1].onward);
}

TEST(ParseOptions, ReadsProcessesAndWhatNvmlAnswers) {
  const Options options =
      options_of("gpus=2,process=1:77:2GiB:python a:b,process=0:78:1GiB,nvml=Init:9,nvml-pid=4242");

  ASSERT_EQ(options.processes.size(), 2U);
  EXPECT_EQ(options.processes[0].device, 1);
  EXPECT_EQ(options.processes[0].pid, 77U);
  EXPECT_EQ(options.processes[0].bytes, 2 * kGiB);
  EXPECT_EQ(options.processes[0].name, "python a:b");
  EXPECT_EQ(options.processes[1].name, "");
  ASSERT_EQ(options.nvml_answers.size(), 1U);
  EXPECT_EQ(options.nvml_answers[0].function, "Init");
  EXPECT_EQ(options.nvml_answers[0].code, 9);
  EXPECT_EQ(options.nvml_pid, 4242U);
}

TEST(ParseOptions, SaysWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"gpu=1", "unknown option gpu"},
      {"gpus=9", "expected 0 to 8"},
      {"gpus=two", "expected 0 to 8"},
      {"preset=h100", "one of h100-80g"},
      {"memory=80GB", "memory=80GB"},
      {"compute=9", "M.N"},
      {"neighbour=9:1GiB", "[GPU:]SIZE[@ATTEMPT]"},
      {"process=0:1GiB", "GPU:PID:SIZE[:NAME]"},
      {"process=0:0:1GiB", "GPU:PID:SIZE[:NAME]"},
      {"nvml=Init", "FUNCTION:CODE"},
      {"nvml-pid=x", "a process id"},
      {"fail=malloc", "KIND:NTH"},
      {"fail=malloc:0", "KIND:NTH"},
      {"fail=cuda:1", "KIND:NTH"},
  };
  for (const auto& [text, message] : cases) {
    const auto options = parse_options(text);
    ASSERT_FALSE(options) << text;
    EXPECT_THAT(options.error().message, HasSubstr(message)) << text;
  }
}

TEST(ParseSize, ReadsBinaryUnits) {
  EXPECT_EQ(parse_size("4096").value_or(0), 4096U);
  EXPECT_EQ(parse_size("2MiB").value_or(0), 2 * kMiB);
  EXPECT_EQ(parse_size("1.5GiB").value_or(0), 1536 * kMiB);
  EXPECT_FALSE(parse_size("-1GiB"));
  EXPECT_FALSE(parse_size("nan"));
  EXPECT_FALSE(parse_size("1000TiB"));
  EXPECT_FALSE(parse_size(""));
}

}  // namespace
}  // namespace fragscope::virtual_cuda
