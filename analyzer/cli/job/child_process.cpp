// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/job/child_process.hpp"

#include <fmt/format.h>

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <system_error>

#include <sys/resource.h>
#include <sys/wait.h>

namespace fragscope::cli {
namespace {

/// Those by which somebody tells a job something.
constexpr std::array kHandedOn = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

std::atomic<pid_t> the_child = 0;
static_assert(std::atomic<pid_t>::is_always_lock_free, "it is read in a signal handler");

void hand_on(int signal, siginfo_t* information, void* /*context*/) {
  // What the kernel sends, as for Ctrl-C, reaches the child by itself.
  const bool is_from_a_process = information->si_code <= 0;
  const pid_t child = the_child.load();
  if (is_from_a_process && child > 0) ::kill(child, signal);
}

sigset_t handed_on() {
  sigset_t set{};
  sigemptyset(&set);
  for (const int signal : kHandedOn)
    sigaddset(&set, signal);
  return set;
}

void listen() {
  for (const int signal : kHandedOn) {
    struct sigaction old {};
    ::sigaction(signal, nullptr, &old);
    // What was ignored stays so, here and in the child, as under nohup.
    if (old.sa_handler == SIG_IGN) continue;
    struct sigaction action {};
    action.sa_sigaction = hand_on;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    ::sigaction(signal, &action, nullptr);
  }
}

std::vector<std::string> merged_environment(const Environment& added) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    bool is_replaced = false;
    for (const auto& [name, value] : added)
      is_replaced = is_replaced || text.starts_with(fmt::format("{}=", name));
    if (!is_replaced) merged.push_back(text);
  }
  for (const auto& [name, value] : added)
    merged.push_back(fmt::format("{}={}", name, value));
  return merged;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (std::string& text : texts)
    all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

}  // namespace

Result<ChildProcess> ChildProcess::start(const std::vector<std::string>& command,
                                         const Environment& added) {
  std::vector<std::string> arguments = command;
  std::vector<std::string> environment = merged_environment(added);

  // Until the child is known, nothing that is meant for it may come.
  const sigset_t signals = handed_on();
  sigset_t mask{};
  ::pthread_sigmask(SIG_BLOCK, &signals, &mask);
  listen();
  posix_spawnattr_t attributes{};
  ::posix_spawnattr_init(&attributes);
  sigset_t to_default{};
  sigemptyset(&to_default);
  sigaddset(&to_default, SIGPIPE);  // Ignored by this program, which is not the job's wish.
  ::posix_spawnattr_setsigdefault(&attributes, &to_default);
  ::posix_spawnattr_setsigmask(&attributes, &mask);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid,
                                   arguments.front().c_str(),
                                   nullptr,
                                   &attributes,
                                   pointers(arguments).data(),
                                   pointers(environment).data());
  ::posix_spawnattr_destroy(&attributes);
  if (error == 0) the_child = pid;
  ::pthread_sigmask(SIG_SETMASK, &mask, nullptr);
  if (error == 0) return ChildProcess(pid);
  auto failed = failure(error == ENOENT ? ErrorCode::kUsage : ErrorCode::kUnreadable,
                        "cannot be run: " + std::generic_category().message(error));
  failed.value().source = command.front();
  return failed;
}

bool ChildProcess::has_ended() {
  if (has_ended_) return true;
  const pid_t ended = ::waitpid(pid_, &status_, WNOHANG);
  // An error leaves nothing to wait for.
  has_ended_ = ended == pid_ || (ended < 0 && errno != EINTR);
  if (has_ended_) the_child = 0;
  return has_ended_;
}

std::string ChildProcess::end_text() const {
  if (WIFSIGNALED(status_)) {
    const int signal = WTERMSIG(status_);
    const char* name = ::sigdescr_np(signal);
    return fmt::format("signal {} ({})", signal, name == nullptr ? "unknown" : name);
  }
  return fmt::format("exit code {}", WEXITSTATUS(status_));
}

int ChildProcess::end_like_it() const {
  if (!WIFSIGNALED(status_)) return WEXITSTATUS(status_);
  const int signal = WTERMSIG(status_);
  // The child's core is the one of interest.
  const rlimit none{};
  ::setrlimit(RLIMIT_CORE, &none);
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
  sigset_t set{};
  sigemptyset(&set);
  sigaddset(&set, signal);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(signal);
  return 128 + signal;
}

}  // namespace fragscope::cli
