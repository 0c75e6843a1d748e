// SPDX-License-Identifier: Apache-2.0
#include "allocator/torch/user_scopes.hpp"

#include <dlfcn.h>

#include <memory>

#include <ATen/record_function.h>

namespace fragscope::shim {
namespace {

constexpr int kBegin = 1;
constexpr int kEnd = 2;

/// Of libfragscope_alloc.so. Takes a name and one of the above, and throws nothing.
void (*annotation)(const char*, int) = nullptr;

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& scope) {
  annotation(scope.name(), kBegin);
  return nullptr;
}

void end(const at::RecordFunction& scope, at::ObserverContext* /*context*/) {
  annotation(scope.name(), kEnd);
}

}  // namespace

void hear_user_scopes(void* library) {
  if (annotation != nullptr) return;
  annotation = reinterpret_cast<void (*)(const char*, int)>(dlsym(library, "fragscope_annotation"));
  if (annotation == nullptr) return;
  // PyTorch keeps a list of callbacks for each kind of scope, so the other kinds know nothing of
  // it: operators are as fast as ever.
  at::addGlobalCallback(
      at::RecordFunctionCallback(&begin, &end).scopes({at::RecordScope::USER_SCOPE}));
}

}  // namespace fragscope::shim
