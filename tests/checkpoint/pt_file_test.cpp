#include "lockstep/checkpoint/pt_file.h"

#include <gmock/gmock.h>

#include <random>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/zip/reader.h"
#include "tests/checkpoint/values.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

PtFile read_file_of(const std::string& file) { return read_pt("f.pt", as_bytes(file), nullptr); }

TEST(PtFile, IsReadAsItWasWritten) {
  const std::string file = pt_bytes(small_checkpoint());
  const PtFile pt = read_file_of(file);
  EXPECT_TRUE(pt.is_ours);
  EXPECT_THAT(floats(pt.root.find("model")->find("weight")), ElementsAre(1, 2, 3));
  EXPECT_EQ(*pt.root.find("epoch")->get_if<std::int64_t>(), 3);
  EXPECT_EQ(pt_bytes(pt.root), file);
}

TEST(PtFile, TensorsThatShareAStorageStillDo) {
  const Tensor whole = tensor_of({1, 2, 3, 4});
  Tensor part = whole;
  part.sizes = {2};
  part.offset = 2;
  const std::string file = pt_bytes(Dict{{"whole", whole}, {"part", part}});
  const PtFile pt = read_file_of(file);
  EXPECT_THAT(floats(pt.root.find("part")), ElementsAre(3, 4));
  EXPECT_EQ(pt.root.find("part")->get_if<Tensor>()->storage,
            pt.root.find("whole")->get_if<Tensor>()->storage);
}

// A file that is refused when it is needed is lost work.
TEST(PtFile, WhatCouldNotBeReadIsNotWritten) {
  const auto expect = [](const Value& root, const char* what) {
    std::string file;
    const Sink sink = [&](std::span<const std::byte> bytes) { file += as_text(bytes); };
    EXPECT_THAT([&] { write_pt(root, sink); },
                ThrowsMessage<UsageError>(AllOf(HasSubstr("is not written"), HasSubstr(what))));
    EXPECT_EQ(file, "") << what;
  };
  expect(Dict{{"a", 1}, {"a", 2}}, "twice in a dictionary");
  Value deep;
  for (int i = 0; i < 102; ++i) {
    deep = List{deep};
  }
  expect(deep, "deeper than 100");
  Tensor tensor = tensor_of({1});
  tensor.sizes = tensor.strides = std::vector<std::int64_t>(65, 1);
  expect(tensor, "has a tensor");
  tensor = tensor_of({1});
  tensor.offset = 1;
  expect(tensor, "element 1 of a storage of 1");
  tensor = tensor_of({1});
  tensor.storage = storage_of("12345");
  expect(tensor, "expected whole elements");
  expect(std::string((std::size_t{64} << 20) + 1, 'x'), "expected at most");
}

TEST(PtFile, StoragesThatAreNotAlignedAreCopiedOnce) {
  const Tensor whole = tensor_of({1, 2, 3, 4});
  const std::string file = "x" + pt_bytes(Dict{{"a", whole}, {"b", whole}});
  const PtFile pt = read_pt("f.pt", as_bytes(file).subspan(1), nullptr);
  const auto* one = pt.root.find("a")->get_if<Tensor>();
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(one->storage->bytes.data()) % 16, 0U);
  EXPECT_EQ(one->storage, pt.root.find("b")->get_if<Tensor>()->storage);
  EXPECT_THAT(floats(pt.root.find("b")), ElementsAre(1, 2, 3, 4));
}

// Up to the record that torch numbers each file with, and the directory.
TEST(PtFile, WritesTheBytesOfTorchSave) {
  for (const char* name : {"pt/one.pt", "pt/kinds.pt"}) {
    const std::string torch = seed(name);
    const std::string ours = pt_bytes(read_file_of(torch).root, {.manifest = false});
    if (std::string_view(name) == "pt/one.pt") {
      const std::size_t end = torch.find("archive/.data/serialization_id") - 30;
      EXPECT_EQ(ours.substr(0, end), torch.substr(0, end)) << name;
    }
    EXPECT_EQ(pt_bytes(read_file_of(ours).root, {.manifest = false}), ours) << name;
  }
}

TEST(PtFile, EveryFlippedBitIsSeen) {
  const std::string file = pt_bytes(small_checkpoint());
  for (std::size_t i = 0; i < file.size() * 8; ++i) {
    std::string flipped = file;
    flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ (1 << (i % 8)));
    EXPECT_THROW(read_file_of(flipped), IoError) << "bit " << i % 8 << " of byte " << i / 8;
  }
}

TEST(PtFile, TenThousandRandomFlipsOfALargerFileAreSeen) {
  std::mt19937 random(1);
  Dict model;
  for (int i = 0; i < 20; ++i) {
    model.push_back({"layer" + std::to_string(i), tensor_of(std::vector<float>(100, 1.5F))});
  }
  const std::string file = pt_bytes(Dict{{"model", model}});
  for (int i = 0; i < 10'000; ++i) {
    std::string flipped = file;
    for (unsigned bits = random() % 3 + 1; bits > 0; --bits) {
      const std::size_t at = random() % file.size();
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << random() % 8));
    }
    if (flipped != file) {  // Two flips may undo each other.
      ASSERT_THROW(read_file_of(flipped), IoError) << i;
    }
  }
}

TEST(PtFile, ShorterAndLongerFilesAreRefused) {
  const std::string file = pt_bytes(small_checkpoint());
  for (std::size_t size = 0; size < file.size(); ++size) {
    EXPECT_THROW(read_file_of(file.substr(0, size)), IoError) << size;
  }
  EXPECT_THROW(read_file_of(file + "x"), IoError);
  EXPECT_THROW(read_file_of(file + file), IoError);
}

TEST(PtFile, ADamagedTensorIsNamed) {
  std::string file = pt_bytes(small_checkpoint());
  const std::size_t at = file.find(std::string("\x00\x00\x80\x40", 4));  // 4.0, the bias.
  file[at] = 1;
  EXPECT_THAT([&] { read_file_of(file); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("'f.pt' is damaged"), HasSubstr("'data/1'"),
                                           HasSubstr("(tensor 'model.bias')"),
                                           HasSubstr("at byte " + std::to_string(at)))));
}

TEST(PtFile, ADamagedFileOfTorchIsRefusedByItsOwnSums) {
  std::string file = seed("pt/one.pt");
  file[file.find(std::string("\x00\x00\x80\x3F", 4))] = 1;
  EXPECT_THAT([&] { read_file_of(file); },
              ThrowsMessage<IoError>(AllOf(HasSubstr("(tensor 'a')"), HasSubstr("set_crc32"))));
}

TEST(PtFile, OtherArchivesAreRefusedWithWhatTheyAre) {
  const auto archive = [](const std::vector<std::string>& names) {
    std::string file;
    ZipWriter zip([&](std::span<const std::byte> bytes) { file += as_text(bytes); }, "x");
    for (const auto& name : names) {
      zip.add(name, as_bytes("\x80\x02N."));
    }
    zip.finish(0);
    return file;
  };
  EXPECT_THAT([&] { read_file_of(archive({"a"})); },
              ThrowsMessage<IoError>(HasSubstr("without a record 'data.pkl'")));
  EXPECT_THAT([&] { read_file_of(archive({"data.pkl", "constants.pkl"})); },
              ThrowsMessage<IoError>(HasSubstr("TorchScript archive")));
  EXPECT_THAT([&] { read_file_of(archive({"data.pkl", "byteorder"})); },
              ThrowsMessage<IoError>(HasSubstr("big-endian")));
}

// docs/internals/checkpoint_format.md shows these bytes.
TEST(PtFile, IsAsItsDocumentShows) {
  const std::string file =
      pt_bytes(Dict{{"model", Dict{{"w", tensor_of({1})}}}, {"epoch", 3}}, {.folder = "a"});
  const ZipFile zip = read_zip("f", as_bytes(file));
  std::string shown;
  for (const ZipRecord& record : zip.records) {
    shown += std::to_string(record.offset) + " " + std::to_string(record.bytes.size()) + " " +
             std::string(record.name) + "\n";
  }
  EXPECT_EQ(shown,
            "64 193 data.pkl\n384 1 .format_version\n512 2 .storage_alignment\n576 6 byteorder\n"
            "640 4 data/0\n704 2 version\n832 159 .lockstep/manifest\n");
  EXPECT_EQ(as_text(zip.find(".lockstep/manifest")->bytes),
            "lockstep checkpoint 1\nf3901e61 193 data.pkl\n90f599e3 1 .format_version\n"
            "2f99eacd 2 .storage_alignment\nfe0bcca3 6 byteorder\ndd54c4ab 4 data/0\n"
            "ee2ae5f0 2 version\n");
  EXPECT_EQ(zip.comment, "lockstep-crc32c 0ff31b3e");
  EXPECT_EQ(file.size(), 1546U);
}

}  // namespace
}  // namespace lockstep::checkpoint
