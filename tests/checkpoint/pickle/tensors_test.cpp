#include "lockstep/checkpoint/pickle/tensors.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/pickle/writer.h"
#include "tests/checkpoint/values.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

Value read_tensor(const std::string& opcodes) {
  return read_pickle("'f'", as_bytes("\x80\x02" + opcodes + "."), [](const StorageName& name) {
    return storage_of(std::string(name.bytes, 'x'));
  });
}

// The arguments of a tensor of two elements, as a tuple.
std::string two_elements(const std::string& storage, const std::string& metadata) {
  return "((" + std::string("X\7\0\0\0storage", 12) + "ctorch\n" + storage + "\n" +
         std::string("X\1\0\0\0000X\3\0\0\0cpuK\2tQK\0K\2\x85K\1\x85\x89}", 28) + metadata + "t";
}

std::string dense(const std::string& storage, const std::string& metadata) {
  return "ctorch._utils\n_rebuild_tensor_v2\n" + two_elements(storage, metadata) + "R";
}

std::string with_attributes(const std::string& cls, const std::string& function) {
  return "ctorch._tensor\n_rebuild_from_type_v2\n(" + function + "c" + cls +
         two_elements("FloatStorage", "") + "}tR";
}

const std::string kConj = "}" + std::string("X\4\0\0\0conj\x88s", 11);
const std::string kNeg = "}" + std::string("X\3\0\0\0neg\x88s", 10);

TEST(RebuildTensor, NotesThatElementsAreConjugatesOrNegatives) {
  for (const auto& [bits, conj, neg] : {std::tuple(kConj, true, false), {kNeg, false, true}}) {
    const Value root = read_tensor(dense("ComplexFloatStorage", bits));
    const auto* tensor = root.get_if<Tensor>();
    EXPECT_EQ(tensor->is_conj, conj);
    EXPECT_EQ(tensor->is_neg, neg);
    EXPECT_FALSE(contiguous_bytes(*tensor).has_value());  // Its bytes are other numbers.
    const auto written = write_pickle(root, [](const Tensor&) { return "0"; });
    const Value again = read_tensor(written.substr(2, written.size() - 3));
    EXPECT_EQ(again.get_if<Tensor>()->is_conj, conj);
    EXPECT_EQ(again.get_if<Tensor>()->is_neg, neg);
  }
  for (const char* nothing : {"", "N", "}"}) {
    const Value root = read_tensor(dense("FloatStorage", nothing));
    EXPECT_FALSE(root.get_if<Tensor>()->is_conj || root.get_if<Tensor>()->is_neg) << nothing;
  }
}

TEST(RebuildTensor, OtherNotesAreRefused) {
  for (const auto& note : {std::string("K\1"), "}" + std::string("X\3\0\0\0neg\x89s", 10),
                           "}" + std::string("X\3\0\0\0new\x88s", 10), kConj}) {
    EXPECT_THAT([&] { read_tensor(dense("FloatStorage", note)); },
                ThrowsMessage<IoError>(HasSubstr("something else noted")))
        << note;
  }
}

TEST(RebuildTensor, ATensorWithAttributesIsTheTensor) {
  for (const char* cls : {"torch\nTensor\n", "torch.nn.parameter\nParameter\n"}) {
    const Value root = read_tensor(with_attributes(cls, "ctorch._utils\n_rebuild_tensor_v2\n"));
    EXPECT_EQ(root.get_if<Tensor>()->sizes, std::vector<std::int64_t>{2}) << cls;
  }
}

TEST(RebuildTensor, OtherClassesAndFunctionsAreRefused) {
  const std::string tensor = "torch\nTensor\n";
  for (const auto& [cls, function] :
       {std::pair(std::string("torch\nSize\n"), "ctorch._utils\n_rebuild_tensor_v2\n"),
        {tensor, "ctorch._tensor\n_rebuild_from_type_v2\n"},
        {tensor, "ctorch\ndevice\n"},
        {tensor, "N"}}) {
    EXPECT_THROW(read_tensor(with_attributes(cls, function)), IoError) << cls << function;
  }
}

TEST(RebuildTensor, SparseAndQuantizedTensorsAreNamedAndNotRead) {
  const Value sparse =
      read_tensor("ctorch._utils\n_rebuild_sparse_tensor\nctorch.serialization\n_get_layout\n" +
                  std::string("X\x10\0\0\0torch.sparse_coo", 21) + "\x85R)\x86R");
  EXPECT_EQ(sparse.get_if<OtherTensor>()->kind, "sparse");
  const Value quantized =
      read_tensor("ctorch._utils\n_rebuild_qtensor\n" + two_elements("QInt8Storage", "") + "R");
  EXPECT_EQ(quantized.get_if<OtherTensor>()->kind, "quantized");
  EXPECT_THAT([&] { write_pickle(sparse, [](const Tensor&) { return "0"; }); },
              ThrowsMessage<UsageError>(HasSubstr("to_dense()")));
}

}  // namespace
}  // namespace lockstep::checkpoint
