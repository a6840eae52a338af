#include "lockstep/checkpoint/safetensors.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/checkpoint/values.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::string file_of(std::string header, const std::string& data) {
  std::string file(8, '\0');
  file[0] = static_cast<char>(header.size());
  file[1] = static_cast<char>(header.size() >> 8);
  return file + header + data;
}

void expect_bad_header(const std::string& header, const std::string& data, const char* what) {
  const std::string file = file_of(header, data);
  EXPECT_THAT([&] { read_safetensors("f", as_bytes(file), nullptr); },
              ThrowsMessage<IoError>(HasSubstr(what)))
      << header;
}

std::string safetensors_of(const Value& root) {
  std::string file;
  write_safetensors(root, [&](std::span<const std::byte> bytes) { file += as_text(bytes); });
  return file;
}

TEST(Safetensors, AreReadAsTheyWereWritten) {
  Tensor flags = tensor_of({1});
  flags.dtype = DType::kInt8;
  flags.sizes = {4};
  const Value root = Dict{{"__metadata__", Dict{{"format", "pt"}}},
                          {"flags", flags},
                          {"weight", tensor_of({1, 2})},
                          {"empty", tensor_of({})}};
  const std::string file = safetensors_of(root);
  const Value read = read_safetensors("f", as_bytes(file), nullptr);
  EXPECT_THAT(floats(read.find("weight")), ElementsAre(1, 2));
  EXPECT_EQ(read.find("flags")->get_if<Tensor>()->dtype, DType::kInt8);
  EXPECT_EQ(*read.find("__metadata__")->find("format")->get_if<std::string>(), "pt");
  EXPECT_EQ(safetensors_of(read), file);
  EXPECT_TRUE(looks_like_safetensors(as_bytes(file)));
}

TEST(Safetensors, HeadersThatLieAreRefused) {
  const auto entry = [](const char* dtype, const char* shape, const char* offsets) {
    return std::string(R"({"w":{"dtype":")") + dtype + R"(","shape":)" + shape +
           R"(,"data_offsets":)" + offsets + "}}";
  };
  expect_bad_header(entry("F32", "[2]", "[0,4]"), "abcd", "as many as its shape has");
  expect_bad_header(entry("F32", "[1]", "[0,4]"), "abc", "as many as its shape has");
  expect_bad_header(entry("F32", "[1]", "[0,4]"), "abcde", "1 bytes that belong to no tensor");
  expect_bad_header(entry("F32", "[1]", "[1,5]"), "abcde", "expected it where the one before ends");
  expect_bad_header(entry("F32", "[1]", "[4,0]"), "abcd", "as many as");
  expect_bad_header(entry("F33", "[1]", "[0,4]"), "abcd", "of type 'F33'");
  expect_bad_header(entry("", "[1]", "[0,4]"), "abcd", "of type ''");
  expect_bad_header(entry("F32", "[-1]", "[0,4]"), "abcd", "without dtype, shape");
  expect_bad_header(entry("F32", "[1.0]", "[0,4]"), "abcd", "without dtype, shape");
  expect_bad_header(entry("F32", "[4611686018427387904,4]", "[0,0]"), "", "as many as");
  expect_bad_header(entry("F32", "[0,4611686018427387904,4611686018427387904]", "[0,0]"), "",
                    "as many as");  // Its strides would not fit.
  expect_bad_header(entry("F32", "[18446744073709551615]", "[0,0]"), "", "as many as");
  expect_bad_header(entry("F32", "[1]", "[0,4,8]"), "abcd", "without dtype, shape");
  expect_bad_header(R"({"w":1})", "", "without dtype, shape");
  expect_bad_header(R"({"__metadata__":{"a":1}})", "", "__metadata__");
  expect_bad_header(R"({"__metadata__":[1]})", "", "__metadata__");
  expect_bad_header("[]", "", "no JSON object");
  expect_bad_header("{", "", "no JSON object");
  expect_bad_header(R"({"a":)" + std::string(30000, '[') + std::string(30000, ']') + "}", "",
                    "no JSON object");
}

TEST(Safetensors, TwoTensorsInOnePlaceAreRefused) {
  const std::string place = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  expect_bad_header(R"({"a":)" + place + R"(,"b":)" + place + "}", "abcd", "where the one before");
}

TEST(Safetensors, ANameTwiceIsRefused) {
  const auto place = [](int at) {
    return R"({"dtype":"F32","shape":[1],"data_offsets":[)" + std::to_string(at) + "," +
           std::to_string(at + 4) + "]}";
  };
  // A reader that takes the last of them would see a file without a hole.
  expect_bad_header(R"({"a":)" + place(4) + R"(,"a":)" + place(0) + "}", "abcd", "'a' twice");
  expect_bad_header(R"({"a":{"dtype":"I8","dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
                    "abcd", "'dtype' twice");
  EXPECT_THAT([] { safetensors_of(Dict{{"w", tensor_of({1})}, {"w", tensor_of({2})}}); },
              ThrowsMessage<UsageError>(HasSubstr("two tensors 'w'")));
  EXPECT_THAT([] { safetensors_of(Dict{{"\xFF", tensor_of({1})}}); },
              ThrowsMessage<UsageError>(HasSubstr("cannot be written")));
}

TEST(Safetensors, AHeaderLongerThanTheFileIsRefused) {
  const std::string file = std::string("\x10\0\0\0\0\0\0\0", 8) + "{}";
  EXPECT_THAT([&] { read_safetensors("f", as_bytes(file), nullptr); },
              ThrowsMessage<IoError>(HasSubstr("needs 16 bytes for the header, has 2")));
  const std::string huge = std::string(8, '\xFF') + "{}";
  EXPECT_THAT([&] { read_safetensors("f", as_bytes(huge), nullptr); },
              ThrowsMessage<IoError>(HasSubstr("expected at most 100000000")));
}

TEST(Safetensors, OnlyContiguousTensorsAreWritten) {
  Tensor other = tensor_of({1, 2});
  other.strides = {0};
  EXPECT_THAT([&] { safetensors_of(Dict{{"w", other}}); },
              ThrowsMessage<UsageError>(HasSubstr("'w' of type float32 is not contiguous")));
  EXPECT_THAT([&] { safetensors_of(Dict{{"w", 1}}); },
              ThrowsMessage<UsageError>(HasSubstr("'w' is an integer, expected a tensor")));
  EXPECT_THAT([&] { safetensors_of(Dict{{"__metadata__", tensor_of({1})}}); },
              ThrowsMessage<UsageError>(HasSubstr("'__metadata__' is a tensor, expected")));
  EXPECT_THAT([&] { safetensors_of(Value(1)); },
              ThrowsMessage<UsageError>(HasSubstr("dictionary")));
}

}  // namespace
}  // namespace lockstep::checkpoint
