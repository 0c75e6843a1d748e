// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/commands/commands.hpp"
#include "analyzer/cli/output.hpp"
#include "analyzer/recording/byte_size.hpp"
#include "analyzer/recording/plural.hpp"
#include "analyzer/report/frame_text.hpp"
#include "trace/format/header_text.hpp"
#include "trace/process/ring_directory.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace fragscope::cli {
namespace {

using Json = nlohmann::ordered_json;

struct RingsArguments {
  std::string directory;
  bool json = false;
  bool reap = false;
  bool redact = false;
};

std::string_view name_of(const trace::RingEntry& ring) {
  if (!ring.header) return "unreadable";
  if (ring.header->state == trace::TraceState::kUnrecorded) return "unrecorded";
  switch (ring.writer) {
    case trace::WriterState::kAlive:
      return "alive";
    case trace::WriterState::kEnded:
      return "ended";
    case trace::WriterState::kDead:
      return "dead";
  }
  return "unknown";
}

/// As it may be shown on a terminal.
template <std::size_t kSize>
std::string shown_text(const std::array<char, kSize>& field) {
  return report::printable(trace::text_of(field));
}

/// Records that are still there, of those that were written.
std::uint64_t held_records(const trace::Header& header) {
  return std::min(header.written, header.record_capacity);
}

Json to_json(const trace::RingEntry& ring, bool redact) {
  Json json = {{"path", ring.path},
               {"state", name_of(ring)},
               {"bytes", ring.bytes},
               {"owner_uid", ring.owner}};
  if (!ring.header) {
    json["problem"] = ring.problem;
    return json;
  }
  const trace::Header& header = *ring.header;
  json["pid"] = header.process.pid;
  json["rank"] = header.process.rank == 0 ? Json() : Json(header.process.rank - 1);
  json["device"] = header.device;
  json["device_name"] = shown_text(header.device_name);
  json["command"] = redact ? "(masked)" : shown_text(header.command);
  json["written_records"] = header.written;
  json["held_records"] = held_records(header);
  json["record_capacity"] = header.record_capacity;
  json["dropped_records"] = header.dropped;
  json["failures"] = header.failures;
  json["table_used_bytes"] = header.table_used;
  json["table_bytes"] = header.table_bytes;
  const std::string reason = shown_text(header.reason);
  json["reason"] = reason.empty() ? Json() : Json(reason);
  return json;
}

void print_ring(const trace::RingEntry& ring, bool redact) {
  if (!ring.header) {
    fmt::print("{}\n  {}: {}; uid {}\n",
               report::printable(ring.path),
               name_of(ring),
               report::printable(ring.problem),
               ring.owner);
    return;
  }
  const trace::Header& header = *ring.header;
  fmt::print("{}\n  {}, pid {}{}, device {}{}\n",
             report::printable(ring.path),
             name_of(ring),
             header.process.pid,
             header.process.rank == 0 ? "" : fmt::format(", rank {}", header.process.rank - 1),
             header.device,
             header.device_name[0] == '\0' ? "" : " (" + shown_text(header.device_name) + ")");
  if (!redact && header.command[0] != '\0') fmt::print("  {}\n", shown_text(header.command));
  const std::string reason = shown_text(header.reason);
  if (!reason.empty()) fmt::print("  not recorded: {}\n", reason);
  fmt::print("  {}; {} written, the last {} are there ({} % of the ring)\n",
             model::plural(header.failures, "failed request", "failed requests"),
             model::plural(header.written, "record", "records"),
             model::show_count(held_records(header)),
             held_records(header) * 100 / header.record_capacity);
}

int run_rings(const RingsArguments& arguments) {
  const std::string directory =
      arguments.directory.empty() ? trace::ring_directory() : arguments.directory;
  auto rings = trace::list_rings(directory);
  if (rings && arguments.reap) {
    const std::size_t removed = trace::reap_rings(directory);
    fmt::print(stderr, "fragscope: {} removed\n", model::plural(removed, "ring", "rings"));
    rings = trace::list_rings(directory);
  }
  if (!rings) return complain(rings.error());
  if (arguments.json) {
    Json list = Json::array();
    for (const trace::RingEntry& ring : *rings)
      list.push_back(to_json(ring, arguments.redact));
    const Json all = {{"schema", 1}, {"directory", directory}, {"rings", list}};
    fmt::print("{}\n", all.dump(-1, ' ', false, Json::error_handler_t::replace));
  } else {
    if (rings->empty()) fmt::print("no rings in {}\n", report::printable(directory));
    for (const trace::RingEntry& ring : *rings)
      print_ring(ring, arguments.redact);
  }
  return printed(kDone);
}

}  // namespace

void add_rings_command(CLI::App& app, std::function<int()>& run) {
  auto arguments = std::make_shared<RingsArguments>();
  CLI::App* command = app.add_subcommand(
      "rings", "List the rings on this machine: whose they are, alive or dead, how full");
  command->add_option(
      "--dir", arguments->directory, "Where to look (default: FRAGSCOPE_RING_DIR, else /dev/shm)");
  command->add_flag(
      "--reap",
      arguments->reap,
      "First remove your rings that ended without a failed request, and the oldest of "
      "the others beyond 16 or 256 MiB");
  command->add_flag("--json", arguments->json, "One JSON object");
  command->add_flag("--redact", arguments->redact, "Leave out command lines");
  command->callback([arguments, &run] { run = [arguments] { return run_rings(*arguments); }; });
}

}  // namespace fragscope::cli
