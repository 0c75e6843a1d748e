// SPDX-License-Identifier: Apache-2.0
// A pickle reader that cannot execute anything. It runs the opcodes that data made of dicts, lists,
// tuples, strings and numbers needs (protocols 2 to 5) and refuses every other one by name and byte
// offset; GLOBAL, REDUCE and their kin are among the refused. It builds no tree: each dict, list
// and tuple goes to a `Builder` the moment its items are known, and the machine keeps only small
// handles (the stack and the memo). Who uses it: `torch_snapshot.cpp`.
//
// Promises: one pass; never reads outside the given bytes; no recursion; memory bounded by the size
// of the input; every refusal names the opcode's offset.
#pragma once

#include "analyzer/ingest/input.hpp"
#include "analyzer/ingest/pickle/memo.hpp"
#include "analyzer/ingest/pickle/opcodes.hpp"
#include "analyzer/ingest/pickle/reference_lists.hpp"
#include "analyzer/ingest/pickle/value.hpp"
#include "trace/result.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace fragscope::ingest {

/// Runs one pickle through a builder. `Builder` offers
///   Value string(std::string_view);  Value new_dict();  Value new_list();
///   Value tuple(std::span<const Value>);
///   bool set_items(std::uint64_t dict, std::span<const Value> keys_and_values,
///                  std::uint64_t byte_offset);
///   bool append(std::uint64_t list, std::span<const Value> items);
///   bool is_repeatable(std::uint64_t list);  Value repeat_list(std::uint64_t list);
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
      const std::uint8_t* batch_end = at_ + std::min<std::size_t>(left(), kBatchBytes);
      while (!stopped_ && at_ < batch_end) {
        if (!run_common_opcodes(batch_end) || !run_opcode()) {
          return tl::unexpected<Error>(std::move(error_));
        }
      }
      if (!stopped_ && at_ == end_ && !run_opcode()) {
        return tl::unexpected<Error>(std::move(error_));
      }
      if (!check_memory()) return tl::unexpected<Error>(std::move(error_));
      if (progress) progress(offset_of(at_), offset_of(end_));
    }
    return stack_[0];
  }

 private:
  static constexpr std::size_t kFreeMemoryBytes = std::size_t{64} << 20;
  // What a real snapshot builds is smaller than its file; only a file made to hurt needs more.
  static constexpr std::size_t kMemoryFactor = 12;
  static constexpr std::size_t kBatchBytes = std::size_t{1} << 18;
  // No common opcode with its argument is longer, strings aside, which are checked.
  static constexpr std::size_t kLongestCommon = 16;
  static constexpr std::size_t kFirstStack = 4096;

  [[nodiscard]] std::size_t left() const { return static_cast<std::size_t>(end_ - at_); }
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
    if (!error_.byte_offset) error_.byte_offset = offset_of(opcode_at_);
    return false;
  }
  bool fail_truncated() {
    return fail(ErrorCode::kDamaged,
                "the file ends inside opcode " + std::string(opcode_name(*opcode_at_)) +
                    "; expected a whole pickle (was the dump cut short?)");
  }

  [[nodiscard]] bool has(std::size_t count) const { return left() >= count; }
  template <class Number>
  [[nodiscard]] static Number load(const std::uint8_t* from) {
    Number number;
    std::memcpy(&number, from, sizeof number);
    return number;
  }
  template <class Number>
  [[nodiscard]] Number take() {
    const auto number = load<Number>(at_);
    at_ += sizeof number;
    return number;
  }

  bool push(Value value) {
    if (depth_ == stack_.size()) stack_.resize(2 * depth_);
    stack_[depth_++] = value;
    return true;
  }
  bool push_int(std::int64_t number) {
    return push({ValueKind::kInt, static_cast<std::uint64_t>(number)});
  }

  bool read_protocol() {
    opcode_at_ = at_;
    if (left() == 0) return fail(ErrorCode::kDamaged, "no bytes at all; expected a pickle");
    const bool is_pickle = *at_ == static_cast<std::uint8_t>(Opcode::kProto);
    if (is_pickle && left() == 1) return fail_truncated();
    if (!is_pickle || at_[1] < 2 || at_[1] > 5) {
      return fail(
          ErrorCode::kForeign,
          "expected a pickle of protocol 2 to 5, as PyTorch writes snapshots (of a log: see "
          "explain)");
    }
    at_ += 2;
    return true;
  }

  // The opcodes that fill a snapshot, as fast as they can be read: everything in locals, no check
  // that cannot fail. It stops in front of whatever needs care (a rare opcode, the end of the data,
  // a full stack, an error), and `run_opcode` takes that one step.
  bool run_common_opcodes(const std::uint8_t* batch_end) {
    if (left() < kLongestCommon) return true;
    const std::uint8_t* until = std::min(batch_end, end_ - kLongestCommon);
    const std::uint8_t* at = at_;
    std::size_t depth = depth_;
    Value* stack = stack_.data();
    const std::size_t room = stack_.size();
    bool common = true;
    while (common && at < until && depth < room) {
      if (const std::size_t length = read_value(at, stack[depth]); length != 0) {
        at += length;
        ++depth;
        continue;
      }
      at_ = at;
      depth_ = depth;
      if (!combine_values(&common)) return false;
      at = at_;
      depth = depth_;
      // A list may have made the stack move.
      common = common && room == stack_.size();
      stack = stack_.data();
    }
    at_ = at;
    depth_ = depth;
    return true;
  }

  // Reads an opcode that pushes one value; gives its length, 0 if it is none of these or a case
  // that needs care. At least kLongestCommon bytes follow `at`.
  [[nodiscard]] std::size_t read_value(const std::uint8_t* at, Value& value) {
    switch (static_cast<Opcode>(*at)) {
      case Opcode::kLongBinget:
        return memo_.load(load<std::uint32_t>(at + 1), value) ? 5 : 0;
      case Opcode::kBinget:
        return memo_.load(at[1], value) ? 2 : 0;
      case Opcode::kBinint1:
        value = {ValueKind::kInt, at[1]};
        return 2;
      case Opcode::kBinint2:
        value = {ValueKind::kInt, load<std::uint16_t>(at + 1)};
        return 3;
      case Opcode::kBinint:
        value = {ValueKind::kInt,
                 static_cast<std::uint64_t>(std::int64_t{load<std::int32_t>(at + 1)})};
        return 5;
      case Opcode::kLong1:
        if (at[1] < 1 || at[1] > 8) return 0;
        value = {ValueKind::kInt, sign_extended(load<std::uint64_t>(at + 2), at[1])};
        return std::size_t{2} + at[1];
      case Opcode::kShortBinunicode:
        if (static_cast<std::size_t>(end_ - at) < std::size_t{2} + at[1]) return 0;
        value = builder_.string({reinterpret_cast<const char*>(at + 2), at[1]});
        return std::size_t{2} + at[1];
      case Opcode::kEmptyDict:
        value = builder_.new_dict();
        return 1;
      default:
        return 0;
    }
  }

  // One common opcode that works on what lies on the stack already. Anything else, and any case
  // that needs care, clears `common` and is left where it is.
  bool combine_values(bool* common) {
    opcode_at_ = at_;
    switch (static_cast<Opcode>(*at_)) {
      case Opcode::kMark:
        marks_.push_back(static_cast<std::uint32_t>(depth_));
        break;
      case Opcode::kMemoize:
        *common = depth_ > 0 && Memo::takes(stack_[depth_ - 1]);
        if (!*common) return true;
        memo_.add(stack_[depth_ - 1]);
        break;
      case Opcode::kSetitems:
        if (!set_items()) return false;
        break;
      case Opcode::kEmptyList:
        return read_reference_list(common);
      case Opcode::kTuple2:
        *common = depth_ >= 2;
        if (!*common) return true;
        depth_ -= 2;
        stack_[depth_] = builder_.tuple({stack_.data() + depth_, 2});
        ++depth_;
        break;
      default:
        *common = false;
        return true;
    }
    ++at_;
    return true;
  }

  // A new list of nothing but references, in the memo at once. Anything else is left where it is
  // (`*done` false).
  bool read_reference_list(bool* done) {
    *done = false;
    if (left() < kLongestCommon || static_cast<Opcode>(at_[1]) != Opcode::kMemoize ||
        static_cast<Opcode>(at_[2]) != Opcode::kMark) {
      return true;
    }
    const ReferenceBytes references = references_at(at_ + 3, end_);
    if (references.empty()) return true;

    *done = true;
    ReferenceLists::Place& place = known_lists_.place_of(references, end_);
    const bool is_known = place.has(references);
    const Value list = is_known ? builder_.repeat_list(place.list) : builder_.new_list();
    push(list);
    memo_.add(list);
    if (!is_known) {
      if (!read_references(references, list)) return false;
      if (builder_.is_repeatable(list.payload)) {
        ReferenceLists::put(place, references, list.payload);
      }
    }
    at_ = references.data() + references.size() + 1;
    return true;
  }

  bool read_references(ReferenceBytes references, Value list) {
    const std::size_t first = depth_;
    const std::uint8_t* end = references.data() + references.size();
    for (at_ = references.data(); at_ < end;) {
      opcode_at_ = at_;
      const bool is_long = static_cast<Opcode>(*at_++) == Opcode::kLongBinget;
      if (!get_memo(is_long ? take<std::uint32_t>() : take<std::uint8_t>())) return false;
    }
    opcode_at_ = end;
    if (!builder_.append(list.payload, from(first))) return fail_from_builder();
    depth_ = first;
    return true;
  }

  [[nodiscard]] static std::uint64_t sign_extended(std::uint64_t bits, std::size_t bytes) {
    const unsigned unused_bits = static_cast<unsigned>(64 - 8 * bytes);
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(bits << unused_bits) >>
                                      unused_bits);
  }

  // One opcode, with every check. The frequent ones; everything rarer is in run_rare_opcode.
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
        marks_.push_back(static_cast<std::uint32_t>(depth_));
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
        return make_tuple(depth_);
      case Opcode::kTuple1:
        return make_tuple(depth_ - 1);
      case Opcode::kTuple2:
        return make_tuple(depth_ - 2);
      case Opcode::kTuple3:
        return make_tuple(depth_ - 3);
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
    return push({ValueKind::kInt, sign_extended(bits, low)});
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
    Value value;
    if (memo_.load(index, value)) return push(value);
    return fail(ErrorCode::kDamaged, "memo entry " + std::to_string(index) + " was never stored");
  }

  bool put_memo(std::size_t index) {
    if (depth_ == 0) return fail(ErrorCode::kDamaged, "a memo entry is stored from no value");
    const Value value = stack_[depth_ - 1];
    if (!Memo::takes(value)) {
      return fail(ErrorCode::kForeign, "a number in the memo; no pickle writer puts one there");
    }
    // Every entry takes at least two bytes of file, so numbers in order never pass the offset.
    if (index > offset_of(at_)) {
      return fail(ErrorCode::kDamaged, "memo index " + std::to_string(index) + " is out of order");
    }
    // What was a reference to one thing now names another.
    if (index < memo_.size()) known_lists_.forget();
    memo_.put(index, value);
    return true;
  }

  [[nodiscard]] std::span<const Value> from(std::size_t first) const {
    return {stack_.data() + first, depth_ - first};
  }

  bool pop_mark(std::size_t* first) {
    if (marks_.empty()) return fail(ErrorCode::kDamaged, "expected a MARK on the stack");
    *first = marks_.back();
    marks_.pop_back();
    return *first <= depth_ || fail(ErrorCode::kDamaged, "the stack ends below its MARK");
  }

  bool set_items() {
    std::size_t first = 0;
    if (!pop_mark(&first)) return false;
    return fill_dict(first);
  }
  bool set_one_item() {
    if (depth_ < 3) return fail(ErrorCode::kDamaged, "SETITEM needs a dict and a pair");
    return fill_dict(depth_ - 2);
  }
  bool fill_dict(std::size_t first) {
    if (first == 0 || stack_[first - 1].kind != ValueKind::kDict || (depth_ - first) % 2 != 0) {
      return fail(ErrorCode::kDamaged, "expected a dict and pairs of keys and values");
    }
    if (!builder_.set_items(stack_[first - 1].payload, from(first), offset_of(opcode_at_))) {
      return fail_from_builder();
    }
    depth_ = first;
    return true;
  }

  bool append_items() {
    std::size_t first = 0;
    if (!pop_mark(&first)) return false;
    return fill_list(first);
  }
  bool append_one_item() {
    if (depth_ < 2) return fail(ErrorCode::kDamaged, "APPEND needs a list and an item");
    return fill_list(depth_ - 1);
  }
  bool fill_list(std::size_t first) {
    if (first == 0 || stack_[first - 1].kind != ValueKind::kList) {
      return fail(ErrorCode::kDamaged, "expected a list to append to");
    }
    if (!builder_.append(stack_[first - 1].payload, from(first))) return fail_from_builder();
    depth_ = first;
    return true;
  }

  bool make_tuple(std::size_t first) {
    if (first > depth_) return fail(ErrorCode::kDamaged, "a tuple of more than the stack");
    const Value tuple = builder_.tuple(from(first));
    depth_ = first;
    return push(tuple);
  }

  bool make_from_mark(Opcode opcode) {
    std::size_t first = 0;
    if (!pop_mark(&first)) return false;
    if (opcode == Opcode::kTuple) return make_tuple(first);
    const bool is_list = opcode == Opcode::kList;
    const Value made = is_list ? builder_.new_list() : builder_.new_dict();
    push({});
    std::copy_backward(stack_.begin() + static_cast<std::ptrdiff_t>(first),
                       stack_.begin() + static_cast<std::ptrdiff_t>(depth_ - 1),
                       stack_.begin() + static_cast<std::ptrdiff_t>(depth_));
    stack_[first] = made;
    return is_list ? fill_list(first + 1) : fill_dict(first + 1);
  }

  bool stop() {
    if (depth_ != 1 || !marks_.empty()) {
      return fail(ErrorCode::kDamaged,
                  "STOP with " + std::to_string(depth_) + " values left; expected one");
    }
    stopped_ = true;
    return true;
  }

  bool check_memory() {
    const std::size_t held = builder_.held_bytes() + stack_.capacity() * sizeof(Value) +
                             memo_.held_bytes() + marks_.capacity() * sizeof(std::uint32_t);
    if (held <= memory_limit_bytes_) return true;
    return fail(ErrorCode::kTooLarge,
                "the file unfolds into more than " + std::to_string(memory_limit_bytes_ >> 20) +
                    " MiB of objects; no snapshot does that");
  }

  const std::uint8_t* begin_;
  const std::uint8_t* at_;
  const std::uint8_t* end_;
  const std::uint8_t* opcode_at_ = nullptr;
  Builder& builder_;
  std::size_t memory_limit_bytes_;
  bool stopped_ = false;
  std::vector<Value> stack_ = std::vector<Value>(kFirstStack);  // of it `depth_` are in use
  std::size_t depth_ = 0;
  std::vector<std::uint32_t> marks_;
  Memo memo_;
  ReferenceLists known_lists_;
  Error error_;
};

}  // namespace fragscope::ingest
