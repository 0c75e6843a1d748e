// SPDX-License-Identifier: Apache-2.0
#include "allocator/stacks/python_api.hpp"

#include <dlfcn.h>

namespace fragscope::stacks {
namespace {

template <class Function>
bool find(Function*& function, const char* name) {
  function = reinterpret_cast<Function*>(::dlsym(RTLD_DEFAULT, name));
  return function != nullptr;
}

bool find_all(PythonApi& api) {
  return find(api.is_initialized, "Py_IsInitialized") &&
         (find(api.is_finalizing, "Py_IsFinalizing") ||
          find(api.is_finalizing, "_Py_IsFinalizing")) &&
         find(api.this_thread_state, "PyGILState_GetThisThreadState") &&
         find(api.gil_ensure, "PyGILState_Ensure") && find(api.gil_release, "PyGILState_Release") &&
         find(api.current_frame, "PyEval_GetFrame") && find(api.frame_code, "PyFrame_GetCode") &&
         find(api.frame_back, "PyFrame_GetBack") && find(api.frame_lasti, "PyFrame_GetLasti") &&
         find(api.code_line, "PyCode_Addr2Line") && find(api.attribute, "PyObject_GetAttrString") &&
         find(api.utf8, "PyUnicode_AsUTF8AndSize") && find(api.increment, "Py_IncRef") &&
         find(api.decrement, "Py_DecRef") && find(api.clear_error, "PyErr_Clear");
}

}  // namespace

const PythonApi* python_api() {
  static PythonApi api;
  static const bool is_complete = find_all(api);
  return is_complete ? &api : nullptr;
}

}  // namespace fragscope::stacks
