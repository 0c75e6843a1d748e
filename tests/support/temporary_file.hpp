// SPDX-License-Identifier: Apache-2.0
// A file with given bytes that goes when the test ends.
#pragma once

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace fragscope::test {

class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view bytes)
      : path_(::testing::TempDir() + "fragscope_XXXXXX") {
    const int descriptor = ::mkstemp(path_.data());
    EXPECT_GE(descriptor, 0) << path_;
    EXPECT_EQ(::write(descriptor, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
    ::close(descriptor);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::remove(path_.c_str()); }

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace fragscope::test
