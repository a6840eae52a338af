// What a fork of a rank can do with a group over several hosts: nothing to its parent's.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include <chrono>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "tests/comm/forks.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::all_reduce;
using lockstep::testing::in_a_fork;
using lockstep::testing::is_refused;
using lockstep::testing::Tensors;

// Whether every call of a work that is not done is refused.
bool is_refused_in_all(c10d::Work& work) {
  return is_refused([&] { work.isCompleted(); }) && is_refused([&] { (void)work.getFuture(); }) &&
         is_refused([&] { work.wait(); });
}

TEST(HostsFork, IsRefusedAndDestroysNothingOfItsParents) {
  lockstep::testing::run_on_hosts({1, 2, 1}, [](Group& world) {
    const auto tensor = at::full({1000}, 1.0F);
    world.all_reduce(tensor).wait();
    auto group = std::make_unique<Group>(world.new_group({0, 1, 2, 3}));
    auto backend = group->backend();
    Tensors message{at::zeros({3})};
    auto pending = world.rank() == 0 ? backend->recv(message, 3, 0) : nullptr;
    Tensors sum{at::full({100000}, 1.0F)};
    auto queued = world.rank() == 0 ? backend->allreduce(sum, {}) : nullptr;
    in_a_fork([&] {
      const bool refused =
          is_refused([&] { group->all_reduce(tensor).wait(); }) &&
          is_refused([&] { group->barrier(); }) && is_refused([&] { (void)group->store(); }) &&
          is_refused([&] { (void)group->new_group({0}); }) &&
          is_refused([&] { all_reduce(world, tensor); }) &&
          is_refused([&] { backend->barrier({})->wait(); }) &&
          is_refused([&] { backend->send(message, 1, 0); }) &&
          is_refused([&] { backend->setTimeout(std::chrono::seconds(1)); }) &&
          is_refused([&] { (void)backend->getError(); }) &&
          (!pending || is_refused_in_all(*pending)) && (!queued || is_refused_in_all(*queued));
      backend->shutdown();
      backend->abort();
      pending.reset();
      queued.reset();
      backend.reset();
      group->destroy();
      group.reset();
      world.destroy();
      return refused;
    });
    // The parent's group is what it was.
    if (queued) {
      world.store()->set("rank 0 has forked", std::vector<std::uint8_t>{1});
      queued->wait();
    } else {
      world.store()->wait({"rank 0 has forked"});  // Until then rank 0's is not done.
      backend->allreduce(sum, {})->wait();
    }
    EXPECT_EQ(sum[0][99999].item<float>(), 4);
    group->all_reduce(tensor).wait();
    EXPECT_EQ(tensor[999].item<float>(), 16);
    if (world.rank() == 3) {
      message[0].fill_(7);
      backend->send(message, 0, 0)->wait();
    } else if (pending) {
      pending->wait();
      EXPECT_EQ(message[0][2].item<float>(), 7);
    }
    world.barrier();
  });
}

// With a work under way, whose destructor would tell the others that this rank has left.
TEST(HostsFork, ThatLeavesAWorkBehindDoesNotEndTheGroup) {
  lockstep::testing::run_on_hosts({1, 1}, [](Group& world) {
    const auto tensor = at::full({100000}, 1.0F);
    if (world.rank() == 1) {
      world.store()->wait({"forked"});
    }
    auto work = all_reduce(world, tensor);
    if (world.rank() == 0) {
      in_a_fork([&] {
        work.reset();
        world.destroy();
        return true;
      });
      world.store()->set("forked", std::vector<std::uint8_t>{1});
    }
    work->wait();
    EXPECT_EQ(tensor[0].item<float>(), 2);
    world.barrier();
  });
}

}  // namespace
}  // namespace lockstep::comm
