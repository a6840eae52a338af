#include "lockstep/comm/backends/support/sparse_sum.h"

#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::run_on_hosts;
using lockstep::testing::Tensors;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Rank r has r values: the first has none.
TEST(SparseSum, RanksOfSeveralHostsMayHaveAnyNumberOfValues) {
  run_on_hosts({1, 2, 1}, [](Group& world) {
    const auto dense = at::zeros({4, 3});
    dense.narrow(0, 0, world.rank()).fill_(world.rank());
    Tensors tensors{dense.to_sparse(1)};
    world.backend()->allreduce(tensors, {})->wait();
    const auto sum = tensors[0].to_dense();
    EXPECT_EQ(sum[0][2].item<float>(), 1 + 2 + 3);
    EXPECT_EQ(sum[1][0].item<float>(), 2 + 3);
    EXPECT_EQ(sum[2][0].item<float>(), 3);
    EXPECT_EQ(sum[3].sum().item<float>(), 0);
  });
}

TEST(SparseSum, DifferentShapesAreAnErrorOnAllRanks) {
  run_on_hosts({1, 1, 1}, [](Group& world) {
    Tensors tensors{at::full({3 + world.rank() / 2}, 1.0F).to_sparse()};
    EXPECT_THAT([&] { world.backend()->allreduce(tensors, {})->wait(); },
                ThrowsMessage<PeerError>(
                    HasSubstr("rank 0 and rank 2 have sparse tensors of different shapes")));
    ::usleep(500000);
  });
}

// As many bytes, so nothing but the dtype tells.
TEST(SparseSum, DifferentDtypesAreAnErrorOnAllRanks) {
  run_on_hosts({1, 1}, [](Group& world) {
    const auto dtype = world.rank() == 0 ? at::kFloat : at::kInt;
    Tensors tensors{at::full({3}, 1, dtype).to_sparse()};
    EXPECT_THAT([&] { world.backend()->allreduce(tensors, {})->wait(); },
                ThrowsMessage<PeerError>(HasSubstr("different shapes or dtypes")));
    ::usleep(500000);
  });
}

}  // namespace
}  // namespace lockstep::comm
