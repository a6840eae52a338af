// A GradScaler that goes on in Python, and Python's that goes on here, through checkpoint files.
#include "lockstep/train/checkpoint/scaler_value.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/train/checkpoint/checkpoint_writer.h"
#include "lockstep/train/optim/sgd.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using checkpoint::Dict;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

const amp::GradScalerOptions kOptions{
    .init_scale = 1024, .growth_factor = 1.5, .backoff_factor = 0.25, .growth_interval = 3};

// As in run_scaler_state.py: after each step the scale. Step 4 overflows.
std::vector<double> scales(amp::GradScaler& scaler, int first, int last) {
  auto param = at::full({2}, 1.0F).requires_grad_();
  optim::SGD optimizer({param}, {.lr = 0.1});
  std::vector<double> all;
  for (int step = first; step < last; ++step) {
    optimizer.zero_grad();
    scaler.scale(param.sum() * (step == 4 ? INFINITY : 1.0)).backward();
    scaler.step(optimizer);
    scaler.update();
    all.push_back(scaler.get_scale());
  }
  return all;
}

std::vector<double> scales_of_python(const test::TemporaryFolder& folder) {
  return nlohmann::json::parse(read_file(folder.file("scales"))).get<std::vector<double>>();
}

TEST(ScalerValue, PythonGoesOnFromOurs) {
  const test::TemporaryFolder folder;
  amp::GradScaler scaler(kOptions);
  scales(scaler, 0, 7);  // One overflow, and two steps towards the next growth.
  Checkpoint checkpoint;
  checkpoint.scaler = to_value(scaler.state_dict());
  CheckpointWriter writer(folder.file("ours"));
  writer.save(checkpoint);
  writer.wait();
  test::run_python("train/amp/run_scaler_state.py", {folder.file(""), "resume"});
  EXPECT_EQ(scales_of_python(folder), scales(scaler, 7, 20));
}

TEST(ScalerValue, WeGoOnFromPythons) {
  const test::TemporaryFolder folder;
  test::run_python("train/amp/run_scaler_state.py", {folder.file(""), "save"});
  amp::GradScaler scaler;
  const auto saved = load_checkpoint(folder.file("python.pt")).checkpoint;
  scaler.load_state_dict(scaler_from_value(saved.scaler));
  EXPECT_EQ(scales(scaler, 7, 20), scales_of_python(folder));
}

TEST(ScalerValue, ThatOfADisabledOneIsEmpty) {
  EXPECT_TRUE(to_value(amp::GradScaler({.enabled = false}).state_dict()).get_if<Dict>()->empty());
  EXPECT_FALSE(scaler_from_value(Dict{}).has_value());
}

TEST(ScalerValue, WhatIsMissingIsNamed) {
  EXPECT_THAT([] { scaler_from_value(Dict{{"scale", 2}}); },
              ThrowsMessage<IoError>(HasSubstr("has no number 'growth_factor'")));
  EXPECT_THAT([] { scaler_from_value("text"); }, ThrowsMessage<IoError>(HasSubstr("is text")));
}

}  // namespace
}  // namespace lockstep
