// SPDX-License-Identifier: Apache-2.0
#include "bench/child_process.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <chrono>

#include <sys/resource.h>
#include <sys/wait.h>

namespace fragscope::bench {

Child run_child(const std::vector<std::string>& arguments) {
  Child child;
  std::array<int, 2> pipe_ends{};
  if (::pipe2(pipe_ends.data(), O_CLOEXEC) != 0) return child;
  std::vector<char*> argv;
  for (const std::string& argument : arguments)
    argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  const auto start = std::chrono::steady_clock::now();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::dup2(pipe_ends[1], STDOUT_FILENO);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }
  ::close(pipe_ends[1]);
  std::array<char, 65536> chunk{};
  for (ssize_t got = 0; (got = ::read(pipe_ends[0], chunk.data(), chunk.size())) > 0;) {
    child.output.append(chunk.data(), static_cast<std::size_t>(got));
  }
  ::close(pipe_ends[0]);
  int status = 0;
  struct rusage usage {};
  if (pid < 0 || ::wait4(pid, &status, 0, &usage) != pid) return child;
  child.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  child.peak_bytes = static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
  if (WIFEXITED(status)) child.exit_code = WEXITSTATUS(status);
  return child;
}

}  // namespace fragscope::bench
