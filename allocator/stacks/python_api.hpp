// SPDX-License-Identifier: Apache-2.0
// The functions of the running Python interpreter that a walk up its stack needs, found by name in
// the process: no Python at build time, and one library for all its versions from 3.11 on.
#pragma once

#include <cstddef>

namespace fragscope::stacks {

/// Python's objects, known by address alone.
struct PyObject;

struct PythonApi {
  int (*is_initialized)() = nullptr;
  int (*is_finalizing)() = nullptr;
  void* (*this_thread_state)() = nullptr;
  int (*gil_ensure)() = nullptr;
  void (*gil_release)(int state) = nullptr;
  PyObject* (*current_frame)() = nullptr;            ///< Borrowed.
  PyObject* (*frame_code)(PyObject*) = nullptr;      ///< New reference.
  PyObject* (*frame_back)(PyObject*) = nullptr;      ///< New reference, or null.
  int (*frame_lasti)(PyObject*) = nullptr;           ///< Offset of the instruction in the code.
  int (*code_line)(PyObject*, int lasti) = nullptr;  ///< -1: none.
  PyObject* (*attribute)(PyObject*, const char* name) = nullptr;  ///< New reference, or null.
  const char* (*utf8)(PyObject*, std::ptrdiff_t* size) = nullptr;
  void (*increment)(PyObject*) = nullptr;
  void (*decrement)(PyObject*) = nullptr;
  void (*clear_error)() = nullptr;
};

/// Null if this process had no such interpreter when this was first called. Thread-safe.
[[nodiscard]] const PythonApi* python_api();

}  // namespace fragscope::stacks
