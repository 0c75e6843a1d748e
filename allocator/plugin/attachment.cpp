// SPDX-License-Identifier: Apache-2.0
// The way to attach, for allocator/torch, which finds it by name.
#include "allocator/attach/attachments.hpp"

#include <exception>

extern "C" {

/// The device's `engine::Attachment`; null: it is not recorded.
void* fragscope_attachment(int ordinal) {
  try {
    return static_cast<fragscope::engine::Attachment*>(
        fragscope::attach::Attachments::instance().device(ordinal));
  } catch (const std::exception&) {
    return nullptr;
  }
}

}  // extern "C"
