// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stages/weights/model_weights.hpp"

#include "analyzer/recording/byte_size.hpp"
#include "analyzer/stages/weights/bounded_json.hpp"
#include "analyzer/stages/weights/safetensors.hpp"
#include "trace/ascii.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>
#include <utility>

namespace fragscope::stages {
namespace {

using Json = nlohmann::json;

/// Bytes of a run of parameters. Formats in blocks have their scales in them; plain ones of four
/// bits are the bare numbers, whose scales only come on top.
struct WeightFormat {
  std::string_view name;
  std::uint64_t block_bytes;
  std::uint64_t block_parameters;
};

constexpr WeightFormat kFormats[] = {
    {"fp64", 8, 1},     {"fp32", 4, 1},     {"tf32", 4, 1},    {"bf16", 2, 1},
    {"fp16", 2, 1},     {"fp8", 1, 1},      {"int8", 1, 1},    {"fp6", 3, 4},
    {"int4", 1, 2},     {"fp4", 1, 2},      {"nf4", 1, 2},     {"int3", 3, 8},
    {"int2", 1, 4},     {"mxfp8", 33, 32},  {"mxfp4", 17, 32}, {"nvfp4", 9, 16},
    {"q8_0", 34, 32},   {"q6_k", 210, 256}, {"q5_1", 24, 32},  {"q5_0", 22, 32},
    {"q5_k", 176, 256}, {"q4_1", 20, 32},   {"q4_0", 18, 32},  {"q4_k", 144, 256},
    {"q3_k", 110, 256}, {"q2_k", 84, 256},
};

std::string lower_case(std::string_view text) {
  std::string low(text);
  for (char& c : low)
    c = lower(c);
  return low;
}

Result<WeightFormat> find_format(std::string_view name) {
  std::string wanted = lower_case(name);
  constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
      {"float32", "fp32"},
      {"float", "fp32"},
      {"float16", "fp16"},
      {"half", "fp16"},
      {"bfloat16", "bf16"},
      {"f32", "fp32"},
      {"f16", "fp16"},
      {"fp8_e4m3", "fp8"},
      {"fp8_e5m2", "fp8"},
      {"awq", "int4"},
      {"gptq", "int4"},
      {"4bit", "int4"},
      {"8bit", "int8"},
      {"w8a8", "int8"},
      {"w4a16", "int4"},
  };
  for (const auto& [other, known] : kOtherNames) {
    if (wanted == other) wanted = known;
  }
  std::string names;
  for (const WeightFormat& format : kFormats) {
    if (format.name == wanted) return format;
    names += names.empty() ? "" : ", ";
    names += format.name;
  }
  return failure(
      ErrorCode::kUsage,
      fmt::format("'{}' is no format of weights; known are {}", name.substr(0, 40), names));
}

Result<std::uint64_t> parse_parameters(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  double scale = 0;
  if (unit.empty()) scale = 1;
  if (unit == "K" || unit == "k") scale = 1e3;
  if (unit == "M" || unit == "m") scale = 1e6;
  if (unit == "B" || unit == "b" || unit == "G") scale = 1e9;
  if (unit == "T" || unit == "t") scale = 1e12;
  const double parameters = number * scale;
  if (error != std::errc{} || !std::isfinite(parameters) || parameters < 1 || parameters > 1e16) {
    return failure(ErrorCode::kUsage,
                   fmt::format("'{}' is no number of parameters; expected as 7B, 70.6B, 350M or "
                               "7241732096",
                               text.substr(0, 40)));
  }
  return static_cast<std::uint64_t>(parameters);
}

/// A tensor of the model, from whichever file has it.
struct Counted {
  std::string dtype;
  std::vector<std::uint64_t> shape;
  std::uint64_t bytes = 0;
  std::size_t file = 0;
};

using TensorMap = std::map<std::string, Counted>;

Result<std::vector<std::filesystem::path>> list_files(const std::string& folder,
                                                      std::vector<std::string>& notes) {
  std::error_code error;
  std::vector<std::filesystem::path> files;
  std::vector<std::filesystem::path> consolidated;
  constexpr std::size_t kMaxFiles = 10000;
  for (auto it = std::filesystem::directory_iterator(folder, error);
       !error && it != std::filesystem::directory_iterator();
       it.increment(error)) {
    if (it->path().extension() != ".safetensors") continue;
    const bool whole = it->path().filename().string().starts_with("consolidated");
    (whole ? consolidated : files).push_back(it->path());
    if (files.size() + consolidated.size() > kMaxFiles) {
      return failure(ErrorCode::kTooLarge, "more than 10000 *.safetensors files in " + folder);
    }
  }
  if (error) return failure(ErrorCode::kUnreadable, fmt::format("cannot list {}", folder));
  // The same weights under other names, as one publisher adds them.
  if (files.empty()) {
    files = std::move(consolidated);
  } else if (!consolidated.empty()) {
    notes.push_back("consolidated*.safetensors is left out: a second copy under other names");
  }
  if (files.empty()) {
    return failure(ErrorCode::kForeign, fmt::format("no *.safetensors file in {}", folder));
  }
  std::ranges::sort(files);
  return files;
}

Json read_config(const std::string& folder) {
  constexpr std::size_t kMaxConfigBytes = 16U << 20;
  std::ifstream file(std::filesystem::path(folder) / "config.json", std::ios::binary);
  std::string text(kMaxConfigBytes, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  constexpr int kMaxDepth = 32;
  return parse_bounded_json(text, kMaxDepth);
}

/// The member of config.json, or of what it says of the text model in it; null if neither has it.
const Json& configured(const Json& config, const char* key) {
  static const Json none;
  if (!config.is_object()) return none;
  if (const auto at = config.find(key); at != config.end()) return *at;
  const auto text = config.find("text_config");
  if (text == config.end() || !text->is_object()) return none;
  const auto at = text->find(key);
  return at != text->end() ? *at : none;
}

/// An output layer that is stored beside the embedding it is tied to is loaded once.
void drop_tied_head(const Json& config, TensorMap& tensors, std::vector<std::string>& notes) {
  const Json& tied = configured(config, "tie_word_embeddings");
  if (!tied.is_boolean() || !tied.get<bool>()) return;
  const auto head = std::ranges::find_if(
      tensors, [](const auto& entry) { return entry.first.ends_with("lm_head.weight"); });
  if (head == tensors.end()) return;
  for (const auto& [name, tensor] : tensors) {
    if (!name.ends_with("embed_tokens.weight") && !name.ends_with("wte.weight")) continue;
    if (tensor.shape != head->second.shape || tensor.dtype != head->second.dtype) continue;
    notes.push_back(fmt::format("{} is not counted: config.json ties it to {}", head->first, name));
    tensors.erase(head);
    return;
  }
}

/// Bits of one element of the type that config.json asks for; 0 if it does not say.
std::uint64_t configured_bits(const Json& config) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    const Json& dtype = configured(config, key);
    if (!dtype.is_string()) continue;
    const auto name = dtype.get<std::string>();
    if (name == "bfloat16" || name == "float16") return 16;
    if (name == "float32") return 32;
  }
  return 0;
}

/// Bits of one element where config.json quantises what is stored in full; 0 if it does not say.
std::uint64_t quantised_bits(const Json& quantisation) {
  if (!quantisation.is_object()) return 0;
  const auto is_set = [&quantisation](const char* key) {
    const auto at = quantisation.find(key);
    return at != quantisation.end() && at->is_boolean() && at->get<bool>();
  };
  if (is_set("load_in_4bit")) return 4;
  if (is_set("load_in_8bit")) return 8;
  const auto bits = quantisation.find("bits");
  const bool is_count = bits != quantisation.end() && bits->is_number_unsigned();
  if (is_count && *bits >= 1U && *bits <= 16U) return bits->get<std::uint64_t>();
  return 0;
}

std::uint64_t stored_bits(const Counted& tensor) {
  if (tensor.dtype == "F64") return 64;
  if (tensor.dtype == "F32") return 32;
  return tensor.dtype == "F16" || tensor.dtype == "BF16" ? 16 : 0;
}

/// How floating-point weights change while they are loaded.
struct Loading {
  std::uint64_t bits = 0;  ///< Of an element; 0: as stored.
  std::string note;        ///< Where they change.
};

/// Quantised checkpoints are loaded as they are stored: what else is in them (scales) is needed
/// whole.
Loading loading_of(const Json& config, const TensorMap& tensors) {
  const Json& quantisation = configured(config, "quantization_config");
  if (!quantisation.is_object()) {
    const std::uint64_t bits = configured_bits(config);
    return {bits,
            fmt::format("config.json loads floating-point weights in {} bytes each", bits / 8)};
  }
  const bool is_quantised = std::ranges::any_of(
      tensors, [](const auto& entry) { return stored_bits(entry.second) == 0; });
  if (is_quantised) return {};
  const std::uint64_t bits = quantised_bits(quantisation);
  return {bits,
          fmt::format("config.json quantises floating-point weights to {} bits while they are "
                      "loaded",
                      bits)};
}

/// Weights that are stored wider than they are loaded.
std::uint64_t bytes_when_loaded(const Counted& tensor, std::uint64_t bits) {
  const std::uint64_t stored = stored_bits(tensor);
  if (bits == 0 || stored <= bits) return tensor.bytes;
  return tensor.bytes / (stored / 8) * bits / 8;
}

/// Parts that the names of the others promise: "model-00002-of-00003.safetensors".
void note_missing_parts(const std::vector<std::filesystem::path>& files,
                        std::vector<std::string>& notes) {
  std::map<std::string, std::uint64_t> found;  // by "model-*-of-00003"
  constexpr std::string_view kOf = "-of-";
  constexpr std::size_t kMostDigits = 8;
  for (const auto& file : files) {
    const std::string name = file.stem().string();
    const auto of = name.rfind(kOf);
    if (of == std::string::npos) continue;
    const auto number = name.find_last_not_of("0123456789", of - 1);
    if (number == std::string::npos || number + 1 == of) continue;
    ++found[name.substr(0, number + 1) + '*' + name.substr(of)];
  }
  for (const auto& [parts, count] : found) {
    const std::string_view digits = std::string_view(parts).substr(parts.rfind(kOf) + kOf.size());
    std::uint64_t all = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), all);
    const bool is_number = error == std::errc{} && end == digits.data() + digits.size() &&
                           digits.size() <= kMostDigits;
    if (!is_number || count >= all) continue;
    notes.push_back(
        fmt::format("{} of the {} files {}.safetensors are missing; their weights are "
                    "not counted",
                    all - count,
                    all,
                    parts));
  }
}

WeightBound sum_up(const TensorMap& tensors,
                   const std::vector<std::filesystem::path>& files,
                   const Json& config) {
  WeightBound bound;
  for (const auto& file : files)
    bound.sources.push_back({.source = file.filename().string()});
  std::map<std::string, std::uint64_t> dtypes;
  const Loading loading = loading_of(config, tensors);
  for (const auto& [name, tensor] : tensors) {
    WeightSource& source = bound.sources[tensor.file];
    source.bytes += tensor.bytes;
    ++source.tensors;
    bound.stored_bytes += tensor.bytes;
    bound.bytes += bytes_when_loaded(tensor, loading.bits);
    dtypes[tensor.dtype] += tensor.bytes;
  }
  for (const auto& [dtype, bytes] : dtypes)
    bound.dtypes.push_back({dtype, bytes});
  std::ranges::stable_sort(bound.dtypes, std::ranges::greater(), &DtypeBytes::bytes);
  if (bound.bytes < bound.stored_bytes) {
    bound.notes.push_back(
        fmt::format("{}; {} are stored", loading.note, model::show_bytes(bound.stored_bytes)));
  }
  return bound;
}

}  // namespace

Result<WeightBound> bound_from_parameters(std::string_view parameters, std::string_view format) {
  const auto count = parse_parameters(parameters);
  if (!count) return tl::unexpected<Error>(count.error());
  const auto known = find_format(format);
  if (!known) return tl::unexpected<Error>(known.error());
  WeightBound bound;
  // 1e16 parameters of 210 bytes for 256 stay far below 2^64 only in this order for whole blocks.
  const std::uint64_t blocks = *count / known->block_parameters;
  const std::uint64_t rest = *count % known->block_parameters;
  bound.bytes = blocks * known->block_bytes +
                (rest * known->block_bytes + known->block_parameters - 1) / known->block_parameters;
  bound.stored_bytes = bound.bytes;
  bound.sources.push_back(
      {.bytes = bound.bytes,
       .source = fmt::format("--weights {} --format {}", parameters, known->name)});
  return bound;
}

Result<WeightBound> bound_from_folder(const std::string& folder) {
  std::vector<std::string> notes;
  const auto files = list_files(folder, notes);
  if (!files) return tl::unexpected<Error>(files.error());
  TensorMap tensors;
  std::uint64_t repeated = 0;
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < files->size(); ++i) {
    auto entries = read_safetensors_header((*files)[i].string());
    if (!entries) return tl::unexpected<Error>(entries.error());
    for (TensorEntry& entry : *entries) {
      total += entry.bytes;
      Counted counted{std::move(entry.dtype), std::move(entry.shape), entry.bytes, i};
      const auto [at, added] = tensors.try_emplace(entry.name, counted);
      if (added) continue;
      ++repeated;
      // Of two variants either may be the one that is loaded.
      if (counted.bytes < at->second.bytes) at->second = std::move(counted);
    }
  }
  if (repeated > 0) {
    notes.push_back(
        fmt::format("{} tensors are in several files and count once", model::show_count(repeated)));
  }
  note_missing_parts(*files, notes);
  const Json config = read_config(folder);
  drop_tied_head(config, tensors, notes);
  if (total == 0) return failure(ErrorCode::kForeign, "no tensor has any data in " + folder);
  WeightBound bound = sum_up(tensors, *files, config);
  bound.notes.insert(bound.notes.begin(), notes.begin(), notes.end());
  return bound;
}

std::uint64_t even_share(const WeightBound& bound, std::uint32_t devices) {
  const std::uint64_t count = std::max<std::uint32_t>(devices, 1);
  return bound.bytes / count + (bound.bytes % count == 0 ? 0 : 1);
}

std::optional<std::string> why_it_cannot_fit(const WeightBound& bound,
                                             std::uint32_t devices,
                                             std::uint64_t card_bytes) {
  const std::uint64_t share = even_share(bound, devices);
  if (share <= card_bytes) return std::nullopt;
  return fmt::format(
      "the weights alone take at least {} {} and the card has {}: clearing caches or a shorter "
      "prompt cannot help",
      model::show_bytes(share),
      assumption(devices),
      model::show_bytes(card_bytes));
}

std::string assumption(std::uint32_t devices) {
  const std::string place = devices > 1
                                ? fmt::format("on each of {} devices (if split evenly,", devices)
                                : std::string("(if all of them lie on one device,");
  return place + " without offload or quantisation while loading)";
}

}  // namespace fragscope::stages
