// SPDX-License-Identifier: Apache-2.0
// Any bytes as a log, all the way to the reports: nothing may crash, hang or overflow, what is
// printed is clean text, and hiding names changes no verdict.
#include "analyzer/explain/explainer.hpp"
#include "analyzer/explain/redaction.hpp"
#include "analyzer/report/explain/diagnostic_record.hpp"
#include "analyzer/report/explain/explain_json.hpp"
#include "analyzer/report/explain/explain_text.hpp"
#include "analyzer/report/terminal.hpp"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

namespace {

using fragscope::explain::Explanation;
using fragscope::explain::Message;

// Not an assert: it has to hold in every kind of build.
void must(bool condition) {
  if (!condition) std::abort();
}

void report_all(const Explanation& explanation) {
  const std::string text = fragscope::report::explain_text(
      explanation, "input", fragscope::report::Paint(/*colour=*/false));
  must(text.find('\x1b') == std::string::npos);
  must(fragscope::report::diagnostic_record(explanation, "input", {}, std::nullopt).size() <
       64U << 10);
  const std::string json = fragscope::report::explain_json(explanation, "0", "input", std::nullopt);
  must(json.find('\n') == std::string::npos);
}

/// A figure is an interval, and the text in front of a message is a part of its text.
void check(const Message& message) {
  const auto& f = message.figures;
  for (const auto& bounds : {f.request,
                             f.tensor,
                             f.total,
                             f.free,
                             f.allocated,
                             f.reserved,
                             f.gap,
                             f.private_pools,
                             f.limit,
                             f.process,
                             f.other_allocations}) {
    must(!bounds || bounds->low <= bounds->high);
  }
  must(message.line > 0 && message.count > 0);
  must(message.lead <= message.text.size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view log(reinterpret_cast<const char*>(data), size);
  const Explanation explanation = fragscope::explain::explain_log_text(log);
  for (const auto& report : explanation.reports)
    check(report.message);
  report_all(explanation);

  const Explanation redacted = fragscope::explain::redacted(explanation);
  must(redacted.reports.size() == explanation.reports.size());
  for (std::size_t i = 0; i < redacted.reports.size(); ++i) {
    must(redacted.reports[i].finding.kind == explanation.reports[i].finding.kind);
  }
  report_all(redacted);
  return 0;
}
