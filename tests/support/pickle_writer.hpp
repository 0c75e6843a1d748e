// SPDX-License-Identifier: Apache-2.0
// Writes pickles for tests: opcode by opcode, so that a test can break any rule, or a whole JSON
// value as Python's pickler would write it. Arrays under a pool-id key become tuples, as PyTorch
// has them. Header only; tests use it, the product does not.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace fragscope::testing {

using Json = nlohmann::ordered_json;

/// Appends opcodes; each call returns the writer, so that a test reads as a list of opcodes.
class PickleWriter {
 public:
  /// `protocol` 0 writes no PROTO.
  explicit PickleWriter(int protocol = 4) {
    if (protocol > 0) op(0x80).byte(protocol);
  }

  PickleWriter& byte(int value) {
    bytes_.push_back(static_cast<char>(value));
    return *this;
  }
  PickleWriter& op(int code) { return byte(code); }
  PickleWriter& raw(std::string_view bytes) {
    bytes_ += bytes;
    return *this;
  }
  /// Little-endian, the low `width` bytes.
  PickleWriter& number(std::uint64_t value, int width) {
    for (int i = 0; i < width; ++i)
      byte(static_cast<int>(value >> (8 * i) & 0xff));
    return *this;
  }

  PickleWriter& mark() { return op('('); }
  PickleWriter& stop() { return op('.'); }
  PickleWriter& string(std::string_view text) {
    if (text.size() < 256) return op(0x8c).byte(static_cast<int>(text.size())).raw(text);
    return op('X').number(text.size(), 4).raw(text);
  }
  PickleWriter& integer(std::int64_t value) {
    if (value >= 0 && value < 256) return op('K').byte(static_cast<int>(value));
    return op(0x8a).byte(8).number(static_cast<std::uint64_t>(value), 8);
  }
  PickleWriter& unsigned_integer(std::uint64_t value) {
    if (value >> 63 == 0) return integer(static_cast<std::int64_t>(value));
    return op(0x8a).byte(9).number(value, 8).byte(0);
  }

  /// A whole value, dicts in the order of their keys.
  PickleWriter& value(const Json& json, std::string_view key = {}) {
    switch (json.type()) {
      case Json::value_t::boolean:
        return op(json.get<bool>() ? 0x88 : 0x89);
      case Json::value_t::number_integer:
        return integer(json.get<std::int64_t>());
      case Json::value_t::number_unsigned:
        return unsigned_integer(json.get<std::uint64_t>());
      case Json::value_t::number_float:
        return floating(json.get<double>());
      case Json::value_t::string:
        return string(json.get_ref<const std::string&>());
      case Json::value_t::array:
        return sequence(json, key);
      case Json::value_t::object:
        return dict(json);
      default:
        return op('N');
    }
  }

  /// Whether pool ids are written as lists, as a snapshot that went through JSON has them.
  PickleWriter& pools_as_lists(bool wanted) {
    pools_as_lists_ = wanted;
    return *this;
  }

  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  PickleWriter& floating(double value) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    op('G');
    for (int shift = 56; shift >= 0; shift -= 8)
      byte(static_cast<int>(bits >> shift & 0xff));
    return *this;
  }
  PickleWriter& sequence(const Json& json, std::string_view key) {
    const bool is_pool = key.ends_with("pool_id") && !pools_as_lists_;
    if (!is_pool) op(']');
    mark();
    for (const Json& item : json)
      value(item);
    return op(is_pool ? 't' : 'e');
  }
  PickleWriter& dict(const Json& json) {
    op('}').mark();
    for (const auto& [name, item] : json.items())
      string(name).value(item, name);
    return op('u');
  }

  std::string bytes_;
  bool pools_as_lists_ = false;
};

/// `json` as one pickle.
[[nodiscard]] inline std::string pickle_of(const Json& json, int protocol = 4) {
  return PickleWriter(protocol).value(json).stop().bytes();
}

[[nodiscard]] inline std::span<const std::uint8_t> as_bytes(const std::string& text) {
  return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

}  // namespace fragscope::testing
