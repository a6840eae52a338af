// Small data and networks for tests of the training loop.
#pragma once

#include <ATen/ops/arange.h>
#include <ATen/ops/rand.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <memory>
#include <string>

#include "lockstep/comm/init_process_group.h"
#include "lockstep/data/datasets/tensor_dataset.h"
#include "lockstep/train/loop/data_source.h"
#include "lockstep/train/loop/learner.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::train::toys {

// Rows of four numbers; the class is the place of the largest of the first three.
inline DataSource table(std::int64_t train = 96, std::int64_t validation = 30) {
  const auto part = [](std::int64_t rows) {
    const auto data = at::rand({rows, 4});
    return std::make_shared<data::TensorDataset>(data, data.slice(1, 0, 3).argmax(1));
  };
  DataSource source;
  source.name = "toy";
  source.train = part(train);
  source.validation = part(validation);
  source.input = {4};
  source.num_classes = 3;
  source.index = "toy";
  return source;
}

inline std::shared_ptr<models::Network> network() {
  at::manual_seed(1);
  torch::nn::Sequential net(torch::nn::Linear(4, 3));
  return std::make_shared<models::Network>(net.ptr());
}

using Folder = test::TemporaryFolder;

}  // namespace lockstep::train::toys
