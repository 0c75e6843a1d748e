// SPDX-License-Identifier: Apache-2.0
// The allocator as a pair of C functions, for torch.cuda.memory.CUDAPluggableAllocator and anything
// else that takes one:
//
//   allocator = torch.cuda.memory.CUDAPluggableAllocator(
//       "libfragscope_alloc.so", "fragscope_alloc", "fragscope_free")
//   torch.cuda.memory.change_current_allocator(allocator)
//
// The library finds the CUDA driver when it is first used; it needs neither PyTorch nor CUDA's own
// libraries. Every function may be called from any thread. Options are those of
// PYTORCH_CUDA_ALLOC_CONF, with PyTorch's meaning. Rings lie in FRAGSCOPE_RING_DIR, or /dev/shm.
//
// Failure. Callers of such a pair do not check what they get: PyTorch makes a tensor of whatever
// pointer comes back. So fragscope_alloc never returns null for a request of more than 0 bytes: it
// throws a C++ exception derived from std::bad_alloc, whose what() has PyTorch's own words for an
// out-of-memory error, and where the trace lies. Python sees a RuntimeError with that text. Nothing
// else is ever thrown, and no other function throws.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

// Memory of at least `size` bytes on the device, for work on `stream` (a cudaStream_t). Null for 0
// bytes, and only for those.
void* fragscope_alloc(ssize_t size, int device, void* stream);

// Gives it back; null does nothing, and so does what was not handed out here. `size` and `stream`
// are not looked at: the block knows its own.
void fragscope_free(void* pointer, ssize_t size, int device, void* stream);

// The memory is used by work on `stream`, too, which its reuse has to wait for.
void fragscope_record_stream(void* pointer, void* stream);

// Gives everything back to the driver that nobody uses, on all devices.
void fragscope_empty_cache(void);

// At most this part of the device's memory (0 to 1) may be held.
void fragscope_memory_fraction(double fraction, int device);

// The segment that handed-out memory lies in; its size goes into `size`, where that is not null.
// Null for what was not handed out here.
void* fragscope_base_alloc(void* pointer, size_t* size);

// Writes a mark into the trace of every device: a point (0), or where a stage begins (1) or ends
// (2). With it goes who uses the device, which takes NVML milliseconds; where marks come so fast
// that this would be more than a twentieth of the time, it is left out. A device that is not used
// yet gets the last 256 when it is, with their own times.
void fragscope_mark(const char* text, int kind);

// The same for a mark from before this library was loaded: when it was said, by CLOCK_MONOTONIC,
// and by which thread, by the system's id.
void fragscope_mark_earlier(const char* text, int kind, uint64_t monotonic_ns, uint32_t thread);

// The same for an annotation of PyTorch's, of which there may be any number: where a stage begins
// (1) or ends (2). Of those that say nothing about the allocator's decisions some are left out
// where they would be most of the trace.
void fragscope_annotation(const char* text, int kind);

// The process ends well, though not by exit(): nothing is recorded any more, and the traces say so.
void fragscope_end(void);

// Sets an option, before the library is first used for anything else. Null, or what is wrong: the
// text is this thread's until its next call. Names and values:
//   ring_bytes      size of the records of a ring, 65536 to 2^40
//   stacks          off, python or all: call stacks of requests
//   min_stack_size  bytes; smaller requests are recorded without a stack
//   directory       where rings are made
//   torch_version   of the PyTorch that runs, such as 2.15.0: whose rules to follow
//   conf            PyTorch's options as they stand in the trace
const char* fragscope_configure(const char* name, const char* value);

// The allocator as C++ sees it: a fragscope::engine::Engine (allocator/engine/engine.hpp), for code
// of the same version of this library. Null if the host has no memory.
void* fragscope_engine(void);

// Where the device's trace lies; the empty text if it is not recorded, or not used yet.
const char* fragscope_ring_path(int device);

#ifdef __cplusplus
}
#endif
