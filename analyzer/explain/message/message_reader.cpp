// SPDX-License-Identifier: Apache-2.0
#include "analyzer/explain/message/message_reader.hpp"

#include "analyzer/explain/message/joined_cursor.hpp"
#include "analyzer/explain/message/message_format.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

namespace fragscope::explain {
namespace {

constexpr std::string_view kOutOfMemory = "out of memory";
constexpr std::string_view kTried = "Tried to allocate ";
constexpr std::string_view kExceeds = "would exceed allowed memory";
constexpr std::string_view kPartial = "total capacity;";
constexpr std::string_view kNvml = "NVML_SUCCESS == r";
constexpr std::string_view kCublas = "CUBLAS_STATUS_ALLOC_FAILED";
constexpr std::string_view kDriverError = "CUDA_ERROR_OUT_OF_MEMORY";
constexpr std::string_view kStartUpCheck = "Free memory on device ";
constexpr std::string_view kNoCacheBlocks = "No available memory for the cache blocks";
constexpr std::string_view kLargeBlock = "can NOT allocate memory block with size larger than";
constexpr std::string_view kHostAllocator = "DefaultCPUAllocator: ";
constexpr std::string_view kInvalidBuffer = "Invalid buffer size: ";
constexpr std::string_view kMappingAttempt = "memory mapping failed with OOM on device ";
constexpr std::string_view kAllocationAttempt = "memory allocation failed with OOM on device ";
constexpr std::string_view kTensorFlow = "OOM when allocating tensor with shape";

// Words from the middle of messages, for a message whose first words a line end has broken.
constexpr std::string_view kRejected = "Allocation was preemptively rejected";
constexpr std::string_view kWhileAllocating = "while trying to allocate ";
constexpr std::string_view kWhileMapping = "while trying to map ";
constexpr std::string_view kLessThanDesired = "on startup is less than desired";
constexpr std::string_view kAssertion = "INTERNAL ASSERT FAILED";
constexpr std::string_view kCudaError = "CUDA error: o";
constexpr std::string_view kCudaMalloc = "cudaMalloc failed: o";

constexpr std::array kPhrases = {kOutOfMemory,
                                 kExceeds,
                                 kPartial,
                                 kNvml,
                                 kCublas,
                                 kDriverError,
                                 kStartUpCheck,
                                 kNoCacheBlocks,
                                 kLargeBlock,
                                 kHostAllocator,
                                 kInvalidBuffer,
                                 kMappingAttempt,
                                 kAllocationAttempt,
                                 kTensorFlow,
                                 kTried,
                                 kRejected,
                                 kWhileAllocating,
                                 kWhileMapping,
                                 kLessThanDesired,
                                 kAssertion,
                                 kCudaError,
                                 kCudaMalloc};

// How far behind a message's start its parts may lie; a list of many processes is the longest.
constexpr std::size_t kReach = 4000;

bool is_unavailable(const Bounds& bounds) {
  return bounds.high == policy::kUnlimited;
}

std::optional<Bounds> if_available(std::optional<Bounds> bounds) {
  return bounds && !is_unavailable(*bounds) ? bounds : std::nullopt;
}

/// The text in front of `at`, at most `length` bytes.
std::string_view before(std::string_view window, std::size_t at, std::size_t length) {
  const std::size_t start = at - std::min(at, length);
  return window.substr(start, at - start);
}

bool is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// The text in front of these words at its end, whatever blanks and line ends stand between their
/// letters; or none if it does not end with them.
std::optional<std::string_view> without_end(std::string_view text, std::string_view words) {
  std::size_t at = text.size();
  for (std::size_t i = words.size(); i-- > 0;) {
    if (words[i] == ' ') continue;
    while (at > 0 && is_blank(text[at - 1]))
      --at;
    if (at == 0 || text[at - 1] != words[i]) return std::nullopt;
    --at;
  }
  return text.substr(0, at);
}

bool ends_with_words(std::string_view text, std::string_view words) {
  return without_end(text, words).has_value();
}

void append_unspaced(std::string& unspaced, std::string_view text) {
  std::ranges::copy_if(text, std::back_inserter(unspaced), [](char c) { return !is_blank(c); });
}

class Reader {
 public:
  Reader(std::string_view window, std::size_t at)
      : window_(window)
      , at_(at)
      , cursor_(window, at) {}

  [[nodiscard]] std::optional<ReadMessage> run() {
    if (!read_start() && !read_from_its_start()) return std::nullopt;
    derive_sums();
    message_.format = format_of(message_, unspaced_text());
    pass_end();
    return ReadMessage{std::move(message_), cursor_.at()};
  }

 private:
  /// Reads the message whose first words stand at `at_`.
  bool read_start() {
    message_ = Message{};
    cursor_ = JoinedCursor(window_, at_);
    is_pytorch_ = false;
    if (cursor_.pass(kExceeds)) return read_async();
    if (cursor_.pass(kOutOfMemory)) return read_out_of_memory();
    if (cursor_.pass(kPartial)) return read_partial();
    if (cursor_.pass(kNvml)) return read_assertion();
    if (cursor_.pass(kStartUpCheck)) return read_check();
    if (cursor_.pass(kLargeBlock)) return read_large_block();
    if (cursor_.pass(kNoCacheBlocks)) return be(Shape::kCheck, Backend::kNone);
    if (cursor_.pass(kCublas)) return be(Shape::kBare, Backend::kCuda);
    if (cursor_.pass(kDriverError)) return read_driver_error();
    if (cursor_.pass(kHostAllocator)) return read_host_allocator();
    if (cursor_.pass(kInvalidBuffer)) return read_invalid_buffer();
    if (cursor_.pass(kTensorFlow)) return read_tensor_flow();
    if (cursor_.pass(kMappingAttempt)) return read_attempt(" while trying to map ");
    if (cursor_.pass(kAllocationAttempt)) return read_attempt(" while trying to allocate ");
    return false;
  }

  bool be(Shape shape, Backend backend) {
    message_.shape = shape;
    message_.backend = backend;
    return true;
  }

  // The phrase stands in the middle of a message: its first words are broken in two.
  bool read_from_its_start() {
    const std::size_t middle = at_;
    JoinedCursor probe(window_, middle);
    if (probe.pass(kCudaError) || probe.pass(kCudaMalloc)) {
      at_ = probe.at() - 1;
      return read_start() && cursor_.at() > middle;
    }
    constexpr std::size_t kFarthest = 200;
    const std::size_t first = middle - std::min(middle, kFarthest);
    for (at_ = middle; at_-- > first;) {
      if (read_start() && cursor_.at() > middle) return true;
    }
    return false;
  }

  /// What closes the last sentence that was understood.
  void pass_end() {
    constexpr std::string_view kClosing = ".)";
    while (!cursor_.at_end() && kClosing.find(window_[cursor_.at()]) != std::string_view::npos)
      cursor_ = JoinedCursor(window_, cursor_.at() + 1);
  }

  /// A cursor behind the last `words` that end in front of the message, at most `within` bytes
  /// back.
  [[nodiscard]] std::optional<JoinedCursor> behind_last(std::string_view words,
                                                        std::size_t within) const {
    const std::size_t first = at_ - std::min(at_, within);
    for (std::size_t start = at_; start-- > first;) {
      JoinedCursor probe(window_, start);
      if (window_[start] == words.front() && probe.pass(words) && probe.at() <= at_) return probe;
    }
    return std::nullopt;
  }

  /// "torch.OutOfMemoryError" and the like, where it stands directly in front of the message.
  [[nodiscard]] std::string exception_in_front() const {
    constexpr std::string_view kName = "OutOfMemoryError";
    constexpr std::string_view kModules = "torch.cuda.";
    constexpr std::string_view kFarthest = ":AllocationonDevice127";
    std::string front;
    append_unspaced(front, before(window_, at_, 100));
    const auto name = front.rfind(kName);
    if (name == std::string::npos) return {};
    if (front.size() - name - kName.size() > kFarthest.size()) return {};
    const std::size_t start = name - std::min(name, kModules.size());
    return front.substr(start, name + kName.size() - start);
  }

  /// What tells the version: the exception's name, the message, and the advice behind it. Without
  /// blanks, since a line end may stand anywhere.
  [[nodiscard]] std::string unspaced_text() const {
    constexpr std::size_t kAdvice = 400;
    std::string text = exception_in_front();
    if (message_.shape == Shape::kBare) append_unspaced(text, before(window_, at_, 60));
    append_unspaced(text, window_.substr(at_, cursor_.at() - at_));
    JoinedCursor advice = cursor_;
    while (advice.pass(".") || advice.pass(")") || advice.pass(" ")) {
    }
    if (!advice.pass("If reserved ")) return text;
    JoinedCursor link = advice;
    if (!link.pass_through("/docs/stable/", kAdvice)) {
      link = advice;
      static_cast<void>(link.pass_through("max_split_size_mb", kAdvice));
    }
    append_unspaced(text, window_.substr(advice.at(), link.at() - advice.at()));
    return text;
  }

  // --- "... out of memory": whose it is stands in front of it. ----------------------------------

  bool read_out_of_memory() {
    const std::string_view front = before(window_, at_, 120);
    if (ends_with_words(front, "MPS backend ")) return read_mps();
    static constexpr std::array<std::pair<std::string_view, Backend>, 4> kNames = {
        {{"CUDA ", Backend::kCuda},
         {"HIP ", Backend::kHip},
         {"XPU ", Backend::kXpu},
         {"NPU ", Backend::kNpu}}};
    for (const auto& [name, backend] : kNames) {
      const auto in_front = without_end(front, name);
      if (in_front) return read_pytorch(backend, *in_front);
    }
    return read_bare(front);
  }

  bool read_pytorch(Backend backend, std::string_view front) {
    be(Shape::kBare, backend);
    is_pytorch_ = true;
    if (cursor_.pass(". Allocation was preemptively rejected because it would exceed "
                     "per_process_memory_fraction limit. Requested size: ")) {
      message_.shape = Shape::kRejected;
      if (const auto bytes = cursor_.count()) message_.figures.request = model::exactly(*bytes);
      return true;
    }
    if (!cursor_.pass(". Tried to allocate ") && !cursor_.pass("! Tried to allocate ") &&
        !cursor_.pass(" Tried to allocate ")) {
      return is_no_prose(front);
    }
    message_.shape = Shape::kRequest;
    if (cursor_.pass("more than 1EB memory")) {
      message_.shape = Shape::kBeyond;
      return true;
    }
    message_.figures.request = if_available(cursor_.size());
    if (!message_.figures.request) return true;
    return read_device_part();
  }

  /// "RuntimeError: CUDA out of memory." is an error; "to avoid CUDA out of memory errors" is not.
  [[nodiscard]] bool is_no_prose(std::string_view front) const {
    if (ends_with_words(front, "Error: ") || ends_with_words(front, "Exception: ")) return true;
    while (front.ends_with(' '))
      front.remove_suffix(1);
    const std::string_view behind = window_.substr(cursor_.at());
    const std::size_t next = behind.find_first_not_of(' ');
    const bool goes_on = next != std::string_view::npos && is_letter(behind[next]);
    return !goes_on && (front.empty() || !is_letter(front.back()));
  }

  bool read_device_part() {
    if (cursor_.pass(" (GPU ") || cursor_.pass(" (NPU ")) return read_old();
    if (cursor_.pass(". GPU ") || cursor_.pass(". NPU ")) return read_new();
    // PyTorch 2.3 printed the device's number as a character, which ended the text.
    message_.cut_short = cursor_.pass(". GPU") || cursor_.at_end();
    return true;
  }

  /// A figure followed by `words`; without them nothing is passed.
  bool figure(std::optional<Bounds>& into, std::string_view words) {
    JoinedCursor probe = cursor_;
    const auto bounds = probe.size();
    if (!bounds || !probe.pass(words)) return false;
    into = if_available(bounds);
    cursor_ = probe;
    return true;
  }

  void read_device() { read_device(cursor_); }
  void read_device(JoinedCursor& cursor) {
    if (const auto device = cursor.count(); device && *device < 4096) {
      message_.device = static_cast<std::int32_t>(*device);
    }
  }

  // "(GPU 0; T total capacity; A already allocated; [C current active;] F free; [L allowed;]
  //   C cached)", or "V reserved in total by PyTorch)".
  bool read_old() {
    Figures& figures = message_.figures;
    static_cast<void>(cursor_.pass(" "));
    read_device();
    if (!cursor_.pass("; ")) return true;
    message_.shape = Shape::kOld;
    if (!figure(figures.total, " total capacity; ")) return cut();
    return read_old_rest();
  }

  bool read_old_rest() {
    Figures& figures = message_.figures;
    std::optional<Bounds> ignored;
    if (!figure(figures.allocated, " already allocated; ")) return cut();
    static_cast<void>(figure(ignored, " current active; "));
    static_cast<void>(figure(figures.free, " free; "));  // XPU leaves it out
    static_cast<void>(figure(figures.limit, " allowed; "));
    if (figure(figures.gap, " cached")) return true;
    if (!figure(figures.reserved, " reserved in total by PyTorch")) return cut();
    return true;
  }

  bool cut() {
    message_.cut_short = true;
    return true;
  }

  // "0 has a total capacity of T of which F is free. {processes} [L allowed; ] Of the allocated
  // memory
  //  A is allocated by PyTorch, [with P allocated in private pools (...), ] and G is reserved ..."
  bool read_new() {
    Figures& figures = message_.figures;
    read_device();
    // 2.3 prints the device's number as a control character, which is a blank by now.
    if (!cursor_.pass(" has a total capac") && !cursor_.pass("has a total capac")) return cut();
    static_cast<void>(cursor_.pass("i"));  // 2.1 left it out
    if (!cursor_.pass("ty of ")) return cut();
    message_.shape = Shape::kNew;
    figures.total = if_available(cursor_.size());
    if (cursor_.pass(" of which ") && !figure(figures.free, " is free")) return cut();
    read_processes();
    if (!cursor_.pass_through("Of the allocated memory ", kReach)) return cut();
    if (!figure(figures.allocated, " is allocated by PyTorch, ")) return cut();
    if (cursor_.pass("with ")) {
      static_cast<void>(figure(figures.private_pools, " allocated in private pools"));
      if (!cursor_.pass_through("and ", 80)) return cut();
    } else if (!cursor_.pass("and ")) {
      return cut();
    }
    if (!figure(figures.gap, " is reserved by PyTorch but unallocated")) return cut();
    return true;
  }

  // Sentences between "is free." and "Of the allocated memory": uses by process, then the limit.
  void read_processes() {
    JoinedCursor end = cursor_;
    if (!end.pass_through("Of the allocated memory ", kReach)) {
      end = JoinedCursor(window_, std::min(window_.size(), cursor_.at() + kReach));
    }
    constexpr std::size_t kMaxProcesses = 64;
    for (std::size_t i = 0; i < kMaxProcesses && cursor_.at() < end.at(); ++i) {
      JoinedCursor probe = cursor_;
      if (!probe.pass_through("process ", end.at() - probe.at())) break;
      const bool own = probe.pass("has ");
      std::string pid;
      if (!own) {
        const auto number = probe.count();
        pid = number ? std::to_string(*number) : probe.word();
        if (!probe.pass(" has ")) break;
      }
      const auto bytes = probe.size();
      if (!bytes || !probe.pass(" memory in use")) break;
      static_cast<void>(probe.pass("."));
      cursor_ = probe;
      if (own) {
        message_.figures.process = if_available(bytes);
      } else if (!is_unavailable(*bytes)) {
        message_.figures.processes.push_back({pid, *bytes});
      }
    }
    static_cast<void>(cursor_.pass("."));
    static_cast<void>(cursor_.pass(" "));
    static_cast<void>(figure(message_.figures.limit, " allowed;"));
  }

  bool read_mps() {
    be(Shape::kMps, Backend::kMps);
    Figures& figures = message_.figures;
    if (!cursor_.pass(" (MPS allocated: ") || !figure(figures.allocated, ", other allocations: ") ||
        !figure(figures.other_allocations, ", max allowed: ") || !figure(figures.limit, "). ")) {
      return cut();
    }
    if (!cursor_.pass("Tried to allocate ")) return cut();
    figures.request = if_available(cursor_.size());
    static_cast<void>(cursor_.pass(" on private pool") || cursor_.pass(" on shared pool"));
    return true;
  }

  // Errors without PyTorch's figures. What stands in front tells an error from prose.
  bool read_bare(std::string_view front) {
    if (ends_with_words(front, "CUDA_ERROR_OUT_OF_MEMORY: ")) return read_driver_error();
    // Words that stand further in front: what failed, and where, comes in between.
    static constexpr std::array<std::string_view, 3> kNamed = {
        "CUDA error", "CUDA runtime error", "Cuda failure "};
    static constexpr std::array<std::string_view, 8> kFronts = {"error: ",
                                                                "error (2) : ",
                                                                "failed: ",
                                                                "RESOURCE_EXHAUSTED: ",
                                                                "cudaErrorMemoryAllocation: ",
                                                                "hipErrorOutOfMemory: ",
                                                                "allocate memory: ",
                                                                "runtime error: "};
    const bool is_error =
        std::ranges::any_of(
            kFronts, [front](std::string_view end) { return ends_with_words(front, end); }) ||
        std::ranges::any_of(kNamed, [front](std::string_view name) {
          return front.find(name) != std::string_view::npos;
        });
    if (!is_error) return false;
    const bool is_hip =
        front.find("HIP") != std::string_view::npos || front.find("hip") != std::string_view::npos;
    be(Shape::kBare, is_hip ? Backend::kHip : Backend::kCuda);
    if (ends_with_words(front, "RESOURCE_EXHAUSTED: ")) message_.backend = Backend::kNone;
    if (cursor_.pass(" while trying to allocate ")) {
      message_.figures.request = if_available(cursor_.size());
      message_.shape = Shape::kRequest;
    } else {
      read_request_in_front();
    }
    return true;
  }

  // "allocating 1024.00 MiB on device 0: cudaMalloc failed: out of memory" (llama.cpp).
  void read_request_in_front() {
    auto front = behind_last("allocating ", 200);
    if (!front) return;
    message_.figures.request = if_available(front->size());
    if (message_.figures.request) message_.shape = Shape::kRequest;
    if (front->pass(" on device ")) read_device(*front);
  }

  // --- The other phrases. ------------------------------------------------------------------------

  // "Allocation on device 0 would exceed allowed memory. (out of memory)" and a list of figures.
  bool read_async() {
    be(Shape::kAsync, Backend::kAsync);
    Figures& figures = message_.figures;
    if (auto number = behind_last("device ", 40)) read_device(*number);
    static_cast<void>(cursor_.pass(". (out of memory)"));
    const auto labelled = [this](std::string_view label, std::optional<Bounds>& into) {
      JoinedCursor probe = cursor_;
      if (!probe.pass_through(label, 200)) return;
      if (!probe.pass(" : ") && !probe.pass(": ")) return;
      into = if_available(probe.size());
      cursor_ = probe;
    };
    labelled("Currently allocated", figures.allocated);
    labelled("Requested", figures.request);
    labelled("Device limit", figures.total);
    labelled("Free (according to CUDA)", figures.free);
    labelled("PyTorch limit (set by user-supplied memory fraction)", figures.limit);
    message_.cut_short = !figures.request;
    return true;
  }

  // The figures of an old message whose first words are lost: "(GPU 0; T total capacity; ...".
  bool read_partial() {
    const std::string_view front = before(window_, at_, 60);
    const auto start = front.rfind("(GPU");
    if (start == std::string_view::npos) return false;
    be(Shape::kOld, Backend::kCuda);
    cursor_ = JoinedCursor(window_, at_ - (front.size() - start));
    if (!cursor_.pass("(GPU ")) return false;
    static_cast<void>(cursor_.pass(" "));
    read_device();
    if (!cursor_.pass("; ") || !figure(message_.figures.total, " total capacity; ")) return false;
    message_.cut_short = true;
    return read_old_rest();
  }

  bool read_assertion() {
    if (!cursor_.pass(" INTERNAL ASSERT FAILED")) return false;
    return be(Shape::kReplaced, Backend::kCuda);
  }

  // "Free memory on device [cuda:0 ](F/T GiB) on startup is less than desired GPU memory
  // utilization (u, R GiB)."
  bool read_check() {
    be(Shape::kCheck, Backend::kNone);
    if (cursor_.pass("cuda:")) {
      read_device();
      static_cast<void>(cursor_.pass(" "));
    }
    if (!cursor_.pass("(")) return false;
    const auto figures = cursor_.size_pair();
    if (!figures) return false;
    message_.figures.free = figures->first;
    message_.figures.total = figures->second;
    JoinedCursor wanted = cursor_;
    if (wanted.pass_through("utilization (", 120) && wanted.pass_through(", ", 12)) {
      message_.figures.request = if_available(wanted.size());
      cursor_ = wanted;
    }
    return true;
  }

  // "... larger than 4GB! Tried to allocate R (GPU  0; T total capacity; ..." (XPU).
  bool read_large_block() {
    be(Shape::kRequest, Backend::kXpu);
    is_pytorch_ = true;
    if (!cursor_.pass_through("Tried to allocate ", 40)) return cut();
    message_.figures.request = if_available(cursor_.size());
    return read_device_part();
  }

  // "failed to allocate 17.79G (19104890880 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY".
  bool read_driver_error() {
    be(Shape::kBare, Backend::kCuda);
    static_cast<void>(cursor_.pass(": out of memory"));
    constexpr std::size_t kFarthest = 160;
    const std::size_t first = at_ - std::min(at_, kFarthest);
    for (std::size_t start = at_; start-- > first;) {
      // The last number in front of " bytes", from its first digit on.
      std::size_t preceding = start;
      while (preceding > 0 && is_blank(window_[preceding - 1]))
        --preceding;
      if (preceding > 0 && is_digit(window_[preceding - 1])) continue;
      JoinedCursor number(window_, start);
      const auto bytes = number.count();
      if (!bytes || !number.pass(" bytes") || number.at() > at_) continue;
      message_.figures.request = model::exactly(*bytes);
      message_.shape = Shape::kRequest;
      break;
    }
    return true;
  }

  // "OOM when allocating tensor with shape[...] and type float on /job:.../device:GPU:0 by ...".
  bool read_tensor_flow() {
    be(Shape::kBare, Backend::kNone);
    if (!cursor_.pass_through("/device:", 200)) return true;
    if (!cursor_.pass("GPU:")) return true;
    message_.backend = Backend::kCuda;
    read_device();
    return true;
  }

  bool read_host_allocator() {
    if (!cursor_.pass("not enough memory") && !cursor_.pass("can't allocate memory")) return false;
    return be(Shape::kBare, Backend::kNone);
  }

  bool read_invalid_buffer() {
    be(Shape::kRequest, Backend::kMps);
    message_.figures.request = if_available(cursor_.size());
    return message_.figures.request.has_value();
  }

  // "0 while trying to allocate N bytes (free: N, total: N).": 2.13 and the expandable segments of
  // earlier versions. Exact, and also printed where a later attempt succeeds. A mapping names the
  // page.
  bool read_attempt(std::string_view what) {
    Figures& figures = message_.figures;
    read_device();
    if (!message_.device || !cursor_.pass(what)) return false;
    const auto asked = cursor_.count();
    if (!asked || !cursor_.pass(" bytes (free: ")) return false;
    const auto free = cursor_.count();
    if (!free || !cursor_.pass(", total: ")) return false;
    const auto total = cursor_.count();
    if (!total) return false;
    figures.free = model::exactly(*free);
    figures.total = model::exactly(*total);
    if (what.find("allocate") != std::string_view::npos) figures.request = model::exactly(*asked);
    return be(Shape::kAttempt, Backend::kCuda);
  }

  // --- What follows from the printed figures. ----------------------------------------------------

  void derive_sums() {
    Figures& figures = message_.figures;
    if (message_.shape == Shape::kNew && figures.allocated && figures.gap) {
      figures.reserved = *figures.allocated + *figures.gap;
      if (figures.private_pools) {
        // The printed "allocated" includes the idle bytes of private pools.
        figures.gap = *figures.gap + *figures.private_pools;
        figures.allocated = *figures.allocated - *figures.private_pools;
      }
    } else if (figures.allocated && figures.gap) {
      figures.reserved = *figures.allocated + *figures.gap;
    } else if (figures.allocated && figures.reserved &&
               figures.reserved->high >= figures.allocated->low) {  // else they contradict
      figures.gap = *figures.reserved - *figures.allocated;
    }
    if (!figures.request) return;
    const bool is_driver_request = is_pytorch_ && message_.shape != Shape::kRejected;
    figures.tensor = is_driver_request ? tensor_behind(*figures.request) : *figures.request;
  }

  std::string_view window_;
  std::size_t at_;
  JoinedCursor cursor_;
  Message message_;
  bool is_pytorch_ = false;  // and so the request is what PyTorch asked the driver for
};

}  // namespace

std::string_view to_string(Backend backend) {
  static constexpr std::array<std::string_view, 7> kNames = {
      "cuda", "hip", "xpu", "mps", "npu", "async", "none"};
  return kNames[static_cast<std::size_t>(backend)];
}

std::span<const std::string_view> message_phrases() {
  return kPhrases;
}

std::optional<ReadMessage> read_message(std::string_view window, std::size_t at) {
  return Reader(window, at).run();
}

}  // namespace fragscope::explain
