// SPDX-License-Identifier: Apache-2.0
#include "analyzer/logtext/clean_text.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace fragscope::logtext {
namespace {

TEST(CleanText, LeavesPlainTextAndLineBreaks) {
  EXPECT_EQ(clean_text("free 1.5 GiB\nof 80 GiB, na\xc3\xafve"),
            "free 1.5 GiB\nof 80 GiB, na\xc3\xafve");
  EXPECT_EQ(clean_text(""), "");
}

TEST(CleanText, TakesTerminalCodesOut) {
  EXPECT_EQ(clean_text("\x1b[1;31mCUDA\x1b[0m out\x1b[K of memory"), "CUDA out of memory");
  EXPECT_EQ(clean_text("\x1b[?25lready"), "ready");
}

TEST(CleanText, TakesTerminalCodesOutThatAreWrittenAsText) {
  EXPECT_EQ(clean_text(R"(\x1b[31mred\x1b[0m \u001b[1mbold\u001b[0m \033[2mfaint\e[0m)"),
            "red bold faint");
}

TEST(CleanText, UndoesTheEscapesOfJsonAndRust) {
  EXPECT_EQ(clean_text(R"({"msg": "first\nsecond\tthird \"quoted\""})"),
            "{\"msg\": \"first\nsecond third \"quoted\"\"}");
  EXPECT_EQ(clean_text(R"(it\'s)"), "it's");
}

TEST(CleanText, LeavesOtherBackslashes) {
  EXPECT_EQ(clean_text(R"(C:\models\weights)"), R"(C:\models\weights)");
  EXPECT_EQ(clean_text("ends with \\"), "ends with \\");
}

TEST(CleanText, MakesControlCharactersBlanks) {
  EXPECT_EQ(clean_text(std::string_view("a\rb\tc\0d\x7f", 8)), "a b c d ");
}

TEST(CleanText, SurvivesCodesThatAreCutOff) {
  EXPECT_EQ(clean_text("end\x1b"), "end");
  EXPECT_EQ(clean_text("end\x1b["), "end");
  EXPECT_EQ(clean_text("end\x1b[31"), "end");
  EXPECT_EQ(clean_text(R"(end\u001b[)"), "end");
}

}  // namespace
}  // namespace fragscope::logtext
