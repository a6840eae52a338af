#include "lockstep/train/loop/session.h"

#include <gmock/gmock.h>
#include <torch/nn/modules/linear.h>

#include <fstream>

#include "lockstep/base/error.h"
#include "tests/train/loop/toys.h"

namespace lockstep::train {
namespace {

torch::nn::Sequential make_own(const models::ModelOptions& options) {
  return torch::nn::Sequential(torch::nn::Linear(options.input_size.at(0), *options.num_classes));
}

TEST(Train, TrainsANetworkOfOnesOwnOnATable) {
  const toys::Folder folder;
  std::ofstream file(folder.path + "/points.csv");
  for (int i = 0; i < 200; ++i) {
    file << i % 13 << "," << i % 7 << "," << (i % 13 > 6 ? 1 : 0) << "\n";
  }
  file.close();
  const TrainConfig config{.data = folder.path + "/points.csv",
                           .model = "own",
                           .batch_size = 10,
                           .output = folder.path + "/runs"};
  const auto world = init_process_group();
  testing::internal::CaptureStdout();
  EXPECT_EQ(train(config, world, {{"own", make_own}}), 0);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), testing::HasSubstr("own with 6 parameters"));
  EXPECT_TRUE(std::filesystem::exists(folder.path + "/runs/points-own/finished"));
  EXPECT_THROW(train({.data = config.data, .model = "owl", .batch_size = 10}, world), UsageError);
}

}  // namespace
}  // namespace lockstep::train
