// SPDX-License-Identifier: Apache-2.0
#include "allocator/policy/conf/conf_tokens.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>

namespace fragscope::policy {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ConfTokens, KeepSeparatorsAndDropWhitespace) {
  EXPECT_THAT(conf_tokens("a : [1:2,>:3]\n", TorchVersion::kTorch215),
              ElementsAre("a", ":", "[", "1", ":", "2", ",", ">", ":", "3", "]"));
  EXPECT_THAT(conf_tokens("a b\tc", TorchVersion::kTorch215), ElementsAre("abc"));
  EXPECT_THAT(conf_tokens("a b\tc", TorchVersion::kTorch26), ElementsAre("ab\tc"));
  EXPECT_THAT(conf_tokens(" ", TorchVersion::kTorch26), IsEmpty());
}

TEST(ConfTokens, ReadANumberAtTheFront) {
  EXPECT_EQ(to_unsigned("128.7"), 128U);
  EXPECT_EQ(to_unsigned("+64MB"), 64U);
  EXPECT_EQ(to_unsigned("0x40"), 0U);
  EXPECT_EQ(to_unsigned("-1"), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(to_int("-2147483648"), std::numeric_limits<int>::min());
  EXPECT_EQ(to_double("0x1p-1"), 0.5);
  EXPECT_TRUE(std::isnan(to_double("nan").value()));
}

TEST(ConfTokens, TellWhyThereIsNoNumber) {
  EXPECT_EQ(to_unsigned("abc").error(), NumberFault::kNoNumber);
  EXPECT_EQ(to_unsigned("").error(), NumberFault::kNoNumber);
  EXPECT_EQ(to_unsigned("18446744073709551616").error(), NumberFault::kOutOfRange);
  EXPECT_EQ(to_int("2147483648").error(), NumberFault::kOutOfRange);
  EXPECT_EQ(to_double("1e400").error(), NumberFault::kOutOfRange);
  EXPECT_EQ(to_double("1e-400").error(), NumberFault::kOutOfRange);
}

TEST(ConfTokens, ReadAPlainNumberWhole) {
  EXPECT_EQ(to_plain_double("1.125"), 1.125);
  for (const char* token : {"", "1x", "0x10", "inf", "nan", "1e", "1e309"}) {
    EXPECT_FALSE(to_plain_double(token)) << token;
  }
}

}  // namespace
}  // namespace fragscope::policy
