// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/input/request_options.hpp"

#include "analyzer/explain/collector/message_collector.hpp"
#include "analyzer/recording/byte_size.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

namespace fragscope::cli {
namespace {

Result<std::optional<std::uint64_t>> size_option(std::string_view option, const std::string& text) {
  if (text.empty()) return std::optional<std::uint64_t>{};
  const Result<std::uint64_t> size = model::parse_bytes(text);
  if (size) return std::optional(*size);
  Error error = size.error();
  error.message = fmt::format("{}: {}", option, error.message);
  return tl::unexpected<Error>(std::move(error));
}

Result<model::PoolId> parse_pool(const std::string& text) {
  const auto comma = text.find(',');
  const auto first = parse_number<std::uint64_t>(std::string_view(text).substr(0, comma));
  const auto second = comma == std::string::npos
                          ? std::nullopt
                          : parse_number<std::uint64_t>(std::string_view(text).substr(comma + 1));
  if (first && second) return model::PoolId{*first, *second};
  return tl::unexpected<Error>(wrong_option("--pool", text, "two numbers, as 0,0"));
}

/// Facts that cannot be true together are a slip of the hand, not evidence.
Result<void> check_facts(const analysis::Options& options) {
  if (options.device_free_bytes && options.device_total_bytes &&
      *options.device_free_bytes > *options.device_total_bytes) {
    return tl::unexpected<Error>(wrong_option(
        "--device-free", model::show_bytes(*options.device_free_bytes), "at most --device-total"));
  }
  return {};
}

Result<void> read_log(const std::string& path, analysis::Options& options) {
  if (path.empty()) return {};
  Result<std::vector<explain::Message>> messages = explain::read_messages(path);
  if (!messages) {
    Error error = messages.error();
    error.source = path;
    return tl::unexpected<Error>(std::move(error));
  }
  options.log_name = path;
  options.messages = std::move(*messages);
  return {};
}

}  // namespace

Error wrong_option(std::string_view option, std::string_view value, std::string_view expected) {
  Error error;
  error.code = ErrorCode::kUsage;
  error.message = fmt::format("{} {}: expected {}", option, value, expected);
  return error;
}

Result<MemoryLimit> parse_limit(const std::string& text) {
  MemoryLimit limit;
  const auto number = parse_number<double>(text);
  if (number && *number > 0 && *number <= 1) {
    limit.fraction = number;
    return limit;
  }
  const bool is_whole = text.find_first_not_of("0123456789") == std::string::npos;
  const Result<std::uint64_t> size = model::parse_bytes(text);
  if (!size || (number && !is_whole)) {
    return tl::unexpected<Error>(
        wrong_option("--limit", text, "a size, or a fraction above 0 and up to 1"));
  }
  limit.bytes = *size;
  return limit;
}

void add_request_options(CLI::App& command, RequestArguments& arguments) {
  command.add_option("--request",
                     arguments.request,
                     "Ask for a request of this SIZE (4.94GiB, 512MiB, 20971520) instead of the "
                     "recorded failures");
  command.add_option("--stream", arguments.stream, "Stream of the request (default 0)");
  command.add_option("--pool",
                     arguments.pool,
                     "Pool of the request, or of a failure whose entry names none (default 0,0)");
  command.add_option("--device-total", arguments.device_total, "SIZE of the device's memory");
  command.add_option("--device-free",
                     arguments.device_free,
                     "SIZE that the driver has free at the moment of the request");
  command.add_option(
      "--limit", arguments.limit, "Memory limit of the process: a SIZE, or a fraction such as 0.5");
  command.add_option("--log",
                     arguments.log,
                     "Take device total, limit and context from this log's message of the same "
                     "failure");
}

Result<analysis::Options> parse_request(const RequestArguments& arguments) {
  analysis::Options options;
  options.stream = arguments.stream.value_or(0);
  const auto store = [](std::optional<std::uint64_t>& into) {
    return [&into](std::optional<std::uint64_t> value) { into = value; };
  };
  Result<void> done = size_option("--request", arguments.request).map(store(options.request_bytes));
  if (done) {
    done = size_option("--device-total", arguments.device_total)
               .map(store(options.device_total_bytes));
  }
  if (done) {
    done =
        size_option("--device-free", arguments.device_free).map(store(options.device_free_bytes));
  }
  if (done && !arguments.limit.empty()) {
    done = parse_limit(arguments.limit).map([&options](MemoryLimit limit) {
      options.limit_bytes = limit.bytes;
      options.limit_fraction = limit.fraction;
    });
  }
  if (done && !arguments.pool.empty()) {
    done = parse_pool(arguments.pool).map([&options](model::PoolId pool) { options.pool = pool; });
  }
  if (done) done = check_facts(options);
  if (done) done = read_log(arguments.log, options);
  if (!done) return tl::unexpected<Error>(done.error());
  if (!options.request_bytes && arguments.stream) {
    return tl::unexpected<Error>(
        wrong_option("--stream", std::to_string(*arguments.stream), "--request SIZE beside it"));
  }
  return options;
}

}  // namespace fragscope::cli
