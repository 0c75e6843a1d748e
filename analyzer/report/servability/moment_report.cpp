// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/servability/moment_report.hpp"

#include "analyzer/recording/byte_size.hpp"
#include "analyzer/report/report_pieces.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace fragscope::report {
namespace {

using Json = nlohmann::ordered_json;
using analysis::Failure;
using model::CourseKind;
using model::show_bytes;
using model::show_count;
using servability::Means;
using servability::Moment;
using servability::Server;
using servability::Turn;

std::string events_before(model::EventIndex event, const Failure& failed) {
  const auto count = static_cast<std::uint64_t>(failed.question.event - event);
  return fmt::format("{} before {}",
                     plural(count, "event", "events"),
                     failed.question.recorded ? "the failure" : "the moment asked about");
}

std::string served_text(const Turn& turn) {
  if (turn.before == Server::kHole) {
    return fmt::format("until then a free run of {} at home would have served it",
                       show_bytes(turn.run_before_bytes));
  }
  return fmt::format("until then the driver would have served it, with {} once the cache went back",
                     show_bytes(turn.driver_before_bytes));
}

/// What the answers before the failure rest on.
std::string basis_text(const Failure& failed) {
  return failed.facts.free.known()
             ? "what others hold of the device is taken not to have changed"
             : "what the device had free is not known: only holes and the cache are counted";
}

std::string turned_text(const Failure& failed, const Turn& turn, const FrameText& frames) {
  std::string text = fmt::format("  event {}, {}: {}\n",
                                 turn.cause.event,
                                 events_before(turn.cause.event, failed),
                                 cause_text(turn.cause));
  if (turn.cause.stack != model::kNoStack) {
    text += fmt::format("  at    {}\n", frames.place(turn.cause.stack));
  }
  std::string rest = served_text(turn);
  if (failed.moment->turn_count > 1) {
    rest +=
        fmt::format("; the answer turned {} times in all", show_count(failed.moment->turn_count));
  }
  return text + wrapped(fmt::format("{}; {}", rest, basis_text(failed)), kTextWidth, 2);
}

}  // namespace

std::string cause_text(const model::CourseStep& cause) {
  const std::string bytes = show_bytes(cause.size_bytes);
  switch (cause.kind) {
    case CourseKind::kAlloc:
      return bytes + " handed out";
    case CourseKind::kFree:
    case CourseKind::kComplete:
      return bytes + " freed";
    case CourseKind::kDevice:
      return bytes + (cause.comes ? " taken from the driver" : " given back to the driver");
    case CourseKind::kFailure:
      break;
  }
  return "a refused request";
}

std::string_view to_string(Server server) {
  switch (server) {
    case Server::kHole:
      return "hole";
    case Server::kDriver:
      return "driver";
    case Server::kNobody:
      break;
  }
  return "nobody";
}

std::string_view to_string(Means means) {
  switch (means) {
    case Means::kHole:
      return "hole";
    case Means::kDriver:
      return "driver";
    case Means::kCompaction:
      return "compaction";
    case Means::kNothing:
      break;
  }
  return "nothing";
}

std::string home_text(const model::Home& home, const model::Recording& recording) {
  const model::PoolId& pool = recording.pools[model::index_of(home.pool)];
  return fmt::format("({},{}) {}, stream {}{}",
                     pool.first,
                     pool.second,
                     policy::to_string(home.size_class),
                     home.stream,
                     home.expandable ? ", expandable" : "");
}

std::string moment_text(const Failure& failed, const FrameText& frames, const Paint& paint) {
  if (!failed.moment || !failed.moment->known_from) return {};
  const Moment& moment = *failed.moment;
  const std::string head = title(paint, "MOMENT", "when the request became impossible");
  if (moment.to_no && moment.last == Server::kNobody) {
    return head + turned_text(failed, *moment.to_no, frames);
  }
  if (moment.last != Server::kNobody) {
    return head +
           wrapped(fmt::format("none: by these figures {} would still have served it",
                               moment.last == Server::kHole ? "a hole at home" : "the driver"),
                   kTextWidth,
                   2);
  }
  const std::string since = *moment.known_from < 0
                                ? std::string("at no event of the recording")
                                : fmt::format("at no event from {} on", *moment.known_from);
  return head +
         wrapped(fmt::format("it was possible {}; {}", since, basis_text(failed)), kTextWidth, 2);
}

Json turn_json(const Turn& turn, const FrameText& frames) {
  Json object;
  object["event"] = turn.cause.event;
  object["served_before_by"] = to_string(turn.before);
  object["served_after_by"] = to_string(turn.after);
  object["largest_run_before_bytes"] = turn.run_before_bytes;
  object["driver_before_bytes"] = turn.driver_before_bytes;
  object["cause"] = {{"text", cause_text(turn.cause)},
                     {"address", turn.cause.address},
                     {"size_bytes", turn.cause.size_bytes},
                     {"frames", frames_json(frames, turn.cause.stack)}};
  return object;
}

Json moment_json(const Failure& failed, const FrameText& frames) {
  if (!failed.moment || !failed.moment->known_from) return {};
  const Moment& moment = *failed.moment;
  Json object;
  object["known_from_event"] = *moment.known_from;
  object["first_served_by"] = to_string(moment.first);
  object["last_served_by"] = to_string(moment.last);
  object["turns"] = moment.turn_count;
  object["device_free_known"] = failed.facts.free.known();
  object["became_impossible"] =
      moment.to_no && moment.last == Server::kNobody ? turn_json(*moment.to_no, frames) : Json();
  return object;
}

}  // namespace fragscope::report
