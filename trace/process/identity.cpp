// SPDX-License-Identifier: Apache-2.0
#include "trace/process/identity.hpp"

#include "trace/ring/clock.hpp"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <system_error>

#include <sys/random.h>

namespace fragscope::trace {
namespace {

/// `process` as /proc names it.
std::optional<std::uint64_t> start_of_named(const std::string& process) {
  std::ifstream stat("/proc/" + process + "/stat");
  std::string line;
  std::getline(stat, line);
  // The name in brackets, the second field, may hold anything; the state behind it is the third.
  std::size_t at = line.rfind(')');
  if (at == std::string::npos) return std::nullopt;
  // A zombie has ended; only its parent has not asked yet.
  if (line.size() > at + 2 && line[at + 2] == 'Z') return std::nullopt;
  for (int field = 2; field < 22 && at != std::string::npos; ++field)
    at = line.find(' ', at + 1);
  if (at == std::string::npos) return std::nullopt;
  return std::strtoull(line.c_str() + at, nullptr, 10);
}

std::array<char, 16> some_id() {
  std::array<char, 16> id{};
  if (getrandom(id.data(), id.size(), GRND_NONBLOCK) == static_cast<ssize_t>(id.size())) return id;
  // Not random, but another one each time.
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  std::memcpy(id.data(), &now.tv_nsec, 8);
  std::memcpy(id.data() + 8, &now.tv_sec, 8);
  return id;
}

/// Plus 1; 0: none is known.
std::uint32_t this_rank() {
  for (const char* name : {"RANK", "LOCAL_RANK"}) {
    // Nothing of ours changes the environment.
    const char* text = std::getenv(name);  // NOLINT(concurrency-mt-unsafe)
    if (text == nullptr) continue;
    std::uint32_t rank = 0;
    const char* end = text + std::strlen(text);
    const auto [stop, error] = std::from_chars(text, end, rank);
    if (error == std::errc() && stop == end && rank < UINT32_MAX) return rank + 1;
  }
  return 0;
}

}  // namespace

std::optional<std::uint64_t> start_of(std::uint32_t pid) {
  return start_of_named(std::to_string(pid));
}

std::array<char, 16> this_boot() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  std::erase(text, '-');
  std::array<char, 16> id{};
  for (std::size_t i = 0; i < id.size() && 2 * i + 1 < text.size(); ++i)
    id[i] = static_cast<char>(std::strtoul(text.substr(2 * i, 2).c_str(), nullptr, 16));
  return id;
}

ProcessIdentity this_process() {
  ProcessIdentity identity;
  identity.pid = static_cast<std::uint32_t>(getpid());
  // Not by the pid: where /proc is of another pid namespace, that is somebody else there.
  identity.start_ticks = start_of_named("self").value_or(0);
  identity.boot_id = this_boot();
  identity.random_id = some_id();
  identity.rank = this_rank();
  return identity;
}

Header with_second_moment(Header header) {
  const bool has_one = header.last_anchor.ticks != header.first_anchor.ticks;
  // The counter and the monotonic clock are the machine's own: any moment since will do.
  if (!has_one && header.process.boot_id == this_boot()) {
    header.last_anchor = anchor_now(header.clock);
  }
  return header;
}

bool is_running(const ProcessIdentity& process) {
  return process.boot_id == this_boot() && start_of(process.pid) == process.start_ticks;
}

}  // namespace fragscope::trace
