// SPDX-License-Identifier: Apache-2.0
// PyTorch's annotations as stages: what a program, or PyTorch itself, wraps into record_function,
// such as an optimizer's step, a profiler's step, or a wrapped module's forward pass.
#pragma once

namespace fragscope::shim {

/// Tells `library` (of libfragscope_alloc.so, loaded) from now on where scopes begin and end, on
/// every thread. Once; costs nothing where there is no scope. Whether the program records PyTorch's
/// own history makes no difference.
void hear_user_scopes(void* library);

}  // namespace fragscope::shim
