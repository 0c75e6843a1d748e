// SPDX-License-Identifier: Apache-2.0
// A pickle reader that cannot execute anything. It runs the opcodes that data made of dicts, lists,
// tuples, strings and numbers needs (protocols 2 to 5) and refuses every other one by name and byte
// offset; GLOBAL, REDUCE and their kin are among the refused. It builds no tree: each dict, list
// and tuple goes to a `Builder` the moment its items are known, and the machine keeps only small
// handles (the stack and the memo). Who uses it: `torch_snapshot.cpp`.
//
// Promises: one pass; never reads outside the given bytes; no recursion; memory bounded by
// `Limits`; every refusal names the opcode's offset.
#pragma once

#include "analyzer/ingest/pickle/opcodes.hpp"
#include "trace/result.hpp"

#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::ingest {

/// What lies on the machine's stack: a number, or a handle to something the builder keeps.
enum class ValueKind : std::uint8_t {
  kNone,
  kBool,
  kInt,     ///< Signed 64 bits in `payload`.
  kUint,    ///< 2^63 or more.
  kFloat,   ///< The bits of a double.
  kString,  ///< A handle from Builder::string.
  kDict,    ///< A handle from Builder::new_dict.
  kList,    ///< A handle from Builder::new_list.
  kPair,    ///< A handle from Builder::tuple.
  kOpaque,  ///< Something nobody needs.
};

struct Value {
  ValueKind kind = ValueKind::kNone;
  std::uint64_t payload = 0;
};

/// Where reading stands, for a progress display.
using ProgressFn = std::function<void(std::uint64_t done_bytes, std::uint64_t total_bytes)>;

/// Runs one pickle through a builder. `Builder` offers
///   Value string(std::string_view);  Value new_dict();  Value new_list();
///   Value tuple(std::span<const Value>);
///   bool set_items(std::uint64_t dict, std::span<const Value> keys_and_values);
///   bool append(std::uint64_t list, std::span<const Value> items);
///   std::size_t held_bytes() const;  Error take_error();
/// A `false` stops the machine with the builder's error and the opcode's offset.
template <class Builder>
class PickleMachine {
 public:
  PickleMachine(std::span<const std::uint8_t> bytes, Builder& builder)
      : begin_(bytes.data())
      , at_(begin_)
      , end_(begin_ + bytes.size())
      , builder_(builder)
      , memory_limit_bytes_(kFreeMemoryBytes + bytes.size() * kMemoryFactor) {}

  /// Runs to STOP and gives the value left on the stack. `progress` may be empty.
  [[nodiscard]] Result<Value> run(const ProgressFn& progress) {
    if (!read_protocol()) return tl::unexpected<Error>(std::move(error_));
    while (!stopped_) {
      // A batch between two looks at memory and progress; small enough that both stay current.
      for (int step = 0; step < kStepsPerCheck && !stopped_; ++step) {
        if (!run_opcode()) return tl::unexpected<Error>(std::move(error_));
      }
      if (!check_memory()) return tl::unexpected<Error>(std::move(error_));
      if (progress) progress(offset_of(at_), offset_of(end_));
    }
    return stack_.back();
  }

 private:
  static constexpr std::size_t kFreeMemoryBytes = std::size_t{64} << 20;
  // What a real snapshot builds is smaller than its file; only a file made to hurt needs more.
  static constexpr std::size_t kMemoryFactor = 12;
  static constexpr int kStepsPerCheck = 1 << 16;
  static constexpr std::uint64_t kPayloadBits = 56;

  [[nodiscard]] std::uint64_t offset_of(const std::uint8_t* place) const {
    return static_cast<std::uint64_t>(place - begin_);
  }

  bool fail(ErrorCode code, std::string message) {
    error_.code = code;
    error_.message = std::move(message);
    error_.byte_offset = offset_of(opcode_at_);
    return false;
  }
  bool fail_from_builder() {
    error_ = builder_.take_error();
    error_.byte_offset = offset_of(opcode_at_);
    return false;
  }
  bool fail_truncated() {
    return fail(ErrorCode::kDamaged,
                "the file ends inside opcode " + std::string(opcode_name(*opcode_at_)) +
                    "; expected a whole pickle (was the dump cut short?)");
  }

  [[nodiscard]] bool has(std::size_t count) const {
    return static_cast<std::size_t>(end_ - at_) >= count;
  }
  template <class Number>
  [[nodiscard]] Number take() {
    Number number;
    std::memcpy(&number, at_, sizeof number);
    at_ += sizeof number;
    return number;
  }

  bool push(Value value) {
    stack_.push_back(value);
    return true;
  }
  bool push_int(std::int64_t number) {
    return push({ValueKind::kInt, static_cast<std::uint64_t>(number)});
  }

  bool read_protocol() {
    opcode_at_ = at_;
    if (!has(2)) return fail_truncated();
    const std::uint8_t version = at_[1];
    if (*at_ != static_cast<std::uint8_t>(Opcode::kProto) || version < 2 || version > 5) {
      return fail(ErrorCode::kForeign,
                  "expected a pickle of protocol 2 to 5, as PyTorch writes snapshots");
    }
    at_ += 2;
    return true;
  }

  // The opcodes that fill a snapshot; everything rarer is in run_rare_opcode.
  bool run_opcode() {
    opcode_at_ = at_;
    if (at_ == end_) {
      return fail(ErrorCode::kDamaged,
                  "the file ends without STOP; expected a whole pickle (was the dump cut short?)");
    }
    switch (static_cast<Opcode>(*at_++)) {
      case Opcode::kLongBinget:
        return has(4) ? get_memo(take<std::uint32_t>()) : fail_truncated();
      case Opcode::kBinget:
        return has(1) ? get_memo(take<std::uint8_t>()) : fail_truncated();
      case Opcode::kMemoize:
        return put_memo(memo_.size());
      case Opcode::kMark:
        marks_.push_back(static_cast<std::uint32_t>(stack_.size()));
        return true;
      case Opcode::kBinint1:
        return has(1) ? push_int(take<std::uint8_t>()) : fail_truncated();
      case Opcode::kBinint2:
        return has(2) ? push_int(take<std::uint16_t>()) : fail_truncated();
      case Opcode::kBinint:
        return has(4) ? push_int(take<std::int32_t>()) : fail_truncated();
      case Opcode::kLong1:
        return read_long();
      case Opcode::kShortBinunicode:
        return has(1) ? read_string(take<std::uint8_t>()) : fail_truncated();
      case Opcode::kEmptyDict:
        return push(builder_.new_dict());
      case Opcode::kSetitems:
        return set_items();
      case Opcode::kEmptyList:
        return push(builder_.new_list());
      case Opcode::kAppends:
        return append_items();
      default:
        return run_rare_opcode(static_cast<Opcode>(*opcode_at_));
    }
  }

  bool run_rare_opcode(Opcode opcode) {
    switch (opcode) {
      case Opcode::kNone:
        return push({ValueKind::kNone, 0});
      case Opcode::kNewtrue:
        return push({ValueKind::kBool, 1});
      case Opcode::kNewfalse:
        return push({ValueKind::kBool, 0});
      case Opcode::kBinfloat:
        return read_float();
      case Opcode::kBinunicode:
        return has(4) ? read_string(take<std::uint32_t>()) : fail_truncated();
      case Opcode::kBinput:
        return has(1) ? put_memo(take<std::uint8_t>()) : fail_truncated();
      case Opcode::kLongBinput:
        return has(4) ? put_memo(take<std::uint32_t>()) : fail_truncated();
      case Opcode::kSetitem:
        return set_one_item();
      case Opcode::kAppend:
        return append_one_item();
      case Opcode::kEmptyTuple:
        return make_tuple(stack_.size());
      case Opcode::kTuple1:
        return make_tuple(stack_.size() - 1);
      case Opcode::kTuple2:
        return make_tuple(stack_.size() - 2);
      case Opcode::kTuple3:
        return make_tuple(stack_.size() - 3);
      case Opcode::kTuple:
      case Opcode::kList:
      case Opcode::kDict:
        return make_from_mark(opcode);
      case Opcode::kFrame:
        return read_frame();
      case Opcode::kStop:
        return stop();
      default:
        return refuse_opcode();
    }
  }

  bool refuse_opcode() {
    const std::string_view name = opcode_name(*opcode_at_);
    if (name.empty()) {
      return fail(ErrorCode::kDamaged,
                  "expected a pickle opcode, found byte " + std::to_string(*opcode_at_));
    }
    return fail(ErrorCode::kForeign,
                "pickle opcode " + std::string(name) +
                    " has no place in a memory snapshot (data only; nothing is ever executed)");
  }

  bool read_frame() {
    if (!has(8)) return fail_truncated();
    const auto length = take<std::uint64_t>();
    if (has(length)) return true;
    return fail(ErrorCode::kDamaged,
                "the file is cut short: this frame has " + std::to_string(length) +
                    " bytes, only " + std::to_string(end_ - at_) + " are left");
  }

  bool read_long() {
    if (!has(1)) return fail_truncated();
    const auto length = take<std::uint8_t>();
    if (!has(length)) return fail_truncated();
    std::uint64_t bits = 0;
    const std::size_t low = length < 8 ? length : 8;
    std::memcpy(&bits, at_, low);
    at_ += length;
    if (length == 0) return push_int(0);
    if (length == 9 && at_[-1] == 0) {
      return push({bits >> 63 != 0 ? ValueKind::kUint : ValueKind::kInt, bits});
    }
    if (length > 8) {
      return fail(
          ErrorCode::kForeign,
          "expected an integer of at most 64 bits, found " + std::to_string(length * 8) + " bits");
    }
    const unsigned unused_bits = static_cast<unsigned>(64 - 8 * low);
    return push_int(static_cast<std::int64_t>(bits << unused_bits) >> unused_bits);
  }

  bool read_float() {
    if (!has(8)) return fail_truncated();
    return push({ValueKind::kFloat, __builtin_bswap64(take<std::uint64_t>())});
  }

  bool read_string(std::size_t length) {
    if (!has(length)) {
      return fail(ErrorCode::kDamaged,
                  "a string of " + std::to_string(length) + " bytes, but only " +
                      std::to_string(end_ - at_) + " are left in the file");
    }
    const std::string_view text{reinterpret_cast<const char*>(at_), length};
    at_ += length;
    return push(builder_.string(text));
  }

  bool get_memo(std::size_t index) {
    if (index >= memo_.size() || memo_[index] == kNotSet) {
      return fail(ErrorCode::kDamaged, "memo entry " + std::to_string(index) + " was never stored");
    }
    const std::uint64_t packed = memo_[index];
    return push({static_cast<ValueKind>(packed >> kPayloadBits),
                 packed & ((std::uint64_t{1} << kPayloadBits) - 1)});
  }

  bool put_memo(std::size_t index) {
    if (stack_.empty()) return fail(ErrorCode::kDamaged, "a memo entry is stored from no value");
    const Value value = stack_.back();
    if (value.kind < ValueKind::kString && value.kind != ValueKind::kNone) {
      return fail(ErrorCode::kForeign, "a number in the memo; no pickle writer puts one there");
    }
    // Every entry takes at least two bytes of file, so numbers in order never pass the offset.
    if (index > offset_of(at_)) {
      return fail(ErrorCode::kDamaged, "memo index " + std::to_string(index) + " is out of order");
    }
    if (index >= memo_.size()) memo_.resize(index + 1, kNotSet);
    memo_[index] = (static_cast<std::uint64_t>(value.kind) << kPayloadBits) | value.payload;
    return true;
  }

  [[nodiscard]] std::span<const Value> from(std::size_t first) const {
    return {stack_.data() + first, stack_.size() - first};
  }

  bool pop_mark(std::size_t* first) {
    if (marks_.empty()) return fail(ErrorCode::kDamaged, "expected a MARK on the stack");
    *first = marks_.back();
    marks_.pop_back();
    return *first <= stack_.size() || fail(ErrorCode::kDamaged, "the stack ends below its MARK");
  }

  bool set_items() {
    std::size_t first = 0;
    if (!pop_mark(&first)) return false;
    return fill_dict(first);
  }
  bool set_one_item() {
    if (stack_.size() < 3) return fail(ErrorCode::kDamaged, "SETITEM needs a dict and a pair");
    return fill_dict(stack_.size() - 2);
  }
  bool fill_dict(std::size_t first) {
    if (first == 0 || stack_[first - 1].kind != ValueKind::kDict ||
        (stack_.size() - first) % 2 != 0) {
      return fail(ErrorCode::kDamaged, "expected a dict and pairs of keys and values");
    }
    if (!builder_.set_items(stack_[first - 1].payload, from(first))) return fail_from_builder();
    stack_.resize(first);
    return true;
  }

  bool append_items() {
    std::size_t first = 0;
    if (!pop_mark(&first)) return false;
    return fill_list(first);
  }
  bool append_one_item() {
    if (stack_.size() < 2) return fail(ErrorCode::kDamaged, "APPEND needs a list and an item");
    return fill_list(stack_.size() - 1);
  }
  bool fill_list(std::size_t first) {
    if (first == 0 || stack_[first - 1].kind != ValueKind::kList) {
      return fail(ErrorCode::kDamaged, "expected a list to append to");
    }
    if (!builder_.append(stack_[first - 1].payload, from(first))) return fail_from_builder();
    stack_.resize(first);
    return true;
  }

  bool make_tuple(std::size_t first) {
    if (first > stack_.size()) return fail(ErrorCode::kDamaged, "a tuple of more than the stack");
    const Value tuple = builder_.tuple(from(first));
    stack_.resize(first);
    return push(tuple);
  }

  bool make_from_mark(Opcode opcode) {
    std::size_t first = 0;
    if (!pop_mark(&first)) return false;
    if (opcode == Opcode::kTuple) return make_tuple(first);
    const bool is_list = opcode == Opcode::kList;
    const Value made = is_list ? builder_.new_list() : builder_.new_dict();
    stack_.insert(stack_.begin() + static_cast<std::ptrdiff_t>(first), made);
    return is_list ? fill_list(first + 1) : fill_dict(first + 1);
  }

  bool stop() {
    if (stack_.size() != 1 || !marks_.empty()) {
      return fail(ErrorCode::kDamaged,
                  "STOP with " + std::to_string(stack_.size()) + " values left; expected one");
    }
    stopped_ = true;
    return true;
  }

  bool check_memory() {
    const std::size_t held = builder_.held_bytes() + stack_.capacity() * sizeof(Value) +
                             memo_.capacity() * sizeof(std::uint64_t) +
                             marks_.capacity() * sizeof(std::uint32_t);
    if (held <= memory_limit_bytes_) return true;
    return fail(ErrorCode::kTooLarge,
                "the file unfolds into more than " + std::to_string(memory_limit_bytes_ >> 20) +
                    " MiB of objects; no snapshot does that");
  }

  static constexpr std::uint64_t kNotSet = ~std::uint64_t{0};

  const std::uint8_t* begin_;
  const std::uint8_t* at_;
  const std::uint8_t* end_;
  const std::uint8_t* opcode_at_ = nullptr;
  Builder& builder_;
  std::size_t memory_limit_bytes_;
  bool stopped_ = false;
  std::vector<Value> stack_;
  std::vector<std::uint32_t> marks_;
  std::vector<std::uint64_t> memo_;  // kind in the top byte, payload below
  Error error_;
};

}  // namespace fragscope::ingest
