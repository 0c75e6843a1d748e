// SPDX-License-Identifier: Apache-2.0
// Every fixture, read from its file: the accepted ones give the version and the end that
// fixtures/README.md names, the bad ones a refusal of the right kind, in one line and at once.
#include "analyzer/ingest/byte_source.hpp"
#include "analyzer/ingest/torch_snapshot.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace fragscope::ingest {
namespace {

using model::Recording;

Result<Recording> read_file(const std::string& path) {
  return ByteSource::open(path).and_then(
      [](ByteSource source) { return read_torch_snapshot(source.bytes()); });
}

std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  std::size_t begin = 2;  // behind "| "
  for (std::size_t end = row.find(" | ", begin); end != std::string::npos;
       end = row.find(" | ", begin)) {
    cells.push_back(row.substr(begin, end - begin));
    begin = end + 3;
  }
  return cells;
}

/// The column "looks like" of fixtures/README.md, by file: "2.6". Files without one are left out.
std::map<std::string, std::string> versions_of_fixtures() {
  std::map<std::string, std::string> versions;
  std::ifstream page("fixtures/README.md");
  std::string line;
  while (std::getline(page, line)) {
    if (!line.starts_with("| `")) continue;
    const std::vector<std::string> cells = cells_of(line);
    if (cells.size() < 3 || cells[2] == "-") continue;
    versions[cells[0].substr(1, cells[0].size() - 2)] = cells[2];
  }
  return versions;
}

/// The minor version behind the first "2." at or after `from`; -1 if there is none.
int minor_after(const std::string& text, std::size_t from = 0) {
  const std::size_t at = text.find("2.", from);
  return at == std::string::npos ? -1 : std::stoi(text.substr(at + 2));
}

/// Whether "PyTorch 2.5 to 2.7" includes "2.6".
bool includes(const std::string& writer, const std::string& version) {
  if (writer == "PyTorch 1.13 or earlier") return version.starts_with("1.");
  if (!version.starts_with("2.") || !writer.starts_with("PyTorch 2.")) return false;
  const int minor = minor_after(version);
  const int low = minor_after(writer);
  if (writer.ends_with(" or later")) return minor >= low;
  const std::size_t to = writer.find(" to ");
  const int high = to == std::string::npos ? low : minor_after(writer, to);
  return low <= minor && minor <= high;
}

TEST(Fixtures, AllAreReadAndDatedAsTheirPageSays) {
  const auto versions = versions_of_fixtures();
  ASSERT_GE(versions.size(), 60U);
  for (const auto& [name, version] : versions) {
    const auto recording = read_file("fixtures/" + name);
    ASSERT_TRUE(recording) << name << ": " << recording.error().describe();
    EXPECT_TRUE(includes(recording->writer, version))
        << name << " looks like " << version << ", taken for " << recording->writer;
  }
}

TEST(Fixtures, TheEraIsNarrowedDownToTheMarksThatItsPageNames) {
  const std::map<std::string, std::string> expected = {
      {"era_1_12_list", "PyTorch 1.13 or earlier"},
      {"era_1_13_list_history", "PyTorch 1.13 or earlier"},
      {"era_2_0_history", "PyTorch 2.0"},
      {"era_2_1_frames", "PyTorch 2.1"},
      {"era_2_2_time", "PyTorch 2.2"},
      {"era_2_3_settings", "PyTorch 2.3 to 2.4"},
      {"era_2_5_annotations", "PyTorch 2.5 to 2.7"},
      {"era_2_8_compile_context", "PyTorch 2.8 to 2.9"},
      {"era_2_10_user_metadata", "PyTorch 2.10 to 2.11"},
      {"era_2_12_pool_id", "PyTorch 2.12 to 2.13"},
      {"era_2_15_host", "PyTorch 2.14 or later"},
  };
  for (const auto& [name, writer] : expected) {
    const auto recording = read_file("fixtures/" + name + ".pickle");
    ASSERT_TRUE(recording) << name;
    EXPECT_EQ(recording->writer, writer) << name;
  }
}

// One program in every format: reserved 630 MiB, allocated 512 MiB + 32 KiB, pending 12 MiB.
TEST(Fixtures, EveryEraEndsInTheSameState) {
  for (const auto& entry : std::filesystem::directory_iterator("fixtures")) {
    const std::string name = entry.path().filename();
    if (!name.starts_with("era_") && !name.starts_with("compressed_")) continue;
    const auto recording = read_file(entry.path());
    ASSERT_TRUE(recording) << name;

    std::uint64_t reserved = 0;
    std::map<model::BlockState, std::uint64_t> by_state;
    for (const model::Segment& segment : recording->segments) {
      EXPECT_EQ(segment.device, 0) << name;
      reserved += segment.size_bytes;
      for (const model::Block& block : recording->blocks_of(segment))
        by_state[block.state] += block.size_bytes;
    }
    EXPECT_EQ(reserved, 630ULL << 20) << name;
    EXPECT_EQ(by_state[model::BlockState::kLive], (512ULL << 20) + (32ULL << 10)) << name;
    EXPECT_EQ(by_state[model::BlockState::kPending], 12ULL << 20) << name;
    EXPECT_EQ(recording->has_requested_sizes, !name.starts_with("era_1_")) << name;
  }
}

struct Refusal {
  std::string_view name;
  ErrorCode code;
};

void PrintTo(const Refusal& refusal, std::ostream* out) {
  *out << refusal.name;
}

using enum ErrorCode;

constexpr Refusal kRefusals[] = {
    {"append_to_dict.pickle", kDamaged},
    {"block_sums_overflow.pickle", kContradictory},
    {"blocks_beyond_segment.pickle", kContradictory},
    {"blocks_out_of_order.pickle", kContradictory},
    {"blocks_overlap.pickle", kContradictory},
    {"blocks_short_of_segment.pickle", kContradictory},
    {"bomb_in_string.pickle.zst", kTooLarge},
    {"bomb_of_zeros.pickle.zst", kTooLarge},
    {"build.pickle", kForeign},
    {"cut.pickle.gz", kDamaged},
    {"cut.pickle.zst", kDamaged},
    {"cut_before_stop.pickle", kDamaged},
    {"cut_between_opcodes.pickle", kDamaged},
    {"cut_inside_opcode.pickle", kDamaged},
    {"deep_lists.pickle", kForeign},
    {"deep_nesting.pickle", kDamaged},
    {"deep_nesting.pickle.gz", kDamaged},
    {"device_huge.pickle", kContradictory},
    {"device_minus_five.pickle", kContradictory},
    {"dict_in_itself.pickle", kForeign},
    {"empty.pickle", kDamaged},
    {"entry_size_negative.pickle", kDamaged},
    {"entry_size_wraps.pickle", kDamaged},
    {"entry_without_action.pickle", kForeign},
    {"entry_without_size.pickle", kDamaged},
    {"global_os_system.pickle", kForeign},
    {"huge_long.pickle", kForeign},
    {"huge_memo_index.pickle", kForeign},
    {"huge_string.pickle", kForeign},
    {"json.pickle", kForeign},
    {"list_as_key.pickle", kForeign},
    {"list_in_itself.pickle", kForeign},
    {"mark_as_value.pickle", kDamaged},
    {"mark_underflow.pickle", kDamaged},
    {"memo_bomb.pickle", kForeign},
    {"missing_memo.pickle", kDamaged},
    {"negative_long.pickle", kForeign},
    {"negative_size.pickle", kDamaged},
    {"no_blocks.pickle", kForeign},
    {"no_segments.pickle", kForeign},
    {"not_utf8.pickle", kForeign},
    {"odd_setitems.pickle", kDamaged},
    {"other_dict.pickle", kForeign},
    {"persistent_id.pickle", kForeign},
    {"png.pickle", kForeign},
    {"protocol_9.pickle", kForeign},
    {"reduce.pickle", kForeign},
    {"root_in_itself.pickle", kForeign},
    {"root_is_int.pickle", kForeign},
    {"root_is_string.pickle", kForeign},
    {"root_list_of_ints.pickle", kForeign},
    {"segment_sums_overflow.pickle", kDamaged},
    {"segment_twice.pickle", kContradictory},
    {"segments_is_dict.pickle", kForeign},
    {"segments_is_int.pickle", kForeign},
    {"segments_overlap.pickle", kContradictory},
    {"setitem_on_list.pickle", kDamaged},
    {"size_beyond_64_bits.pickle", kForeign},
    {"size_is_float.pickle", kDamaged},
    {"size_is_string.pickle", kDamaged},
    {"stack_global.pickle", kForeign},
    {"stop_on_empty_stack.pickle", kDamaged},
    {"stop_with_two_values.pickle", kDamaged},
    {"string_beyond_end.pickle", kDamaged},
    {"text.pickle", kForeign},
    {"text.pickle.zst", kForeign},
    {"trace_of_ints.pickle", kForeign},
    {"traces_is_dict.pickle", kForeign},
    {"tuple_underflow.pickle", kDamaged},
    {"unknown_class.pickle", kDamaged},
    {"unknown_opcode.pickle", kDamaged},
    {"unknown_state.pickle", kDamaged},
    {"wrong_checksum.pickle.gz", kDamaged},
    {"zero_size_block.pickle", kContradictory},
    {"zeros.pickle", kForeign},
    {"zip.pickle", kForeign},
};

class BadFixture : public ::testing::TestWithParam<Refusal> {};

TEST_P(BadFixture, IsRefusedAtOnceInOneLine) {
  const auto& [name, code] = GetParam();

  const auto start = std::chrono::steady_clock::now();
  const auto recording = read_file("fixtures/bad/" + std::string(name));
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;

  ASSERT_FALSE(recording) << "accepted";
  EXPECT_EQ(recording.error().code, code) << recording.error().describe();
  EXPECT_EQ(recording.error().describe().find('\n'), std::string::npos);
  EXPECT_LT(recording.error().describe().size(), 300U);
  EXPECT_LT(spent.count(), 20.0);  // a tenth of a second, but sanitizers are slow
}

std::string test_name(const ::testing::TestParamInfo<BadFixture::ParamType>& info) {
  std::string name(info.param.name);
  std::ranges::replace(name, '.', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(All, BadFixture, ::testing::ValuesIn(kRefusals), test_name);

TEST(Fixtures, NoBadOneIsLeftOut) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator("fixtures/bad")) {
    ++files;
    const std::string name = entry.path().filename();
    EXPECT_TRUE(std::ranges::count(kRefusals, name, &Refusal::name) == 1)
        << entry.path() << " has no expected refusal in this test";
  }
  EXPECT_EQ(files, std::size(kRefusals));
}

}  // namespace
}  // namespace fragscope::ingest
