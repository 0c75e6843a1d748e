// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/commands/commands.hpp"
#include "analyzer/cli/output.hpp"
#include "analyzer/recording/byte_size.hpp"
#include "analyzer/recording/plural.hpp"
#include "analyzer/report/frame_text.hpp"
#include "trace/file/drain.hpp"
#include "trace/process/descriptor.hpp"
#include "trace/process/ring_directory.hpp"
#include "trace/ring/ring_file.hpp"
#include "trace/ring/ring_reader.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <sys/stat.h>

namespace fragscope::cli {
namespace {

struct RecordArguments {
  std::string ring;
  std::string output;
  bool zstd = false;
  bool once = false;
  bool force = false;
};

// Short against the time in which a full-speed writer comes round: a million records take some 20
// ms to write, and a ring holds a quarter of that.
constexpr auto kPause = std::chrono::milliseconds(1);
/// How often the writer is looked for.
constexpr auto kLook = std::chrono::milliseconds(100);

volatile std::sig_atomic_t stop_asked = 0;

void ask_to_stop(int) {
  stop_asked = 1;
}

Error refusal(ErrorCode code, const std::string& path, std::string message) {
  Error error;
  error.code = code;
  error.source = path;
  error.message = std::move(message);
  return error;
}

/// Makes room for the file at `path`. Nothing is shortened in place: what lies there may be a ring
/// or a file that somebody has mapped, who would be killed for it.
Result<void> clear_output(const RecordArguments& arguments) {
  struct stat old {};
  struct stat ring {};
  if (::stat(arguments.output.c_str(), &old) != 0) return {};
  const bool is_ring = ::stat(arguments.ring.c_str(), &ring) == 0 && ring.st_dev == old.st_dev &&
                       ring.st_ino == old.st_ino;
  if (is_ring) {
    return tl::unexpected(
        refusal(ErrorCode::kUsage, arguments.output, "is the ring itself; name another file"));
  }
  // A device or a pipe has nothing to overwrite.
  if (!arguments.force || !S_ISREG(old.st_mode)) return {};
  if (::unlink(arguments.output.c_str()) == 0) return {};
  return tl::unexpected(system_error(arguments.output, "cannot be overwritten"));
}

Result<Descriptor> open_output(const RecordArguments& arguments) {
  if (arguments.output == "-") return Descriptor(STDOUT_FILENO);
  if (const auto cleared = clear_output(arguments); !cleared) {
    return tl::unexpected(cleared.error());
  }
  const int exclusive = arguments.force ? 0 : O_EXCL;
  const int file =
      ::open(arguments.output.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC | exclusive, 0600);
  if (file >= 0) return Descriptor(file);
  if (errno == EEXIST) {
    return tl::unexpected(
        refusal(ErrorCode::kUsage, arguments.output, "is there already (--force overwrites it)"));
  }
  return tl::unexpected(system_error(arguments.output, "cannot be made"));
}

/// Whatever else lies under a ring's name is not waited for.
Result<trace::RingFile> open_ring(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) {
    return tl::unexpected(system_error(path, "cannot be opened"));
  }
  if (!S_ISREG(status.st_mode) || status.st_size == 0) {
    return tl::unexpected(refusal(ErrorCode::kForeign,
                                  path,
                                  S_ISREG(status.st_mode) ? "expected a ring, found an empty file"
                                  : S_ISDIR(status.st_mode)
                                      ? "expected a ring, found a directory"
                                      : "expected a ring, found something that is no file"));
  }
  auto ring = trace::RingFile::open(path);
  if (!ring) return ring;
  const auto reader = trace::RingReader::open(ring->bytes());
  if (reader) return ring;
  Error error = reader.error();
  error.source = path;
  return tl::unexpected(std::move(error));
}

/// Drains until the writer is gone, or somebody asks to stop. Gives whether the writer is gone.
Result<bool> follow(trace::Drain& drain, const RecordArguments& arguments) {
  auto next_look = std::chrono::steady_clock::now();
  for (;;) {
    const auto now = std::chrono::steady_clock::now();
    bool is_gone = false;
    if (now >= next_look) {
      next_look = now + kLook;
      is_gone = trace::writer_state(arguments.ring, drain.header()) != trace::WriterState::kAlive;
    }
    const auto taken = drain.pump();
    if (!taken) return tl::unexpected(taken.error());
    if (is_gone || arguments.once || stop_asked != 0) return is_gone;
    if (*taken == 0) std::this_thread::sleep_for(kPause);
  }
}

Result<void> record(const RecordArguments& arguments) {
  // Nothing is made or overwritten before the ring is known to be one.
  const auto ring = open_ring(arguments.ring);
  if (!ring) return tl::unexpected(ring.error());
  const auto output = open_output(arguments);
  if (!output) return tl::unexpected(output.error());
  const auto codec = arguments.zstd ? trace::ChunkCodec::kZstd : trace::ChunkCodec::kPlain;
  auto drain = trace::Drain::begin(ring->bytes(), codec, [&](std::span<const std::byte> bytes) {
    return write_all(output->number(), arguments.output, bytes);
  });
  if (!drain) {
    Error error = drain.error();
    // What could not be written names its file.
    if (error.source.empty()) error.source = arguments.ring;
    return tl::unexpected(std::move(error));
  }
  const auto is_gone = follow(*drain, arguments);
  if (!is_gone) return tl::unexpected(is_gone.error());
  if (auto ended = drain->finish(*is_gone); !ended) return ended;

  const trace::ReadCounts& counts = drain->counts();
  fmt::print(stderr,
             "{}: {}, {} overwritten before they were read, {} torn, {} damaged; {}\n",
             report::printable(arguments.output),
             model::plural(counts.records, "record", "records"),
             model::show_count(counts.overwritten),
             counts.torn,
             counts.damaged,
             model::show_bytes(drain->written_bytes()));
  return {};
}

int run_record(const RecordArguments& arguments) {
  struct sigaction action {};
  action.sa_handler = ask_to_stop;
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
  const Result<void> done = record(arguments);
  return done ? kDone : complain(done.error());
}

}  // namespace

void add_record_command(CLI::App& app, std::function<int()>& run) {
  auto arguments = std::make_shared<RecordArguments>();
  CLI::App* command = app.add_subcommand(
      "record",
      "Drain a ring into a trace file while the job runs, until it ends or Ctrl-C; the job is not "
      "touched");
  command->add_option("--from", arguments->ring, "The ring; `fragscope rings` lists them")
      ->required();
  command->add_option("-o,--output", arguments->output, "Trace file to make; - is standard output")
      ->required();
  command->add_flag("--zstd", arguments->zstd, "Compress; about a sixth of the size");
  command->add_flag("--once", arguments->once, "Take what is there now, and end");
  command->add_flag("--force", arguments->force, "Overwrite the file");
  command->callback([arguments, &run] { run = [arguments] { return run_record(*arguments); }; });
}

}  // namespace fragscope::cli
