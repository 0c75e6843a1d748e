// SPDX-License-Identifier: Apache-2.0
// The C functions by which the Python loader puts us into PyTorch, once its libraries are loaded.
#include "allocator/torch/attach/attached_allocator.hpp"
#include "allocator/torch/dropin/dropin_allocator.hpp"
#include "allocator/torch/torch_names.hpp"
#include "allocator/torch/user_scopes.hpp"

#include <dlfcn.h>

#include <exception>
#include <string>
#include <string_view>

#define FRAGSCOPE_EXPORT __attribute__((visibility("default")))

extern "C" {

/// The PyTorch that this was compiled for, as torch.__version__ has it.
FRAGSCOPE_EXPORT const char* fragscope_torch_version(void) {
#ifdef FRAGSCOPE_TORCH_VERSION
  return FRAGSCOPE_TORCH_VERSION;
#else
  return TORCH_VERSION;
#endif
}

}  // extern "C"

namespace {

/// Texts that a caller in C reads: the last one of each thread.
const char* kept(std::string_view text) {
  static thread_local std::string place;
  place = text;
  return place.c_str();
}

/// Null, or in one line what went wrong.
template <class Body>
const char* error_of(Body&& body) noexcept {
  try {
    return body();
  } catch (const c10::Error& error) {
    return kept(error.what_without_backtrace());
  } catch (const std::exception& error) {
    return kept(error.what());
  } catch (...) {
    return "an unknown exception";
  }
}

/// The rules and the trace go by PyTorch's version. Null, or in one line why it cannot be told.
const char* tell_version(void* handle) {
  using Configure = const char* (*)(const char*, const char*);
  const auto configure = reinterpret_cast<Configure>(dlsym(handle, "fragscope_configure"));
  if (configure == nullptr) return "the library has no fragscope_configure";
  return configure("torch_version", fragscope_torch_version());
}

}  // namespace

extern "C" {

/// Makes PyTorch read its settings now, so that the variable may say something else afterwards.
/// Null, or what PyTorch does not like about them.
FRAGSCOPE_EXPORT const char* fragscope_torch_parse_settings(void) {
  return error_of([]() -> const char* {
    fragscope::shim::parse_settings();
    return nullptr;
  });
}

/// Puts us in. `library` is the path of libfragscope_alloc.so, `way` how: "attach" records
/// PyTorch's own allocator, "dropin" takes its place. Null, or in one line why not, and then
/// nothing has changed.
FRAGSCOPE_EXPORT const char* fragscope_torch_install(const char* library, const char* way) {
  return error_of([&]() -> const char* {
    if (library == nullptr || way == nullptr) return "a library and a way are needed";
    const std::string_view wanted = way;
    if (wanted != "attach" && wanted != "dropin") return "no such way in";
    // PyTorch gives memory back after static destructors have run: it is never unloaded.
    void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (handle == nullptr) return kept(dlerror());
    if (const char* refusal = tell_version(handle)) return refusal;
    const char* refusal =
        wanted == "attach" ? fragscope::shim::attach(library) : fragscope::shim::drop_in(library);
    if (refusal == nullptr) fragscope::shim::hear_user_scopes(handle);
    return refusal;
  });
}

/// Before the process ends: what the program said last is written. Null, or in one line why not.
FRAGSCOPE_EXPORT const char* fragscope_torch_flush(void) {
  return error_of([]() -> const char* {
    fragscope::shim::flush();
    return nullptr;
  });
}

}  // extern "C"
