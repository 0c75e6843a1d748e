// SPDX-License-Identifier: Apache-2.0
#include "analyzer/stages/weights/model_weights.hpp"
#include "analyzer/stages/weights/safetensors.hpp"
#include "tests/support/result_matchers.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

namespace fragscope::stages::test {
namespace {

using ::fragscope::test::FailsWith;
using ::fragscope::test::IsOk;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

std::string length_of(std::uint64_t bytes) {
  std::string text;
  for (int i = 0; i < 8; ++i)
    text += static_cast<char>(bytes >> (8 * i) & 0xFF);
  return text;
}

/// A model folder that is gone after the test.
class WeightsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto* info = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              ("fragscope_weights_" + std::string(info->name()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  void write(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
  }
  void write_tensors(const std::string& name, const std::string& header, std::size_t data) const {
    write(name, length_of(header.size()) + header + std::string(data, '\0'));
  }
  [[nodiscard]] std::string folder() const { return folder_.string(); }
  [[nodiscard]] std::string path(const std::string& name) const {
    return (folder_ / name).string();
  }

 private:
  std::filesystem::path folder_;
};

TEST(WeightBound, MultipliesParametersByTheirFormat) {
  const auto bytes = [](const char* parameters, const char* format) {
    return bound_from_parameters(parameters, format)->bytes;
  };
  EXPECT_EQ(bytes("7B", "bf16"), 14'000'000'000U);
  EXPECT_EQ(bytes("70.6B", "FP8"), 70'600'000'000U);
  EXPECT_EQ(bytes("1000", "int4"), 500U);
  EXPECT_EQ(bytes("1001", "int4"), 501U);
  EXPECT_EQ(bytes("256", "q4_k"), 144U);
  EXPECT_EQ(bytes("1e9", "float32"), 4'000'000'000U);
}

TEST(WeightBound, RefusesWhatIsNoNumberOrNoFormat) {
  for (const char* parameters : {"", "B", "-7B", "nan", "inf", "7X", "1e99", "0"})
    EXPECT_THAT(bound_from_parameters(parameters, "bf16"), FailsWith(ErrorCode::kUsage));
  const auto unknown = bound_from_parameters("7B", "int5");
  ASSERT_THAT(unknown, FailsWith(ErrorCode::kUsage));
  EXPECT_THAT(unknown.error().message, HasSubstr("bf16"));
}

TEST(WeightBound, SaysWhatCannotHelpOnlyWhereItDoesNotFit) {
  const auto bound = bound_from_parameters("70B", "bf16");
  ASSERT_THAT(bound, IsOk());
  EXPECT_EQ(even_share(*bound, 3), 46'666'666'667U);
  EXPECT_EQ(why_it_cannot_fit(*bound, 2, 80'000'000'000U), std::nullopt);
  const auto reason = why_it_cannot_fit(*bound, 1, 80'000'000'000U);
  ASSERT_TRUE(reason);
  EXPECT_THAT(*reason, HasSubstr("130.39 GiB"));
  EXPECT_THAT(*reason, HasSubstr("cannot help"));
  EXPECT_THAT(why_it_cannot_fit(*bound, 2, 1'000'000'000U).value_or(""), HasSubstr("split evenly"));
}

TEST_F(WeightsTest, SumsTheHeadersOfAllFiles) {
  write_tensors("model-00001-of-00002.safetensors",
                R"({"__metadata__":{"format":"pt"},)"
                R"("a":{"dtype":"BF16","shape":[2,3],"data_offsets":[0,12]}})",
                12);
  write_tensors("model-00002-of-00002.safetensors",
                R"({"b":{"dtype":"F8_E4M3","shape":[5],"data_offsets":[0,5]},)"
                R"("c":{"dtype":"F32","shape":[],"data_offsets":[5,9]}})",
                9);
  write("model.safetensors.index.json", "not even JSON");

  const auto bound = bound_from_folder(folder());

  ASSERT_THAT(bound, IsOk());
  EXPECT_EQ(bound->bytes, 21U);
  ASSERT_THAT(bound->sources, SizeIs(2));
  EXPECT_EQ(bound->sources[0].source, "model-00001-of-00002.safetensors");
  EXPECT_EQ(bound->sources[0].bytes, 12U);
  EXPECT_EQ(bound->sources[1].tensors, 2U);
  EXPECT_EQ(bound->dtypes.front().dtype, "BF16");
  EXPECT_THAT(bound->notes, IsEmpty());
}

TEST_F(WeightsTest, CountsWhatIsStoredTwiceOnce) {
  const std::string narrow = R"({"a":{"dtype":"F16","shape":[4],"data_offsets":[0,8]}})";
  const std::string wide = R"({"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}})";
  write_tensors("model.fp16.safetensors", narrow, 8);
  write_tensors("model.safetensors", wide, 16);
  write_tensors("consolidated.safetensors",
                R"({"other_name":{"dtype":"F16","shape":[4],"data_offsets":[0,8]}})",
                8);

  const auto bound = bound_from_folder(folder());

  ASSERT_THAT(bound, IsOk());
  EXPECT_EQ(bound->bytes, 8U);
  EXPECT_THAT(bound->notes, SizeIs(2));
}

TEST_F(WeightsTest, FollowsTheConfiguration) {
  write_tensors("model.safetensors",
                R"({"model.embed_tokens.weight":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},)"
                R"("lm_head.weight":{"dtype":"F32","shape":[4],"data_offsets":[16,32]}})",
                32);
  write("config.json", R"({"torch_dtype":"bfloat16","tie_word_embeddings":true})");

  const auto bound = bound_from_folder(folder());

  ASSERT_THAT(bound, IsOk());
  EXPECT_EQ(bound->stored_bytes, 16U);
  EXPECT_EQ(bound->bytes, 8U);
  EXPECT_THAT(bound->notes, SizeIs(2));
}

TEST_F(WeightsTest, TakesAQuantisedModelAsItIsStored) {
  write("config.json", R"({"torch_dtype":"bfloat16","quantization_config":{"load_in_4bit":true}})");
  write_tensors("model.safetensors",
                R"({"w":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
                R"("scale":{"dtype":"F32","shape":[2],"data_offsets":[8,16]}})",
                16);
  EXPECT_EQ(bound_from_folder(folder())->bytes, 16U) << "packed already, with its scales";

  write_tensors(
      "model.safetensors", R"({"w":{"dtype":"F32","shape":[8],"data_offsets":[0,32]}})", 32);
  const auto bound = bound_from_folder(folder());
  EXPECT_EQ(bound->bytes, 4U) << "four bits each, once it is loaded";
  EXPECT_THAT(bound->notes, ElementsAre(HasSubstr("4 bits")));
}

TEST_F(WeightsTest, FollowsTheConfigurationOfTheTextModel) {
  write_tensors(
      "model.safetensors",
      R"({"lm.model.embed_tokens.weight":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},)"
      R"("lm.lm_head.weight":{"dtype":"F32","shape":[4],"data_offsets":[16,32]}})",
      32);
  write("config.json", R"({"text_config":{"tie_word_embeddings":true,"dtype":"bfloat16"}})");
  EXPECT_EQ(bound_from_folder(folder())->bytes, 8U);
}

TEST_F(WeightsTest, NotesAMissingFile) {
  const std::string header = R"({"a":{"dtype":"F16","shape":[4],"data_offsets":[0,8]}})";
  write_tensors("model-00001-of-00003.safetensors", header, 8);
  write_tensors("model-00003-of-00003.safetensors", header, 8);
  EXPECT_THAT(bound_from_folder(folder())->notes,
              ::testing::Contains(HasSubstr("1 of the 3 files model-*-of-00003.safetensors")));
}

TEST_F(WeightsTest, RefusesTensorsThatOverlap) {
  write_tensors("model.safetensors",
                R"({"a":{"dtype":"F16","shape":[4],"data_offsets":[0,8]},)"
                R"("b":{"dtype":"F16","shape":[4],"data_offsets":[6,14]}})",
                64);
  const auto bound = bound_from_folder(folder());
  ASSERT_THAT(bound, FailsWith(ErrorCode::kDamaged));
  EXPECT_THAT(bound.error().message, HasSubstr("'b': its data overlaps that of 'a'"));
}

TEST_F(WeightsTest, RefusesHostileHeaders) {
  const auto fails = [&](const std::string& bytes) {
    write("bad.safetensors", bytes);
    return read_safetensors_header(path("bad.safetensors"));
  };
  const auto with_header = [](const std::string& header) {
    return length_of(header.size()) + header + "12345678";
  };
  EXPECT_THAT(fails(""), FailsWith(ErrorCode::kDamaged));
  EXPECT_THAT(fails("1234567"), FailsWith(ErrorCode::kDamaged));
  EXPECT_THAT(fails(length_of(~std::uint64_t{0}) + "{}"), FailsWith(ErrorCode::kDamaged));
  EXPECT_THAT(fails(length_of(3) + "{}"), FailsWith(ErrorCode::kDamaged));
  constexpr const char* kOverlapping = R"({"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},)"
                                       R"("b":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}})";
  for (const char* header :
       {"[]",
        "{",
        R"({"a":1})",
        R"({"a":{"dtype":"F16","shape":[4],"data_offsets":[0,9]}})",
        R"({"a":{"dtype":"F16","shape":[4],"data_offsets":[8,0]}})",
        R"({"a":{"dtype":"F16","shape":[3],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":"F16","shape":[-4],"data_offsets":[0,8]}})",
        R"({"a":{"dtype":"F16","shape":[4],"data_offsets":[0,8.0]}})",
        R"({"a":{"dtype":"F16","shape":"4","data_offsets":[0,8]}})",
        R"({"a":{"dtype":"F16","shape":[4611686018427387904,64],"data_offsets":[0,8]}})",
        kOverlapping}) {
    EXPECT_THAT(fails(with_header(header)), FailsWith(ErrorCode::kDamaged)) << header;
  }
  std::string deep = "{\"a\":";
  for (int i = 0; i < 100000; ++i)
    deep += '[';
  EXPECT_THAT(fails(with_header(deep)), FailsWith(ErrorCode::kDamaged));
}

TEST_F(WeightsTest, SaysWhenThereIsNothingToRead) {
  EXPECT_THAT(bound_from_folder(folder()), FailsWith(ErrorCode::kForeign));
  EXPECT_THAT(bound_from_folder(path("missing")), FailsWith(ErrorCode::kUnreadable));
  std::filesystem::create_directory(path("x.safetensors"));
  EXPECT_THAT(bound_from_folder(folder()), FailsWith(ErrorCode::kUnreadable));
}

}  // namespace
}  // namespace fragscope::stages::test
