// SPDX-License-Identifier: Apache-2.0
// What tests can ask of virtual CUDA while a program runs on it: plain C functions, found with
// dlsym in libfragscope_virtual_cuda.so (from Python: ctypes.CDLL(None)). Devices are numbered as
// the program sees them. Every int that is returned is 0 for success and -1 for an argument that
// makes no sense.
#pragma once

#ifdef __cplusplus
extern "C" {
#endif

/// The `nth` call of the kind from now on fails (1 is the next one), with `onward` also every later
/// one. Kinds: "malloc", "create", "reserve", "map", "access", "host", "nvml".
int fragscope_vc_fail(const char* kind, unsigned long long nth, int onward);
/// Takes back what `fragscope_vc_fail` and the options planned for this kind.
int fragscope_vc_clear_faults(const char* kind);
/// How many calls of the kind there were; 0 for an unknown kind.
unsigned long long fragscope_vc_call_count(const char* kind);

/// Other processes hold this much of the device from now on.
int fragscope_vc_set_neighbour(int device, unsigned long long bytes);

/// Work given to the stream from now on stays unfinished: its events say "not ready". `stream` is a
/// cudaStream_t; 0 means the default stream of the calling thread's device.
int fragscope_vc_hold_stream(void* stream);
/// Ends that, for the work that was held back as well. A wait for held work ends it too.
int fragscope_vc_release_stream(void* stream);

/// The virtual clock.
unsigned long long fragscope_vc_now_ns(void);

/// The books of a device; 0 for a device that is none.
unsigned long long fragscope_vc_total_bytes(int device);
unsigned long long fragscope_vc_free_bytes(int device);
/// Device memory that this process holds, without its context.
unsigned long long fragscope_vc_used_bytes(int device);

/// What is wrong with an option string, or null. The text lives until the thread's next call.
const char* fragscope_vc_check_options(const char* options);

#ifdef __cplusplus
}
#endif
