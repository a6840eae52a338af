#include "lockstep/checkpoint/pickle/reader.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/checkpoint/values.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

std::shared_ptr<const Storage> any_storage(const StorageName& name) {
  return storage_of(std::string(name.bytes, 'x'));
}

Value read_opcodes(const std::string& opcodes) {
  return read_pickle("'f'", as_bytes("\x80\x02" + opcodes), any_storage);
}

void expect_refused(const std::string& opcodes, const std::string& what) {
  EXPECT_THAT([&] { read_opcodes(opcodes); }, ThrowsMessage<IoError>(HasSubstr(what))) << opcodes;
}

TEST(ReadPickle, ReadsEveryKindThatTorchWrites) {
  const std::string content = seed("pickle/kinds.pkl");
  const Value root = read_pickle("'f'", as_bytes(content), any_storage);
  const auto integers = root.find("ints")->get_if<Tuple>()->items;
  const std::vector<std::int64_t> expected{
      0, 255, 256, 65536, -1, -(std::int64_t{1} << 40), std::int64_t{1} << 62};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(*integers[i].get_if<std::int64_t>(), expected[i]);
  }
  EXPECT_TRUE(root.find("none")->is_none());
  EXPECT_EQ(*root.find("float")->get_if<double>(), 0.1);
  EXPECT_EQ(root.find("text")->get_if<std::string>()->size(), 6U);
  EXPECT_EQ(root.find("bytes")->get_if<Bytes>()->content, std::string("\0\x80\xFF", 3));
  EXPECT_EQ(root.find("dtype")->get_if<Other>()->text, "float16");
  EXPECT_EQ(root.find("device")->get_if<Other>()->text, "cpu");
  const auto* view = root.find("view")->get_if<Tensor>();
  EXPECT_EQ(view->sizes, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(view->strides, (std::vector<std::int64_t>{1, 3}));
  EXPECT_TRUE(root.find("parameter")->get_if<Tensor>()->requires_grad);
  EXPECT_EQ(root.find("untyped")->get_if<Tensor>()->dtype, DType::kUInt16);
  EXPECT_EQ(root.find("float8")->get_if<Tensor>()->dtype, DType::kFloat8E4M3fn);
}

TEST(ReadPickle, ANamespaceIsADictionary) {
  const std::string content = seed("pickle/torchvision.pkl");
  const Value root = read_pickle("'f'", as_bytes(content), any_storage);
  EXPECT_EQ(*root.find("args")->find("model")->get_if<std::string>(), "resnet18");
  EXPECT_TRUE(root.find("args")->find("resume")->is_none());
  EXPECT_EQ(root.find("args")->find("device")->get_if<Other>()->text, "cuda:0");
}

// Each runs a command when Python's own unpickler reads it.
TEST(ReadPickle, MaliciousPicklesAreRefused) {
  const std::string text("X\x02\x00\x00\x00id", 7);
  for (const char* name :
       {"os\nsystem\n", "posix\nsystem\n", "subprocess\nPopen\n", "builtins\neval\n",
        "__builtin__\nexec\n", "builtins\ngetattr\n", "torch\nload\n", "torch.hub\nload\n",
        "torch._utils\n_import_dotted_name\n", "runpy\n_run_code\n", "operator\nattrgetter\n",
        "functools\npartial\n", "numpy.f2py.crackfortran\nparam_eval\n"}) {
    expect_refused("c" + std::string(name) + text + "\x85R.", "nothing was executed");     // REDUCE
    expect_refused("c" + std::string(name) + text + "\x85\x81.", "nothing was executed");  // NEWOBJ
    expect_refused("(c" + std::string(name) + text + "o.", "nothing was executed");        // OBJ
    expect_refused("(" + text + "i" + std::string(name) + ".", "nothing was executed");    // INST
  }
  expect_refused(text + text + "\x93.", "the opcode 147");                        // STACK_GLOBAL
  expect_refused("cos\nsystem\n" + text + "\x85}\x92.", "nothing was executed");  // NEWOBJ_EX
  expect_refused("\x82\x01.", "the opcode 130");                                  // EXT1
  expect_refused(std::string("\x83\x01\0.", 4), "the opcode 131");                // EXT2
  expect_refused(std::string("\x84\x01\0\0\0.", 6), "the opcode 132");            // EXT4
  expect_refused("Pos.system\n.", "the opcode 80");                               // PERSID
  expect_refused(text + "Q.", "names a storage in another way");                  // BINPERSID
  // BUILD: attributes of something that has none, or a class in the place of an object.
  expect_refused("cargparse\nNamespace\n}b.", "sets attributes");
  expect_refused("]}b.", "sets attributes");
  // REDUCE: a value in the place of a function, and classes that are no functions.
  expect_refused(text + text + "\x85R.", "no known function");
  expect_refused("cargparse\nNamespace\n)R.", "cannot be called");
  expect_refused("ctorch\nFloatStorage\n)R.", "cannot be called");
  expect_refused("ccollections\nOrderedDict\n)\x81.", "not argparse.Namespace");
}

TEST(ReadPickle, EveryOtherOpcodeIsRefused) {
  const std::string known =
      "N\x88\x89JKM\x8aGX()]}t\x85\x86\x87"
      "aesuqrhjcQR\x81"
      "b.";
  for (int opcode = 0; opcode < 256; ++opcode) {
    if (known.find(static_cast<char>(opcode)) == std::string::npos) {
      expect_refused(std::string(1, static_cast<char>(opcode)),
                     "the opcode " + std::to_string(opcode) + ",");
    }
  }
}

TEST(ReadPickle, OpcodesWithoutTheirOperandsAreRefused) {
  const std::string opcodes =
      "\x85\x86\x87"
      "aesutR\x81"
      "bQ.";
  for (const char opcode : opcodes) {
    expect_refused(std::string(1, opcode), "not there");
    expect_refused("N(" + std::string(1, opcode), "");  // What is before a mark is not theirs.
  }
  expect_refused("h\x05", "number 5 of the memo");
  expect_refused("q\x05", "not there");
  expect_refused("N", "an opcode");
  expect_refused("NN.", "left behind its end");
  expect_refused("N.N", "left behind its end");
  expect_refused("](K\x01u.", "adds items");
  expect_refused("}(K\x01u.", "a key without a value");
  expect_refused("X\xFF\xFF\xFF\xFFx", "needs 4294967295 bytes for text");
}

TEST(ReadPickle, OtherProtocolsAreRefused) {
  for (const char* protocol : {"\x80\x01N.", "\x80\x04N.", "N."}) {
    EXPECT_THAT([&] { read_pickle("'f'", as_bytes(protocol), any_storage); },
                ThrowsMessage<IoError>(HasSubstr("protocol 2")));
  }
  EXPECT_TRUE(read_pickle("'f'", as_bytes("\x80\x03N."), any_storage).is_none());
}

TEST(ReadPickle, TensorsThatLeaveTheirStorageAreRefused) {
  // A storage of two floats, and three elements of it.
  const std::string content =
      "ctorch._utils\n_rebuild_tensor_v2\n((" + std::string("X\7\0\0\0storage", 12) +
      "ctorch\nFloatStorage\n" +
      std::string("X\1\0\0\0000X\3\0\0\0cpuK\2tQK\0K\3\x85K\1\x85\x89}tR.", 31);
  EXPECT_THAT([&] { read_opcodes(content); },
              ThrowsMessage<IoError>(
                  AllOf(HasSubstr("element 2 of a storage of 2"), HasSubstr("at byte"))));
}

// A few bytes of a pickle that name much of it again.
TEST(ReadPickle, CopiesThatWouldFillMemoryAreRefused) {
  constexpr int kTimes = 3000;
  const auto repeated = [](const std::string& once) {
    std::string text;
    for (int i = 0; i < kTimes; ++i) {
      text += once;
    }
    return text;
  };
  const std::string length("\x00\x40\x00\x00", 4);  // 16 KiB of text.
  const std::string text = "X" + length + std::string(0x4000, 'x') + "q" + std::string(1, '\0');
  const std::string latin1 = std::string("X\6\0\0\0latin1q\1", 13);
  expect_refused(
      text + latin1 + "(c_codecs\nencode\nq\2" + repeated(std::string("h\2h\0h\1\x86R", 8)) + "e.",
      "bytes of memory");
  // Objects that all have the attributes of one dictionary.
  std::string many = "(";
  for (int i = 0; i < 8000; ++i) {
    many += "NN";
  }
  expect_refused("}q" + std::string(1, '\0') + many + "u" + "cargparse\nNamespace\nq\1" +
                     repeated(std::string("h\1)\x81h\0b", 7)) + ".",
                 "bytes of memory");
}

TEST(ReadPickle, EveryShorterPickleIsRefused) {
  const std::string content = seed("pickle/kinds.pkl");
  for (std::size_t size = 0; size < content.size(); ++size) {
    EXPECT_THROW(
        read_pickle("'f'", as_bytes(std::string_view(content).substr(0, size)), any_storage),
        IoError)
        << size;
  }
}

TEST(ReadPickle, IntegersBeyond64BitsAreShownOnly) {
  const Value root = read_opcodes("\x8a\x09" + std::string(8, '\0') + "\x01.");
  EXPECT_EQ(root.get_if<Other>()->text, "of 9 bytes");
}

}  // namespace
}  // namespace lockstep::checkpoint
