// SPDX-License-Identifier: Apache-2.0
// cuDNN's graph interface, through which PyTorch runs convolutions and attention: a program
// describes what to compute with descriptors, asks which engines can do it, makes a plan and
// executes it. Here a descriptor keeps what it is given, there is always one engine, it needs no
// workspace, and a plan is one piece of work that computes nothing.
#include "virtual_cuda/core/unimplemented.hpp"
#include "virtual_cuda/libcudnn/context.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

using namespace fragscope::virtual_cuda;  // NOLINT(google-build-using-namespace)

namespace {

struct Attribute {
  std::int64_t count = 0;
  std::vector<char> bytes;
};

struct Descriptor {
  std::map<std::int32_t, Attribute> attributes;
};

// The size of one element, by cudnnBackendAttributeType_t; all types that are not listed are enums.
std::size_t element_bytes(std::int32_t type) {
  switch (type) {
    case 0:   // Handle.
    case 3:   // 64-bit integer.
    case 5:   // Double.
    case 6:   // Pointer.
    case 15:  // Descriptor.
      return 8;
    case 2:   // Boolean.
    case 24:  // Character.
      return 1;
    case 26:  // Fraction.
      return 16;
    default:
      return 4;
  }
}

// cudnnBackendAttributeName_t, as far as programs ask for what nobody set.
enum class Name : std::int32_t {
  kHeuristicResults = 202,
  kConfigEngine = 300,
  kConfigKnobChoices = 302,
  kConfigWorkspace = 303,
  kConfigSharedMemory = 304,
  kPlanWorkspace = 402,
  kEngineCount = 802,
  kEngineIndex = 1301,
  kEngineKnobs = 1302,
  kEngineNumericalNotes = 1303,
  kEngineBehaviorNotes = 1305,
};

// What a program asks for, and where the answer goes.
struct Question {
  Name name;
  std::int32_t type;
  std::int64_t requested;
  std::int64_t* count;
  void* elements;
};

DnnStatus answer_count(const Question& question, std::int64_t count) {
  if (question.count != nullptr) *question.count = count;
  return DnnStatus::kSuccess;
}

DnnStatus answer_number(const Question& question, std::int64_t number) {
  if (question.requested > 0 && question.elements != nullptr) {
    // The low bytes come first, so a narrower type takes its part.
    const std::size_t width = std::min(sizeof(number), element_bytes(question.type));
    std::memcpy(question.elements, &number, width);
  }
  return answer_count(question, 1);
}

DnnStatus answer_unset(const Question& question) {
  switch (question.name) {
    case Name::kHeuristicResults:
    case Name::kConfigEngine:
      // The caller made the descriptors that are to be filled; ours need no filling.
      return answer_count(question, 1);
    case Name::kConfigKnobChoices:
    case Name::kEngineKnobs:
    case Name::kEngineNumericalNotes:
    case Name::kEngineBehaviorNotes:
      return answer_count(question, 0);
    case Name::kConfigWorkspace:
    case Name::kConfigSharedMemory:
    case Name::kPlanWorkspace:
    case Name::kEngineIndex:
      return answer_number(question, 0);
    case Name::kEngineCount:
      return answer_number(question, 1);
  }
  const int number = static_cast<int>(question.name);
  say_unimplemented("cudnnBackendGetAttribute(" + std::to_string(number) + ")");
  return DnnStatus::kNotSupported;
}

}  // namespace

extern "C" {

std::int32_t cudnnBackendCreateDescriptor(std::int32_t, void** descriptor) {
  *descriptor = std::make_unique<Descriptor>().release();
  return 0;
}

std::int32_t cudnnBackendDestroyDescriptor(void* descriptor) {
  const std::unique_ptr<Descriptor> owner(static_cast<Descriptor*>(descriptor));
  return 0;
}

std::int32_t cudnnBackendFinalize(void*) {
  return 0;
}

std::int32_t cudnnBackendSetAttribute(void* descriptor,
                                      std::int32_t name,
                                      std::int32_t type,
                                      std::int64_t count,
                                      const void* elements) {
  if (count < 0) return static_cast<std::int32_t>(DnnStatus::kBadParameter);
  Attribute& attribute = static_cast<Descriptor*>(descriptor)->attributes[name];
  const auto* const first = static_cast<const char*>(elements);
  attribute.count = count;
  attribute.bytes.assign(first, first + static_cast<std::size_t>(count) * element_bytes(type));
  return 0;
}

std::int32_t cudnnBackendGetAttribute(void* descriptor,
                                      std::int32_t name,
                                      std::int32_t type,
                                      std::int64_t requested,
                                      std::int64_t* count,
                                      void* elements) {
  const auto& attributes = static_cast<const Descriptor*>(descriptor)->attributes;
  const auto found = attributes.find(name);
  if (found == attributes.end()) {
    return static_cast<std::int32_t>(
        answer_unset({static_cast<Name>(name), type, requested, count, elements}));
  }
  const Attribute& attribute = found->second;
  if (count != nullptr) *count = attribute.count;
  const std::int64_t given = std::clamp<std::int64_t>(requested, 0, attribute.count);
  if (given > 0 && elements != nullptr) {
    std::memcpy(
        elements, attribute.bytes.data(), static_cast<std::size_t>(given) * element_bytes(type));
  }
  return 0;
}

std::int32_t cudnnBackendExecute(void* handle, void*, void*) {
  return dnn_work(__func__, handle);
}

}  // extern "C"
