// Every backend of ours refuses a call that cannot work before it costs the group anything: results
// that lie in one place or where another rank's input is still to be read, and wrong arguments.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::Tensors;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using TensorLists = std::vector<Tensors>;

class RefusedCall : public ::testing::TestWithParam<const char*> {
 protected:
  // `calls` are refused on both ranks; the group is as good as before.
  static void refused(const std::function<std::vector<std::function<void()>>(c10d::Backend& backend,
                                                                             int rank)>& calls) {
    lockstep::testing::run_ranks(
        2,
        [&](Group& world) {
          int number = 0;
          for (const auto& call : calls(*world.backend(), world.rank())) {
            EXPECT_THAT(call, ThrowsMessage<UsageError>(HasSubstr("on rank"))) << "call " << number;
            ++number;
          }
          const auto sum = at::full({2}, 1.0F);
          world.all_reduce(sum).wait();
          EXPECT_EQ(sum[0].item<float>(), 2);
        },
        GetParam());
  }
  static Tensors one_place() { return {at::zeros({1}).expand({4})}; }
  template <class Options>
  static Options with_root(int rank) {
    Options options;
    options.rootRank = rank;
    return options;
  }
};

INSTANTIATE_TEST_SUITE_P(OfBackend, RefusedCall,
                         ::testing::ValuesIn(lockstep::testing::own_backends()),
                         [](const auto& tested) { return tested.param; });

TEST_P(RefusedCall, AllReduce) {
  refused([](c10d::Backend& backend, int) -> std::vector<std::function<void()>> {
    return {[&] {
              Tensors tensors = one_place();
              backend.allreduce(tensors, {});
            },
            [&] {
              Tensors tensors(2, at::zeros({4}));
              backend.allreduce_coalesced(tensors, {});
            }};
  });
}

TEST_P(RefusedCall, ReduceAtTheRoot) {
  refused([](c10d::Backend& backend, int rank) -> std::vector<std::function<void()>> {
    return {[&backend, rank] {
      Tensors tensors = one_place();
      backend.reduce(tensors, with_root<c10d::ReduceOptions>(rank));
    }};
  });
}

TEST_P(RefusedCall, BroadcastToThisRank) {
  refused([](c10d::Backend& backend, int rank) -> std::vector<std::function<void()>> {
    return {[&backend, rank] {
      Tensors tensors = one_place();
      backend.broadcast(tensors, with_root<c10d::BroadcastOptions>(1 - rank));
    }};
  });
}

TEST_P(RefusedCall, AllGather) {
  refused([](c10d::Backend& backend, int) -> std::vector<std::function<void()>> {
    return {[&] {
              TensorLists outputs{Tensors(2, at::zeros({4}))};
              Tensors inputs{at::zeros({4})};
              backend.allgather(outputs, inputs, {});
            },
            [&] {
              TensorLists outputs(2, Tensors{at::zeros({4})});
              Tensors inputs{at::zeros({4})};
              backend.allgather_coalesced(outputs, inputs, {});
            }};
  });
}

TEST_P(RefusedCall, AllGatherIntoTensor) {
  refused([](c10d::Backend& backend, int) -> std::vector<std::function<void()>> {
    return {[&] {
              at::Tensor output = at::zeros({8});
              at::Tensor input = output.narrow(0, 2, 4);  // A part of each rank's.
              backend._allgather_base(output, input, {});
            },
            [&] {
              Tensors outputs(2, at::zeros({8}));
              Tensors inputs(2, at::zeros({4}));
              backend.allgather_into_tensor_coalesced(outputs, inputs, {});
            }};
  });
}

TEST_P(RefusedCall, GatherAtTheRoot) {
  refused([](c10d::Backend& backend, int rank) -> std::vector<std::function<void()>> {
    return {[&backend, rank] {
              TensorLists outputs{Tensors(2, at::zeros({4}))};
              Tensors inputs{at::zeros({4})};
              backend.gather(outputs, inputs, with_root<c10d::GatherOptions>(rank));
            },
            [&backend, rank] {
              const auto all = at::zeros({8});
              TensorLists outputs{{all.narrow(0, 0, 4), all.narrow(0, 4, 4)}};
              Tensors inputs{outputs[0][static_cast<std::size_t>(1 - rank)]};
              backend.gather(outputs, inputs, with_root<c10d::GatherOptions>(rank));
            }};
  });
}

TEST_P(RefusedCall, Scatter) {
  refused([](c10d::Backend& backend, int rank) -> std::vector<std::function<void()>> {
    return {[&backend, rank] {
              Tensors outputs = one_place();
              TensorLists inputs;
              backend.scatter(outputs, inputs, with_root<c10d::ScatterOptions>(1 - rank));
            },
            [&backend, rank] {
              TensorLists inputs{{at::zeros({4}), at::zeros({4})}};
              Tensors outputs{inputs[0][static_cast<std::size_t>(1 - rank)]};
              backend.scatter(outputs, inputs, with_root<c10d::ScatterOptions>(rank));
            }};
  });
}

TEST_P(RefusedCall, ReduceScatter) {
  refused([](c10d::Backend& backend, int rank) -> std::vector<std::function<void()>> {
    return {[&backend, rank] {
              TensorLists inputs{{at::zeros({4}), at::zeros({4})}};
              Tensors outputs{inputs[0][static_cast<std::size_t>(1 - rank)]};
              backend.reduce_scatter(outputs, inputs, {});
            },
            [&backend, rank] {
              at::Tensor input = at::zeros({8});
              at::Tensor output = input.narrow(0, 4 * (1 - rank), 4);
              backend._reduce_scatter_base(output, input, {});
            },
            [&backend] {
              Tensors outputs(2, at::zeros({4}));
              Tensors inputs(2, at::zeros({8}));
              backend.reduce_scatter_tensor_coalesced(outputs, inputs, {});
            }};
  });
}

TEST_P(RefusedCall, AllToAll) {
  refused([](c10d::Backend& backend, int) -> std::vector<std::function<void()>> {
    return {[&] {
              Tensors outputs(2, at::zeros({4}));
              Tensors inputs(2, at::zeros({4}));
              backend.alltoall(outputs, inputs, {});
            },
            [&] {
              at::Tensor both = at::zeros({8});
              std::vector<std::int64_t> none;
              backend.alltoall_base(both, both, none, none, {});
            }};
  });
}

TEST_P(RefusedCall, Receive) {
  refused([](c10d::Backend& backend, int rank) -> std::vector<std::function<void()>> {
    return {[&backend, rank] {
              Tensors tensors = one_place();
              backend.recv(tensors, 1 - rank, 0);
            },
            [&backend] {
              Tensors tensors = one_place();
              backend.recvAnysource(tensors, 0);
            }};
  });
}

TEST_P(RefusedCall, WithArgumentsThatDoNotFit) {
  refused([](c10d::Backend& backend, int rank) -> std::vector<std::function<void()>> {
    return {[&] {
              Tensors two{at::zeros({1}), at::zeros({1})};
              backend.allreduce(two, {});
            },
            [&] {
              Tensors tensors{at::zeros({1})};
              backend.broadcast(tensors, with_root<c10d::BroadcastOptions>(2));
            },
            [&] {
              Tensors tensors{at::zeros({1})};
              c10d::ReduceOptions options;
              options.reduceOp = c10d::ReduceOp::BAND;
              backend.reduce(tensors, options);
            },
            [&] {
              TensorLists outputs{{at::zeros({2}), at::zeros({2})}};
              Tensors inputs{at::zeros({3})};
              backend.allgather(outputs, inputs, {});
            },
            [&] {
              TensorLists outputs{{at::zeros({1})}};
              Tensors inputs{at::zeros({1})};
              backend.allgather_coalesced(outputs, inputs, {});
            },
            [&backend, rank] {
              TensorLists outputs{{at::zeros({1}), at::zeros({1})}};
              Tensors inputs{at::zeros({1})};
              backend.gather(outputs, inputs, with_root<c10d::GatherOptions>(1 - rank));
            },
            [&backend, rank] {
              Tensors outputs{at::zeros({1})};
              TensorLists inputs{{at::zeros({1}), at::zeros({1}, at::kLong)}};
              backend.scatter(outputs, inputs, with_root<c10d::ScatterOptions>(rank));
            },
            [&] {
              Tensors outputs{at::zeros({1})};
              TensorLists inputs{{at::zeros({2}), at::zeros({2})}};
              backend.reduce_scatter(outputs, inputs, {});
            },
            [&] {
              Tensors tensors{at::zeros({1})};
              backend.send(tensors, 2, 0);
            }};
  });
}

class Reductions : public ::testing::TestWithParam<const char*> {};

INSTANTIATE_TEST_SUITE_P(OfBackend, Reductions,
                         ::testing::ValuesIn(lockstep::testing::own_backends()),
                         [](const auto& tested) { return tested.param; });

TEST_P(Reductions, HasEveryFormOfReduceScatter) {
  lockstep::testing::run_ranks(
      2,
      [](Group& world) {
        const auto backend = world.backend();
        auto input = at::arange(4, at::kFloat) + static_cast<double>(world.rank());
        auto output = at::empty({2});
        backend->_reduce_scatter_base(output, input, {})->wait();
        EXPECT_EQ(output[0].item<float>(), world.rank() == 0 ? 1 : 5);
        Tensors outputs{at::empty({2}), at::empty({1})};
        Tensors inputs{input, at::full({2}, 1.0F)};
        backend->reduce_scatter_tensor_coalesced(outputs, inputs, {})->wait();
        EXPECT_TRUE(outputs[0].equal(output));
        EXPECT_EQ(outputs[1].item<float>(), 2);
      },
      GetParam());
}

TEST_P(Reductions, CoalescesSeveralDtypesAndKeepsGaps) {
  lockstep::testing::run_ranks(
      2,
      [](Group& world) {
        const auto wide = at::zeros({4, 6});
        Tensors tensors{wide.narrow(1, 1, 2).fill_(1), at::full({2}, 2, at::kLong)};
        world.backend()->allreduce_coalesced(tensors, {})->wait();
        EXPECT_EQ(wide.sum().item<float>(), 2.0F * 8);
        EXPECT_TRUE(tensors[1].equal(at::full({2}, 4, at::kLong)));
      },
      GetParam());
}

}  // namespace
}  // namespace lockstep::comm
