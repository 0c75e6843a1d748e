// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stages/weights/safetensors.hpp"

#include "analyzer/stages/weights/bounded_json.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

namespace fragscope::stages {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kLengthBytes = 8;

struct DtypeBits {
  std::string_view name;
  std::uint64_t bits;
};

constexpr DtypeBits kDtypes[] = {
    {"BOOL", 8},    {"U8", 8},          {"I8", 8},          {"F8_E4M3", 8}, {"F8_E5M2", 8},
    {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"U16", 16},    {"I16", 16},
    {"F16", 16},    {"BF16", 16},       {"U32", 32},        {"I32", 32},    {"F32", 32},
    {"U64", 64},    {"I64", 64},        {"F64", 64},        {"C64", 64},    {"F4", 4},
    {"F6_E2M3", 6}, {"F6_E3M2", 6},
};

std::optional<std::uint64_t> bits_of(std::string_view dtype) {
  for (const DtypeBits& known : kDtypes) {
    if (known.name == dtype) return known.bits;
  }
  return std::nullopt;
}

tl::unexpected<Error> damaged(const std::string& path, std::uint64_t offset, std::string message) {
  Error error;
  error.code = ErrorCode::kDamaged;
  error.source = path;
  error.byte_offset = offset;
  error.message = std::move(message);
  return tl::unexpected<Error>(std::move(error));
}

tl::unexpected<Error> bad_tensor(const std::string& path, std::string_view name, std::string what) {
  return damaged(path, kLengthBytes, fmt::format("tensor '{}': {}", name.substr(0, 80), what));
}

/// Elements of a tensor of this shape; none if it is no list of whole numbers, or beyond 2^63.
std::optional<std::uint64_t> read_shape(const Json& shape, std::vector<std::uint64_t>& sizes) {
  if (!shape.is_array()) return std::nullopt;
  std::uint64_t elements = 1;
  for (const Json& size : shape) {
    if (!size.is_number_unsigned()) return std::nullopt;
    sizes.push_back(size.get<std::uint64_t>());
    constexpr std::uint64_t kMost = std::uint64_t{1} << 60;
    if (sizes.back() != 0 && elements > kMost / sizes.back()) return std::nullopt;
    elements *= sizes.back();
  }
  return elements;
}

Result<TensorEntry> read_tensor(const std::string& path,
                                const std::string& name,
                                const Json& json,
                                std::uint64_t data_bytes) {
  TensorEntry entry;
  entry.name = name;
  const auto dtype = json.find("dtype");
  const auto shape = json.find("shape");
  const auto offsets = json.find("data_offsets");
  if (!json.is_object() || dtype == json.end() || shape == json.end() || offsets == json.end() ||
      !dtype->is_string()) {
    return bad_tensor(path, name, "expected dtype, shape and data_offsets");
  }
  entry.dtype = dtype->get<std::string>();
  const auto elements = read_shape(*shape, entry.shape);
  if (!elements) return bad_tensor(path, name, "its shape is no list of sizes");
  const bool pair = offsets->is_array() && offsets->size() == 2 &&
                    (*offsets)[0].is_number_unsigned() && (*offsets)[1].is_number_unsigned();
  if (!pair) return bad_tensor(path, name, "data_offsets is no pair of offsets");
  const auto begin = (*offsets)[0].get<std::uint64_t>();
  const auto end = (*offsets)[1].get<std::uint64_t>();
  if (begin > end || end > data_bytes) {
    return bad_tensor(
        path,
        name,
        fmt::format(
            "its data is at {} to {}, the file has {} bytes of data", begin, end, data_bytes));
  }
  entry.begin = begin;
  entry.bytes = end - begin;
  const auto bits = bits_of(entry.dtype);
  // A type that is newer than this reader is taken at its offsets' word.
  const std::uint64_t expected = bits ? (*elements * *bits + 7) / 8 : entry.bytes;
  if (expected != entry.bytes) {
    return bad_tensor(path,
                      name,
                      fmt::format("{} elements of {} are {} bytes, its data has {}",
                                  *elements,
                                  entry.dtype.substr(0, 20),
                                  expected,
                                  entry.bytes));
  }
  return entry;
}

Result<std::string> read_header_text(const std::string& path, std::uint64_t& data_bytes) {
  std::error_code error;
  const std::uint64_t file_bytes = std::filesystem::file_size(path, error);
  // A pipe has no size, and opening one would wait for its writer.
  std::ifstream file;
  if (!error) file.open(path, std::ios::binary);
  if (!file.is_open()) return failure(ErrorCode::kUnreadable, fmt::format("cannot read {}", path));
  std::array<char, kLengthBytes> raw{};
  if (!file.read(raw.data(), raw.size())) {
    return damaged(path, 0, "expected eight bytes of header length, the file is shorter");
  }
  std::uint64_t length = 0;
  for (std::size_t i = raw.size(); i-- > 0;)
    length = length << 8 | static_cast<unsigned char>(raw[i]);
  if (length > kMaxHeaderBytes || length > file_bytes - kLengthBytes) {
    return damaged(path,
                   0,
                   fmt::format("the header is said to have {} bytes, in a file of {}; expected "
                               "at most {}",
                               length,
                               file_bytes,
                               kMaxHeaderBytes));
  }
  std::string text(length, '\0');
  if (!file.read(text.data(), static_cast<std::streamsize>(length))) {
    return failure(ErrorCode::kUnreadable, fmt::format("cannot read the header of {}", path));
  }
  data_bytes = file_bytes - kLengthBytes - length;
  return text;
}

}  // namespace

Result<std::vector<TensorEntry>> read_safetensors_header(const std::string& path) {
  std::uint64_t data_bytes = 0;
  const auto text = read_header_text(path, data_bytes);
  if (!text) return tl::unexpected<Error>(text.error());
  constexpr int kMaxDepth = 8;
  const Json json = parse_bounded_json(*text, kMaxDepth);
  if (!json.is_object()) return damaged(path, kLengthBytes, "the header is no JSON object");
  std::vector<TensorEntry> tensors;
  for (const auto& [name, value] : json.items()) {
    if (name == "__metadata__") continue;
    auto tensor = read_tensor(path, name, value, data_bytes);
    if (!tensor) return tl::unexpected<Error>(tensor.error());
    tensors.push_back(std::move(*tensor));
  }
  std::ranges::sort(tensors, {}, [](const TensorEntry& t) { return std::pair(t.begin, t.bytes); });
  for (std::size_t i = 1; i < tensors.size(); ++i) {
    const TensorEntry& before = tensors[i - 1];
    if (tensors[i].begin < before.begin + before.bytes) {
      return bad_tensor(path,
                        tensors[i].name,
                        fmt::format("its data overlaps that of '{}'", before.name.substr(0, 80)));
    }
  }
  return tensors;
}

}  // namespace fragscope::stages
