#include "lockstep/checkpoint/read.h"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "tests/checkpoint/values.h"

namespace lockstep::checkpoint {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(ReadDocument, TellsTheFormats) {
  const auto format_of = [](const std::string& file) {
    return read_document("f", as_bytes(file)).format;
  };
  EXPECT_EQ(format_of(pt_bytes(small_checkpoint())), Format::kLockstep);
  EXPECT_EQ(format_of(seed("pt/torchvision.pt")), Format::kTorch);
  EXPECT_EQ(format_of(seed("safetensors/two.safetensors")), Format::kSafetensors);
  EXPECT_EQ(format_of(seed("safetensors/none.safetensors")), Format::kSafetensors);
}

TEST(ReadDocument, OldFilesAreRefusedWithTheLineThatConvertsThem) {
  std::string tar(512, '\0');
  tar.replace(257, 5, "ustar");
  const std::string pickle =
      "\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.";  // torch's magic number.
  for (const std::string& file : {tar, pickle}) {
    EXPECT_THAT(
        [&] { read_document("old.pt", as_bytes(file)); },
        ThrowsMessage<IoError>(HasSubstr("torch.save(torch.load(sys.argv[1], map_location='cpu', "
                                         "weights_only=False)")));
    EXPECT_THAT([&] { read_document("a'; rm x", as_bytes(file)); },  // One word of a shell.
                ThrowsMessage<IoError>(EndsWith("'new.pt')\" 'a'\\''; rm x'")));
  }
}

TEST(ReadDocument, APickleWithoutTorchsNumberIsConvertedByPickle) {
  for (const char* file : {"\x80\x04\x95.", "\x80\x02}q."}) {
    EXPECT_THAT(
        [&] { read_document("old.pt", as_bytes(file)); },
        ThrowsMessage<IoError>(HasSubstr("torch.save(pickle.load(open(sys.argv[1], 'rb'))")));
  }
}

TEST(ReadDocument, SomethingElseIsNoCheckpoint) {
  for (const char* file : {"", "PK", "text that is no checkpoint"}) {
    EXPECT_THAT([&] { read_document("f", as_bytes(file)); },
                ThrowsMessage<IoError>(HasSubstr("'f' is no checkpoint")));
  }
}

TEST(ReadCheckpoint, LinksAndFoldersAreRefusedAndMissingFilesNamed) {
  const auto folder =
      std::filesystem::temp_directory_path() / ("read_test" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  std::ofstream(folder / "a.pt", std::ios::binary) << pt_bytes(small_checkpoint());
  std::filesystem::create_symlink("a.pt", folder / "link.pt");
  EXPECT_EQ(floats(read_checkpoint(folder / "a.pt").root.find("model")->find("bias")).at(0), 4);
  EXPECT_THAT([&] { read_checkpoint(folder / "link.pt"); },
              ThrowsMessage<IoError>(HasSubstr("link.pt': it is a link")));
  EXPECT_THAT([&] { read_checkpoint(folder); }, ThrowsMessage<IoError>(HasSubstr("is a folder")));
  EXPECT_THAT([&] { read_checkpoint(folder / "none.pt"); },
              ThrowsMessage<IoError>(HasSubstr("none.pt': No such file")));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace lockstep::checkpoint
