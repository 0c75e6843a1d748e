// SPDX-License-Identifier: Apache-2.0
// What an entry point says that nothing implements. Called by the generated stubs of every library.
#pragma once

#include <string_view>

extern "C" {

/// Says once for each name, on standard error, that the call fails. Returns `code`.
long fragscope_vc_unimplemented(const char* name, long code);
}

namespace fragscope::virtual_cuda {

/// The same for a part of an entry point, such as one value of an enumeration.
void say_unimplemented(std::string_view what);

}  // namespace fragscope::virtual_cuda
