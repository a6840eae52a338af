#include "lockstep/train/optim/zero_redundancy_optimizer.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/checkpoint/pt_file.h"
#include "lockstep/train/checkpoint/optimizer_value.h"
#include "lockstep/train/checkpoint/tensor_value.h"
#include "lockstep/train/optim/adam.h"
#include "lockstep/train/optim/sgd.h"
#include "tests/comm/ranks.h"
#include "tests/parity/tensor_file.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::optim {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr std::size_t kParams = 7;  // As run_zero.py: the last three in a second group.
constexpr std::size_t kFirstGroup = 4;

class AsPython {
 public:
  AsPython(const Group& world, const parity::Tensors& python)
      : python_(python), params_(initial()), optimizer_(world, groups()) {}

  void train(int steps) {
    for (int step = 0; step < steps; ++step) {
      for (std::size_t i = 0; i < kParams; ++i) {
        const auto grad = python_.find("grad." + std::to_string(step) + "." + std::to_string(i));
        params_[i].mutable_grad() = grad == python_.end() ? at::Tensor() : grad->second.clone();
      }
      optimizer_.step();
    }
  }

  void expect_pythons_parameters() const {
    for (std::size_t i = 0; i < kParams; ++i) {
      const auto number = std::to_string(i);
      EXPECT_EQ(optimizer_.owners()[i], python_.at("owner." + number).item<int>());
      EXPECT_TRUE(at::equal(params_[i], python_.at("param." + number))) << "parameter " << i;
    }
  }

  void expect_pythons_state(const OptimizerState& state) const {
    std::size_t found = 0;
    for (const auto& [number, tensors] : state.state) {
      for (const auto& [name, tensor] : tensors) {
        const auto key = "state." + std::to_string(number) + "." + name;
        EXPECT_TRUE(at::equal(tensor, python_.at(key))) << key;
        ++found;
      }
    }
    EXPECT_EQ(found, 3 * kParams);
  }

  ZeroRedundancyOptimizer<AdamW>& optimizer() { return optimizer_; }

 private:
  [[nodiscard]] std::vector<at::Tensor> initial() const {
    std::vector<at::Tensor> params;
    for (std::size_t i = 0; i < kParams; ++i) {
      params.push_back(python_.at("init." + std::to_string(i)).clone().requires_grad_());
    }
    return params;
  }
  [[nodiscard]] std::vector<ParamGroup<AdamWOptions>> groups() const {
    return {{{params_.begin(), params_.begin() + kFirstGroup}, {.lr = 0.1}},
            {{params_.begin() + kFirstGroup, params_.end()}, {.lr = 0.02}}};
  }

  const parity::Tensors& python_;
  std::vector<at::Tensor> params_;
  ZeroRedundancyOptimizer<AdamW> optimizer_;
};

// As torch.save writes it.
void save(const std::string& path, const OptimizerState& state) {
  Snapshot snapshot;
  const auto root =
      to_value(state, [&](const at::Tensor& tensor) { return snapshot.take(tensor); });
  const auto memory = std::make_shared<std::vector<double>>(snapshot.bytes() / sizeof(double) + 1);
  snapshot.copy_to({memory, memory->data()});
  std::ofstream file(path, std::ios::binary);
  checkpoint::write_pt(root, [&](std::span<const std::byte> bytes) {
    file.write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  });
}

TEST(ZeroRedundancyOptimizer, HasTheBitsOfPythonAndAStateForIt) {
  const test::TemporaryFolder folder;
  test::run_python("train/optim/run_zero.py", {folder.file("")});
  for (const int ranks : {1, 2, 3}) {
    testing::run_ranks(ranks, [&](Group& world) {
      at::set_num_threads(1);
      const auto python = parity::read(folder.file(std::to_string(ranks)));
      AsPython whole(world, python);
      whole.train(5);
      whole.expect_pythons_parameters();
      for (int to = 0; to < ranks; ++to) {
        const auto all = whole.optimizer().consolidate_state_dict(to);
        if (world.rank() == to) {
          whole.expect_pythons_state(all);
          save(folder.file(std::to_string(ranks) + ".ours.pt"), all);
        } else {
          for (const auto& [number, tensors] : all.state) {
            EXPECT_EQ(whole.optimizer().owners()[static_cast<std::size_t>(number)], world.rank());
          }
        }
      }
    });
  }
  test::run_python("train/optim/run_zero.py", {folder.file(""), "load"});
}

std::vector<at::Tensor> two_params() {
  return {at::full({1000}, 1.0F).requires_grad_(), at::full({500}, 2.0F).requires_grad_()};
}

TEST(ZeroRedundancyOptimizer, LoadsItsShareOfAWholeState) {
  auto params = two_params();
  Adam plain(params);
  const auto set_gradients = [](std::vector<at::Tensor>& of, double value) {
    for (auto& param : of) {
      param.mutable_grad() = at::full(param.sizes(), value);
    }
  };
  set_gradients(params, 0.5);
  plain.step();
  const auto state = plain.state_dict();
  testing::run_ranks(2, [&](Group& world) {
    at::set_num_threads(1);
    auto own_params = params;
    for (auto& param : own_params) {
      param = param.detach().clone().requires_grad_();
    }
    ZeroRedundancyOptimizer<Adam> optimizer(world, own_params);
    optimizer.load_state_dict(state);
    EXPECT_EQ(optimizer.consolidate_state_dict(0).state.size(), world.rank() == 0 ? 2U : 1U);
    set_gradients(own_params, 0.25);
    set_gradients(params, 0.25);
    optimizer.step();
    plain.step();
    for (std::size_t i = 0; i < params.size(); ++i) {
      EXPECT_TRUE(at::equal(own_params[i], params[i]));
    }
  });
}

TEST(ZeroRedundancyOptimizer, MoreRanksThanParametersAndWrongRanks) {
  testing::run_ranks(3, [](Group& world) {
    auto params = two_params();
    ZeroRedundancyOptimizer<SGD> optimizer(world, params, {.lr = 1, .momentum = 0.9});
    for (auto& param : params) {
      param.mutable_grad() = at::full(param.sizes(), 1.0F);
    }
    optimizer.step();
    EXPECT_EQ(params[0][0].item<float>(), 0);
    EXPECT_EQ(params[1][0].item<float>(), 1);
    EXPECT_THAT([&] { optimizer.consolidate_state_dict(3); },
                ThrowsMessage<UsageError>(HasSubstr("expected 0 to 2")));
    EXPECT_EQ(optimizer.consolidate_state_dict(0).state.size(),
              2U - static_cast<std::size_t>(world.rank()));
    EXPECT_EQ(optimizer.consolidate_state_dict(2).state.size(), world.rank() == 2 ? 2U : 1U);
  });
}

// As PyTorch's, which asks for it in a group of one rank, too.
TEST(ZeroRedundancyOptimizer, HasNoStateDictWhereItIsNotConsolidated) {
  for (const int ranks : {1, 2}) {
    testing::run_ranks(ranks, [](Group& world) {
      auto params = two_params();
      ZeroRedundancyOptimizer<Adam> optimizer(world, params);
      Optimizer& any = optimizer;
      const auto expect_none = [&] {
        const auto rank = std::to_string(world.rank());
        EXPECT_THAT([&] { (void)any.state_dict(); },
                    ThrowsMessage<UsageError>(
                        AllOf(HasSubstr("state_dict() on rank " + rank + " of "),
                              HasSubstr("call consolidate_state_dict(" + rank + ")"))));
      };
      const auto step = [&] {
        for (auto& param : params) {
          param.mutable_grad() = at::full(param.sizes(), 1.0F);
        }
        any.step();
      };
      step();
      expect_none();
      for (int to = 0; to < world.size(); ++to) {
        optimizer.consolidate_state_dict(to);
        if (world.rank() == to) {
          EXPECT_EQ(any.state_dict().state.size(), 2U);
        } else {
          expect_none();
        }
      }
      step();
      expect_none();
      const auto state = optimizer.consolidate_state_dict();
      any.load_state_dict(state);
      expect_none();
    });
  }
}

}  // namespace
}  // namespace lockstep::optim
