// SPDX-License-Identifier: Apache-2.0
// A job for tests to watch, kill and disturb: runs a random program on a simulated device, recorded
// into a ring. Prints the ring's path, then a line for each thing that happens.
#include "tests/recorder/recorded_program.hpp"

#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include <sys/wait.h>

namespace {

struct Arguments {
  std::string directory = "/dev/shm";
  std::uint32_t seed = 1;
  std::uint64_t steps = 1000;
  std::uint64_t records = std::uint64_t{1} << 14;
  std::string end = "clean";  // clean, kill (SIGKILL), fail (a request that cannot be served)
  bool forks = false;         // a child goes on with the program, which must leave no record
  bool uses = false;          // who uses the device is said, at the start and at that failure
  bool waits = false;         // for a line on standard input, before the end
};

Arguments parse(int argc, char** argv) {
  Arguments arguments;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name = argv[i];
    const char* value = argv[i + 1];
    if (name == "--directory") arguments.directory = value;
    if (name == "--seed") arguments.seed = static_cast<std::uint32_t>(std::atoi(value));
    if (name == "--steps") arguments.steps = std::strtoull(value, nullptr, 10);
    if (name == "--records") arguments.records = std::strtoull(value, nullptr, 10);
    if (name == "--end") arguments.end = value;
    if (name == "--forks") arguments.forks = std::atoi(value) != 0;
    if (name == "--uses") arguments.uses = std::atoi(value) != 0;
    if (name == "--waits") arguments.waits = std::atoi(value) != 0;
  }
  return arguments;
}

void say(const char* what, const std::string& value) {
  std::printf("%s %s\n", what, value.c_str());
  std::fflush(stdout);
}

/// Made up; the simulated device is this program's alone.
void say_who_uses_it(fragscope::recorder::test::RecordedProgram& program) {
  using fragscope::recorder::ProcessOnDevice;
  const ProcessOnDevice processes[] = {{7, std::uint64_t{1} << 30, false, "python"},
                                       {8, std::nullopt, false, ""},
                                       {9, std::uint64_t{2} << 30, true, ""}};
  const auto capacity = program.policy().failure().capacity;
  if (program.recorder() != nullptr) program.recorder()->device_use(capacity, processes, "");
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse(argc, argv);
  fragscope::recorder::test::RecordedProgram program(
      arguments.seed, arguments.directory, {.records = arguments.records, .table_bytes = 1 << 18});
  say("ring", program.ring_path());
  if (arguments.uses && program.recorder() != nullptr) {
    program.recorder()->fact("driver", "570.1");
    program.recorder()->fact("nvml", "present");
    say_who_uses_it(program);
  }
  program.run(arguments.steps);
  if (arguments.forks) {
    const pid_t child = fork();
    if (child == 0) {
      program.run(arguments.steps);
      std::exit(0);
    }
    waitpid(child, nullptr, 0);
  }
  if (arguments.waits) {
    say("ready", std::to_string(getpid()));
    static_cast<void>(std::getchar());
  }
  const bool fails = arguments.end == "fail" || arguments.end == "fail-kill";
  if (fails) program.allocate(std::uint64_t{1} << 41);
  if (fails && arguments.uses) say_who_uses_it(program);
  if (program.recorder() != nullptr) {
    say("written", std::to_string(program.recorder()->header().written));
  }
  if (arguments.end == "kill" || arguments.end == "fail-kill") raise(SIGKILL);
  return 0;
}
