// SPDX-License-Identifier: Apache-2.0
// cuDNN, as far as PyTorch asks for it without using it: which version it is. Its routines are
// missing, so programs with convolutions or recurrent layers set torch.backends.cudnn.enabled =
// False.
#include <cstddef>
#include <cstdint>

namespace {

// PyTorch refuses a library that is older than the one it was built with, inside one major version.
constexpr int kMajor = 9;
constexpr int kMinor = 99;

}  // namespace

extern "C" {

std::size_t cudnnGetVersion() {
  return kMajor * 10000 + kMinor * 100;
}
std::size_t cudnnGetCudartVersion() {
  return 13020;
}

std::int32_t cudnnGetProperty(std::int32_t property, int* value) {
  const int parts[] = {kMajor, kMinor, 0};
  constexpr std::int32_t kBadParameter = 2000;
  if (property < 0 || property > 2) return kBadParameter;
  *value = parts[property];
  return 0;
}

}  // extern "C"
