#include "lockstep/train/session/output_folder.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "lockstep/base/error.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::train {
namespace {

TEST(OutputFolder, BelowAFileIsRefused) {
  const test::TemporaryFolder folder;
  const auto file = folder.path + "/file";
  std::ofstream(file) << "text";
  for (const auto& output : {file, file + "/below/it"}) {
    EXPECT_THAT([&] { require_output_folder(output); },
                ::testing::ThrowsMessage<UsageError>(
                    ::testing::HasSubstr("'" + file + "' is no folder, expected one")))
        << output;
  }
  EXPECT_NO_THROW(require_output_folder(folder.path + "/new/one"));
  EXPECT_NO_THROW(require_output_folder("new"));
  EXPECT_NO_THROW(require_output_folder(""));
}

TEST(OutputFolder, WhetherOneCanBeMadeIsKnownWithoutMakingIt) {
  const test::TemporaryFolder folder;
  EXPECT_EQ(why_no_folder_in(folder.path + "/new/one"), "");
  EXPECT_FALSE(std::filesystem::exists(folder.path + "/new"));
  EXPECT_EQ(why_no_folder_in("/proc/runs"), "'/proc' is the kernel's, where no folder can be made");
}

}  // namespace
}  // namespace lockstep::train
