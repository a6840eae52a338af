// A network that Python scripted trains under DistributedDataParallel as it does in Python, and its
// state goes both ways.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>

#include <chrono>

#include "lockstep/models/script_module.h"
#include "lockstep/parallel/distributed_data_parallel.h"
#include "lockstep/train/checkpoint/checkpoint_writer.h"
#include "lockstep/train/optim/sgd.h"
#include "tests/comm/ranks.h"
#include "tests/parity/tensor_file.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace lockstep {
namespace {

using Ddp = DistributedDataParallel<models::ScriptModule>;

std::pair<at::Tensor, at::Tensor> script_batch(int step, int rank) {
  auto generator = at::detail::createCPUGenerator(static_cast<std::uint64_t>(10 * step + rank));
  auto inputs = at::randn({6, 1, 12, 12}, generator);
  return {inputs, at::randint(4, {6}, generator, at::kLong)};
}

// What run_script.py leaves, of this rank.
parity::Tensors train_script(Ddp& ddp, int rank) {
  optim::SGD optimizer(ddp.parameters(), {.lr = 0.05, .momentum = 0.9});
  at::manual_seed(static_cast<std::uint64_t>(100 + rank));
  parity::Tensors left;
  for (int step = 0; step < 8; ++step) {
    const auto [inputs, labels] = script_batch(step, rank);
    optimizer.zero_grad();
    const auto loss = at::cross_entropy_loss(ddp(inputs), labels);
    loss.backward();
    optimizer.step();
    left["loss." + std::to_string(step)] = loss.detach();
  }
  for (const auto& item : ddp.named_parameters()) {
    left["module." + item.key() + ".grad"] = item.value().grad();
  }
  for (const auto& [name, tensor] : ddp.state_dict()) {
    left[name] = tensor;
  }
  ddp.eval();
  left["eval"] = ddp(script_batch(99, 0).first).detach();
  return left;
}

void expect_same(const parity::Tensors& ours, const parity::Tensors& theirs) {
  EXPECT_EQ(ours.size(), theirs.size());
  for (const auto& [name, tensor] : theirs) {
    ASSERT_TRUE(ours.contains(name)) << name;
    EXPECT_TRUE(ours.at(name).equal(tensor)) << name;
  }
}

TEST(ScriptUnderDdp, HasPythonsBitsAndItsStateGoesBothWays) {
  const test::TemporaryFolder folder;
  test::run_python("train/checkpoint/run_script.py", {folder.file(""), "train"});
  for (const char* backend : {"gloo", "shm"}) {
    SCOPED_TRACE(backend);
    testing::run_ranks(
        2,
        [&](Group& world) {
          at::set_num_threads(1);
          const int rank = world.rank();
          const auto net = models::load_script_module(folder.file("net.pt"));
          Ddp ddp(net, world);
          const auto left = train_script(ddp, rank);
          expect_same(left, parity::read(folder.file("python." + std::to_string(rank))));

          // Python's state, with "module." before its names, into a new one.
          const auto again = models::load_script_module(folder.file("net.pt"));
          Ddp other(again, world);
          load_state_dict(other, load_checkpoint(folder.file("python.pt")).checkpoint.model);
          other.eval();
          EXPECT_TRUE(other(script_batch(99, 0).first).equal(left.at("eval")));

          if (rank == 0) {
            CheckpointWriter writer(folder.file("ours"));
            writer.save({.model = ddp.state_dict()});
            writer.wait();
            net->save_script(folder.file("ours.script.pt"));
            parity::write(folder.file("ours.outputs"), {{"eval", left.at("eval")}});
          }
        },
        backend);
  }
  test::run_python("train/checkpoint/run_script.py", {folder.file(""), "load"});

  // A trace has one mode for ever, and trains in that.
  const auto traced = models::load_script_module(folder.file("traced.pt"));
  const auto loaded = load_checkpoint(folder.file("ours")).checkpoint.model;
  EXPECT_NO_THROW(load_state_dict(*traced, loaded));
  traced->forward(script_batch(0, 0).first).sum().backward();
  EXPECT_TRUE(traced->named_parameters()["fc.weight"].grad().defined());
}

}  // namespace
}  // namespace lockstep
