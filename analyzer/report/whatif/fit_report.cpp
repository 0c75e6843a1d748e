// SPDX-License-Identifier: Apache-2.0
#include "analyzer/report/whatif/fit_report.hpp"

#include "analyzer/recording/byte_size.hpp"
#include "analyzer/report/frame_text.hpp"
#include "analyzer/report/whatif/replay_report.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <optional>

namespace fragscope::report {
namespace {

using Json = nlohmann::ordered_json;
using model::show_bytes;
using model::show_count;
using whatif::Fit;

/// What was recorded, among the fits; null if it fits no device.
const Fit* recorded_of(const FitReport& report) {
  const auto recorded = std::ranges::find(
      report.fits, true, [](const Fit& fit) { return fit.variant.follows_program; });
  return recorded == report.fits.end() ? nullptr : &*recorded;
}

/// The one that needs least, if that is less than the recorded settings need.
const Fit* best_of(const FitReport& report) {
  if (report.fits.empty()) return nullptr;
  const Fit& best = report.fits.front();
  const Fit* recorded = recorded_of(report);
  const bool is_better =
      recorded == nullptr || best.variant.device_bytes < recorded->variant.device_bytes;
  return is_better && !best.variant.follows_program ? &best : nullptr;
}

/// What to put into the environment; empty: to take the variable out.
std::string line_of(const Fit& fit) {
  const std::string& conf = fit.variant.options.conf.last_text;
  return conf.empty() ? "unset PYTORCH_CUDA_ALLOC_CONF" : "export PYTORCH_CUDA_ALLOC_CONF=" + conf;
}

std::string islands_text(const Fit& fit) {
  if (fit.islands.empty()) return {};
  std::string text = "fits at ";
  for (const std::uint64_t size : fit.islands)
    text += (size == fit.islands.front() ? "" : ", ") + show_bytes(size);
  return text + " too, though not at all sizes between";
}

std::string trust_text(const FitReport& report) {
  if (!report.verification) {
    return "The log has requests alone: that these rules would have served them so is not proven.";
  }
  if (!report.verification->first) return "The rules decide the whole recording as it was.";
  const whatif::Op& op = report.program.ops[report.verification->first->op];
  return fmt::format(
      "The rules decide otherwise than was recorded from event {} on (fragscope replay --verify): "
      "what follows is a model of the program, not proven.",
      report.program.event_of(op));
}

}  // namespace

std::string fit_text(const FitReport& report, const std::string& path, const Paint& paint) {
  std::string out = fmt::format("{}  ({}, {}, device {})\n\n",
                                paint(Tone::kTitle, printable(path)),
                                report.recording.kind,
                                printable(report.recording.writer),
                                report.device);
  out += wrapped(trust_text(report), kTextWidth, 0) + dependences_text(report.program) + "\n";
  Table table;
  table.add({left("settings"),
             right("smallest device"),
             right("bytes"),
             right("reserved at most"),
             right("sizes tried"),
             left("")});
  for (const Fit& fit : report.fits) {
    table.add({left(printable(fit.variant.name)),
               right(show_bytes(fit.variant.device_bytes), Tone::kGood),
               right(show_count(fit.variant.device_bytes)),
               right(show_bytes(fit.outcome.peak_reserved_bytes)),
               right(show_count(fit.sizes_tried)),
               left(islands_text(fit))});
  }
  for (const std::string& name : report.misfits)
    table.add({left(printable(name)), left("fits no device", Tone::kBad)});
  out += table.text(paint);
  if (report.fits.empty()) {
    return out + "\nUnder none of them all requests are served on a device of 8 TiB.\n";
  }
  out += "\n" + wrapped(
                    "Each size is the least multiple of 2 MiB from which the program, as recorded, "
                    "ran on every larger size that was tried: all of the next 48, and ever coarser "
                    "ones up to the most that it holds where nothing is refused. Others' memory is "
                    "part of it" +
                        (report.fits.front().variant.outside_bytes == 0
                             ? std::string(" (none was recorded; the CUDA context comes on top).")
                             : ": " + show_bytes(report.fits.front().variant.outside_bytes) + "."),
                    kTextWidth,
                    0);
  if (const Fit* best = best_of(report)) {
    out += "\n" + paint(Tone::kTitle, "needs least: ") + printable(line_of(*best)) + "\n";
  } else {
    out += "\nNone of them needs less than the recorded settings.\n";
  }
  return out;
}

std::string fit_json(const FitReport& report, const InputNames& names) {
  Json root;
  root["schema"] = 1;
  root["fragscope"] = names.tool_version;
  root["input"] = {{"path", names.path},
                   {"kind", report.recording.kind},
                   {"events", report.recording.event_count},
                   {"writer", report.recording.writer}};
  root["device"] = report.device;
  root["verified"] = report.verification ? Json(!report.verification->first) : Json();
  root["doubts"] = report.program.doubts;
  root["fits"] = Json::array();
  for (const Fit& fit : report.fits) {
    root["fits"].push_back({{"name", fit.variant.name},
                            {"is_recorded", fit.variant.follows_program},
                            {"conf", fit.variant.options.conf.last_text},
                            {"smallest_device_bytes", fit.variant.device_bytes},
                            {"outside_bytes", fit.variant.outside_bytes},
                            {"islands_bytes", fit.islands},
                            {"sizes_tried", fit.sizes_tried},
                            {"dense_until_bytes", fit.dense_until},
                            {"sparse_until_bytes", fit.sparse_until},
                            {"peak_reserved_bytes", fit.outcome.peak_reserved_bytes},
                            {"peak_allocated_bytes", fit.outcome.peak_allocated_bytes}});
  }
  root["misfits"] = report.misfits;
  const Fit* best = best_of(report);
  root["environment"] = best == nullptr ? Json() : Json(line_of(*best));
  return root.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace fragscope::report
