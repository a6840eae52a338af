// Small data and networks for tests of the training loop.
#pragma once

#include <ATen/ops/arange.h>
#include <ATen/ops/rand.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <memory>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/value.h"
#include "lockstep/comm/init_process_group.h"
#include "lockstep/data/datasets/tensor_dataset.h"
#include "lockstep/train/input/data_source.h"
#include "lockstep/train/loop/learner.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::train::toys {

// Rows of four numbers; the class is the place of the largest of the first three.
inline DataSource table(std::int64_t train = 96, std::int64_t validation = 30,
                        std::int64_t test = 0) {
  const auto part = [](std::int64_t rows) {
    const auto data = at::rand({rows, 4});
    return std::make_shared<data::TensorDataset>(data, data.slice(1, 0, 3).argmax(1));
  };
  DataSource source;
  source.name = "toy";
  source.train = part(train);
  source.validation = part(validation);
  if (test > 0) {
    source.test = part(test);
  }
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

// A checkpoint's dictionary as a program wrote it that did not know this key.
inline checkpoint::Value without(const checkpoint::Value& dictionary, const std::string& key) {
  auto entries = *dictionary.get_if<checkpoint::Dict>();
  if (std::erase_if(entries, [&](const auto& entry) {
        return *entry.key.template get_if<std::string>() == key;
      }) != 1) {
    throw UsageError("there is no '" + key + "' to be removed");
  }
  return entries;
}

using Folder = test::TemporaryFolder;

}  // namespace lockstep::train::toys
