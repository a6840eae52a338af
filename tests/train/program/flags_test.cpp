#include "lockstep/train/program/flags.h"

#include <gmock/gmock.h>

#include <fstream>

#include "lockstep/base/error.h"
#include "tests/train/program/parse.h"
#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(TrainFlags, TimmsAndTorchvisionsNamesMeanTheSame) {
  EXPECT_EQ(parse({"d", "--wd", "0.5"}).train.weight_decay, 0.5);
  EXPECT_EQ(parse({"d", "--label-smoothing", "0.5"}).train.smoothing, 0.5);
  EXPECT_EQ(parse({"--data-path", "d"}).train.data, "d");
  EXPECT_EQ(parse({"--decay-milestones", "3,6"}).train.decay_milestones,
            (std::vector<std::int64_t>{3, 6}));
}

struct Alias {
  std::string flag;
  std::string value;  // Empty: it takes none.
  bool (*is_set)(const CommandLine& line);
};

// timm's and torchvision's other names, and PyTorch's launcher's.
const std::vector<Alias> kAliases{
    {"--data-path", "d", [](const CommandLine& line) { return line.train.data == "d"; }},
    {"--img-size", "96", [](const CommandLine& line) { return line.train.input_size == 96; }},
    {"--train-crop-size", "96",
     [](const CommandLine& line) { return line.train.input_size == 96; }},
    {"-j", "3", [](const CommandLine& line) { return line.train.workers == 3; }},
    {"--initial-checkpoint", "a.pt",
     [](const CommandLine& line) { return line.train.init_weights == "a.pt"; }},
    {"-b", "7", [](const CommandLine& line) { return line.train.batch_size == 7; }},
    {"--grad-accum-steps", "4", [](const CommandLine& line) { return line.train.grad_accum == 4; }},
    {"--optimizer", "adam", [](const CommandLine& line) { return line.train.opt == "adam"; }},
    {"--learning-rate", "0.5", [](const CommandLine& line) { return line.train.lr == 0.5; }},
    {"--wd", "0.5", [](const CommandLine& line) { return line.train.weight_decay == 0.5; }},
    {"--lr-scheduler", "step", [](const CommandLine& line) { return line.train.sched == "step"; }},
    {"--lr-warmup-epochs", "2",
     [](const CommandLine& line) { return line.train.warmup_epochs == 2; }},
    {"--lr-min", "0.5", [](const CommandLine& line) { return line.train.min_lr == 0.5; }},
    {"--lr-step-size", "7", [](const CommandLine& line) { return line.train.decay_epochs == 7; }},
    {"--dr", "0.5", [](const CommandLine& line) { return line.train.decay_rate == 0.5; }},
    {"--lr-gamma", "0.5", [](const CommandLine& line) { return line.train.decay_rate == 0.5; }},
    {"--clip-grad-norm", "0.5",
     [](const CommandLine& line) { return line.train.clip_grad == 0.5; }},
    {"--label-smoothing", "0.5",
     [](const CommandLine& line) { return line.train.smoothing == 0.5; }},
    {"--mixup-alpha", "0.5", [](const CommandLine& line) { return line.train.mixup == 0.5; }},
    {"--cutmix-alpha", "0.5", [](const CommandLine& line) { return line.train.cutmix == 0.5; }},
    {"--random-erase", "0.5", [](const CommandLine& line) { return line.train.reprob == 0.5; }},
    {"--deterministic", "", [](const CommandLine& line) { return line.train.deterministic; }},
    {"--output-dir", "here", [](const CommandLine& line) { return line.train.output == "here"; }},
    {"--print-freq", "9", [](const CommandLine& line) { return line.train.log_interval == 9; }},
    {"--test-only", "", [](const CommandLine& line) { return line.train.eval_only; }},
    {"--gpus", "3", [](const CommandLine& line) { return line.job.nproc == 3; }},
    {"-g", "3", [](const CommandLine& line) { return line.job.nproc == 3; }},
    {"--nproc-per-node", "3", [](const CommandLine& line) { return line.job.nproc == 3; }},
    {"-n", "3", [](const CommandLine& line) { return line.job.nodes == 3; }},
    {"--nnodes", "3", [](const CommandLine& line) { return line.job.nodes == 3; }},
    {"--node-rank", "3", [](const CommandLine& line) { return line.job.node_rank == 3; }},
    {"--gpu-idx", "1,6", [](const CommandLine& line) { return line.job.gpu_ids == "1,6"; }},
    {"--dist-backend", "gloo", [](const CommandLine& line) { return line.job.backend == "gloo"; }},
};

TEST(TrainFlags, EachAliasSetsWhatItNames) {
  for (const auto& [flag, value, is_set] : kAliases) {
    EXPECT_FALSE(is_set(parse({}))) << flag << " would change nothing";
    EXPECT_TRUE(is_set(value.empty() ? parse({flag}) : parse({flag, value}))) << flag;
  }
}

TEST(TrainFlags, DriversFlagsOfTheMission) {
  const auto job =
      parse({"--nodes", "2", "--gpus", "4", "--nr", "1", "--epochs", "9", "--local_rank=3"}).job;
  EXPECT_EQ(job.nodes, 2);
  EXPECT_EQ(job.nproc, 4);
  EXPECT_EQ(job.node_rank, 1);
}

TEST(TrainFlags, NumbersThatDoNotFitAreRefused) {
  for (const char* flag : {"--seed", "--log-interval", "--validation-batch-size", "--epochs"}) {
    EXPECT_THAT([&] { parse({flag, "99999999999999999999"}); },
                ::testing::ThrowsMessage<UsageError>(
                    ::testing::AllOf(HasSubstr(flag), HasSubstr("of at most"))));
  }
  EXPECT_EQ(parse({"--seed", "18446744073709551615"}).train.seed, 18446744073709551615ULL);
}

TEST(TrainFlags, OfTwoConfigFilesTheLastIsRead) {
  const toys::Folder folder;
  const auto first = folder.path + "/a.toml";
  const auto second = folder.path + "/b.toml";
  std::ofstream(first) << "epochs = 7\n";
  std::ofstream(second) << "epochs = 8\n";
  const auto line = parse({"--config", first, "-c", second});
  EXPECT_EQ(line.train.epochs, 8);
  EXPECT_EQ(line.config_file, second);
}

TEST(TrainFlags, TheLaunchersFlagsAreKeptInTheConfigFile) {
  const auto job = parse({"--join-timeout", "9", "--log-dir", "logs"}).job;
  EXPECT_THAT(to_toml(job),
              ::testing::AllOf(HasSubstr("join-timeout = 9\n"), HasSubstr("log-dir = \"logs\"\n")));
}

TEST(TrainFlags, TheTimeToSaveIsKeptInTheConfigFile) {
  EXPECT_EQ(parse({"--shutdown-timeout", "90"}).job.shutdown_timeout_seconds, 90);
  EXPECT_THAT(to_toml(JobConfig{.shutdown_timeout_seconds = 90}),
              HasSubstr("shutdown-timeout = 90"));
  EXPECT_THAT(to_toml(JobConfig{}), ::testing::Not(HasSubstr("shutdown")));
}

TEST(TrainFlags, TheLocalRankOfOldLaunchersChangesNothing) {
  const auto plain = parse({"d"});
  for (const std::string flag : {"--local-rank", "--local_rank"}) {
    const auto given = parse({"d", flag, "3"});
    EXPECT_EQ(to_toml(given.train), to_toml(plain.train));
    EXPECT_EQ(to_toml(given.job), to_toml(plain.job));
  }
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

TEST(TrainFlags, ANegativeSeedIsRefused) {
  for (const auto& words : {std::vector<std::string>{"--seed", "-1"}, {"--seed=-1"}}) {
    EXPECT_THAT([&] { parse(words); },
                ThrowsMessage<UsageError>(
                    HasSubstr("--seed is '-1', expected a whole number of 0 or more")));
  }
  EXPECT_EQ(parse({"--seed", "18446744073709551615"}).train.seed, ~std::uint64_t{0});
}

TEST(TrainFlags, OneOfTwoBatchSizesIsTaken) {
  EXPECT_THAT([] { parse({"-b", "8", "--global-batch-size", "32"}); },
              ThrowsMessage<UsageError>(HasSubstr("HINT: leave --batch-size out")));
  const toys::Folder folder;
  const auto file = folder.path + "/config.toml";
  std::ofstream(file) << "batch-size = 8\nglobal-batch-size = 32\n";
  const auto both = parse({"--config", file}).train;
  EXPECT_EQ(both.batch_size, 8);
  EXPECT_EQ(both.global_batch_size, 32);
  const auto own = parse({"--config", file, "--batch-size", "4"}).train;
  EXPECT_EQ(own.batch_size, 4);
  EXPECT_EQ(own.global_batch_size, 0) << "the command line wins";
  const auto global = parse({"-c", file, "--global-batch-size", "16"}).train;
  EXPECT_EQ(global.batch_size, TrainConfig{}.batch_size);
  EXPECT_EQ(global.global_batch_size, 16);
}

}  // namespace
}  // namespace lockstep::train
