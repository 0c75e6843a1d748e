// SPDX-License-Identifier: Apache-2.0
// A terminal, a logger or an issue form may break a message at any column, also inside a word or a
// number. Each form is broken at every place; what is read must not change.
#include "tests/explain/message/sample_messages.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace fragscope::explain::test {
namespace {

struct Form {
  const char* name;
  std::string_view text;
};

class WrappedMessages : public ::testing::TestWithParam<Form> {};

std::string broken_every(std::string_view text, std::size_t columns) {
  std::string broken;
  for (std::size_t at = 0; at < text.size(); at += columns)
    broken += std::string(text.substr(at, columns)) + "\n";
  return broken;
}

TEST_P(WrappedMessages, ReadTheSameBrokenInTwoAnywhere) {
  const std::string_view whole = GetParam().text;
  const std::string wanted = described(whole);
  ASSERT_NE(wanted, "");
  for (std::size_t at = 1; at < whole.size(); ++at) {
    for (const char* line_end : {"\n", "\r\n", "\n  "}) {
      const std::string broken =
          std::string(whole.substr(0, at)) + line_end + std::string(whole.substr(at));
      EXPECT_EQ(described(broken), wanted) << broken;
    }
  }
}

// Down to 60 columns the words by which a message is found are broken once at most.
TEST_P(WrappedMessages, ReadTheSameAtAnyWidth) {
  const std::string_view whole = GetParam().text;
  for (std::size_t columns = 60; columns <= 200; ++columns) {
    EXPECT_EQ(described(broken_every(whole, columns)), described(whole)) << columns << " columns";
  }
}

INSTANTIATE_TEST_SUITE_P(Forms,
                         WrappedMessages,
                         ::testing::Values(Form{"of10", k10},
                                           Form{"of14", k14},
                                           Form{"of18", k18},
                                           Form{"of111", k111},
                                           Form{"of21", k21},
                                           Form{"of22", k22},
                                           Form{"of26", k26},
                                           Form{"of29", k29},
                                           Form{"hip", kHip},
                                           Form{"xpu", kXpu},
                                           Form{"xpu_large_block", kXpuLargeBlock},
                                           Form{"mps", kMps},
                                           Form{"npu", kNpu},
                                           Form{"async", kAsync},
                                           Form{"rejected", kRejected},
                                           Form{"beyond", kBeyond},
                                           Form{"allocation_attempt", kAllocationAttempt},
                                           Form{"mapping_attempt", kMappingAttempt},
                                           Form{"vllm_check", kVllmCheck},
                                           Form{"jax", kJax},
                                           Form{"stream_executor", kStreamExecutor},
                                           Form{"llama", kLlama}),
                         [](const auto& form) { return std::string(form.param.name); });

}  // namespace
}  // namespace fragscope::explain::test
