#include "lockstep/train/program/wrong_flags.h"

#include <gmock/gmock.h>

#include <fstream>

#include "lockstep/base/error.h"
#include "tests/train/program/parse.h"
#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(WrongFlags, AValueThatIsMissingDoesNotTakeTheNextFlag) {
  EXPECT_THAT([] { parse({"--output=", "--dry-run"}); },
              ::testing::ThrowsMessage<UsageError>(HasSubstr("--output has no value after '='")));
  EXPECT_EQ(parse({"--output=a=b"}).train.output, "a=b");
}

// `lockstep train "$DATA"` without the variable would train on something else.
TEST(WrongFlags, EmptyDataAreRefused) {
  for (const auto& words : {std::vector<std::string>{""}, {"--data-dir", ""}}) {
    EXPECT_THAT([&] { parse(words); }, ThrowsMessage<UsageError>(HasSubstr("the data is ''")));
  }
  EXPECT_EQ(parse({}).train.data, "");
}

TEST(WrongFlags, DataThatAreGivenTwiceAreRefused) {
  EXPECT_THAT([] { parse({"photos", "--data-dir", "other"}); },
              ThrowsMessage<UsageError>(HasSubstr("the data is 'photos' and 'other'")));
  EXPECT_THAT([] { parse({"photos", "--data-dir=other", "--data-path", "photos"}); },
              ThrowsMessage<UsageError>(HasSubstr("the data is 'photos' and 'other'")));
  EXPECT_EQ(parse({"photos", "--data-dir", "photos"}).train.data, "photos");
  EXPECT_EQ(parse({"--data-dir", "photos", "--data-dir", "other"}).train.data, "other");
}

TEST(WrongFlags, WrongOnesNameTheNearest) {
  EXPECT_THAT([] { parse({"--batchsize", "3"}); },
              ThrowsMessage<UsageError>(HasSubstr("HINT: --batch-size")));
  EXPECT_THAT([] { parse({"--epochs", "many"}); },
              ThrowsMessage<UsageError>(HasSubstr("--epochs is 'many', expected a whole number")));
  EXPECT_THAT([] { parse({"--epochs", "99999999999"}); },
              ThrowsMessage<UsageError>(HasSubstr("a whole number of at most 2147483647")));
  EXPECT_THAT([] { parse({"--lr", "fast"}); },
              ThrowsMessage<UsageError>(HasSubstr("--lr is 'fast', expected a number")));
  EXPECT_THAT([] { parse({"--nproc", "two"}); },
              ThrowsMessage<UsageError>(HasSubstr("--nproc is 'two', expected a whole number")));
  EXPECT_THAT([] { parse({"--decay-milestones", "3,x"}); },
              ThrowsMessage<UsageError>(HasSubstr("--decay-milestones is 'x'")));
  EXPECT_THAT([] { parse({"a", "b"}); }, ThrowsMessage<UsageError>(HasSubstr("what is 'b'?")));
  const toys::Folder folder;
  std::ofstream(folder.path + "/config.toml") << "epoch = 3\n";
  EXPECT_THROW(parse({"--config", folder.path + "/config.toml"}), UsageError);
  EXPECT_THROW(parse({"--config", folder.path + "/missing.toml"}), UsageError);
}

TEST(WrongFlags, FaultsInAConfigFileNameTheFileAndTheKey) {
  const toys::Folder folder;
  const auto file = folder.path + "/config.toml";
  const auto text = [&](const std::string& content) {
    std::ofstream(file) << content;
    try {
      parse({"--config", file});
    } catch (const UsageError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(text("epochs = 3\nbatchsize = 3\n"),
              ::testing::AllOf(HasSubstr("--config " + file + ": there is no flag 'batchsize'"),
                               HasSubstr("HINT: batch-size = ..., as --batch-size")));
  EXPECT_THAT(text("epochs = many\n"),
              ::testing::AllOf(HasSubstr("--config " + file + ": 'epochs' is 'many'"),
                               HasSubstr("HINT: ")));
  EXPECT_EQ(text("epochs = 3\n"), "");
  EXPECT_THAT([&] { parse({"--config", folder.path + "/confg.toml"}); },
              ThrowsMessage<UsageError>(HasSubstr("HINT: --config " + file)));
  EXPECT_THAT([&] { parse({"--config", file, "--seed", "x"}); },
              ThrowsMessage<UsageError>(::testing::Not(HasSubstr(file))))
      << "the command line's fault";
}

}  // namespace
}  // namespace lockstep::train
