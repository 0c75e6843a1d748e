// SPDX-License-Identifier: Apache-2.0
// The driver of a fuzz target where libFuzzer is not: runs every file named, and every file of a
// folder named (not of folders in it), through LLVMFuzzerTestOneInput. Whatever goes wrong ends
// the program, so an exit code of 0 means that the whole corpus passed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void add_files(const std::filesystem::path& path, std::vector<std::filesystem::path>& files) {
  if (!std::filesystem::is_directory(path)) {
    files.push_back(path);
    return;
  }
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
}

bool run_file(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) {
    std::fprintf(stderr, "cannot read %s\n", path.c_str());
    return false;
  }
  const std::vector<char> bytes((std::istreambuf_iterator<char>(stream)),
                                std::istreambuf_iterator<char>());
  std::fprintf(stderr, "%s (%zu bytes)\n", path.c_str(), bytes.size());
  // On the heap and no byte longer, as libFuzzer gives it, so that a sanitizer sees any overrun.
  const auto copy = std::make_unique<std::uint8_t[]>(bytes.size());
  std::ranges::copy(bytes, copy.get());
  LLVMFuzzerTestOneInput(copy.get(), bytes.size());
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::vector<std::filesystem::path> files;
    for (int i = 1; i < argc; ++i)
      add_files(argv[i], files);
    std::ranges::sort(files);
    if (files.empty()) {
      std::fputs("name the files or folders of a corpus\n", stderr);
      return 1;
    }
    bool all_ran = true;
    for (const auto& file : files)
      all_ran = run_file(file) && all_ran;
    std::fprintf(stderr, "%zu inputs\n", files.size());
    return all_ran ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
