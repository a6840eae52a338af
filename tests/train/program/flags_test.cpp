#include "lockstep/train/program/flags.h"

#include <gmock/gmock.h>

#include <fstream>

#include "lockstep/base/error.h"
#include "tests/train/loop/toys.h"

namespace lockstep::train {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

CommandLine parse(std::vector<std::string> words) {
  words.insert(words.begin(), "train");
  std::vector<const char*> argv;
  for (const auto& word : words) {
    argv.push_back(word.c_str());
  }
  return parse_command_line(static_cast<int>(argv.size()), argv.data());
}

TEST(TrainFlags, TimmsAndTorchvisionsNamesMeanTheSame) {
  EXPECT_EQ(parse({"d", "--wd", "0.5"}).train.weight_decay, 0.5);
  EXPECT_EQ(parse({"d", "--label-smoothing", "0.5"}).train.smoothing, 0.5);
  EXPECT_EQ(parse({"--data-path", "d"}).train.data, "d");
  EXPECT_EQ(parse({"--decay-milestones", "3,6"}).train.decay_milestones,
            (std::vector<std::int64_t>{3, 6}));
}

TEST(TrainFlags, DriversFlagsOfTheMission) {
  const auto job =
      parse({"--nodes", "2", "--gpus", "4", "--nr", "1", "--epochs", "9", "--local_rank=3"}).job;
  EXPECT_EQ(job.nodes, 2);
  EXPECT_EQ(job.nproc, 4);
  EXPECT_EQ(job.node_rank, 1);
}

TEST(TrainFlags, TheTimeToSaveIsKeptInTheConfigFile) {
  EXPECT_EQ(parse({"--shutdown-timeout", "90"}).job.shutdown_timeout_seconds, 90);
  EXPECT_THAT(to_toml(JobConfig{.shutdown_timeout_seconds = 90}),
              HasSubstr("shutdown-timeout = 90"));
  EXPECT_THAT(to_toml(JobConfig{}), testing::Not(HasSubstr("shutdown")));
}

TEST(TrainFlags, TheLastOfTwoWins) {
  EXPECT_EQ(parse({"--epochs", "3", "--epochs", "4"}).train.epochs, 4);
}

TEST(TrainFlags, FlagsWinOverTheConfigFile) {
  const toys::Folder folder;
  TrainConfig config{.data = "photos", .epochs = 7, .decay_milestones = {1, 2}, .model_ema = true};
  std::ofstream(folder.path + "/config.toml") << to_toml(config) << to_toml(JobConfig{.nproc = 3});
  const auto read = parse({"--config", folder.path + "/config.toml", "--epochs", "8"});
  EXPECT_EQ(read.train.epochs, 8);
  EXPECT_EQ(read.job.nproc, 3);
  config.epochs = 8;
  EXPECT_EQ(to_toml(read.train), to_toml(config));
}

TEST(TrainFlags, WrongOnesNameTheNearest) {
  EXPECT_THAT([] { parse({"--batchsize", "3"}); },
              ThrowsMessage<UsageError>(HasSubstr("HINT: --batch-size")));
  EXPECT_THAT([] { parse({"--epochs", "many"}); },
              ThrowsMessage<UsageError>(HasSubstr("--epochs")));
  EXPECT_THAT([] { parse({"a", "b"}); }, ThrowsMessage<UsageError>(HasSubstr("what is 'b'?")));
  const toys::Folder folder;
  std::ofstream(folder.path + "/config.toml") << "epoch = 3\n";
  EXPECT_THROW(parse({"--config", folder.path + "/config.toml"}), UsageError);
  EXPECT_THROW(parse({"--config", folder.path + "/missing.toml"}), UsageError);
}

}  // namespace
}  // namespace lockstep::train
