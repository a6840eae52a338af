#include "lockstep/parallel/checks/replica_check.h"

#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/comm/ranks.h"

namespace lockstep::parallel {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_ranks;
using ::testing::ThrowsMessage;

std::vector<Parameter> model() {
  return {{.name = "a", .tensor = at::ones({5})}, {.name = "b", .tensor = at::ones({7})}};
}

TEST(ReplicaCheck, AcceptsEqualReplicas) {
  run_ranks(2, [](Group& world) {
    ReplicaCheck check(world, "key", 2);
    const auto parameters = model();
    for (std::uint64_t step = 1; step <= 9; ++step) {
      check.begin_step(step, parameters);
      world.barrier();
      check.end_step(parameters);
    }
  });
}

TEST(ReplicaCheck, NamesTheParameterAndTheRankOfOneFlippedBit) {
  run_ranks(3, [](Group& world) {
    ReplicaCheck check(world, "key", 2);
    const auto parameters = model();
    if (world.rank() == 1) {
      reinterpret_cast<int*>(parameters[1].tensor.data_ptr<float>())[6] ^= 1;
    }
    check.begin_step(1, parameters);
    world.barrier();
    check.end_step(parameters);  // Not the step to look.
    check.begin_step(2, parameters);
    world.barrier();
    EXPECT_THAT([&] { check.end_step(parameters); },
                ThrowsMessage<PeerError>(AllOf(HasSubstr("on rank " + std::to_string(world.rank())),
                                               HasSubstr("'b' differs at the begin of step 2 "
                                                         "between rank 0 and rank 1;"))));
  });
}

TEST(ReplicaCheck, ComparesOnlyThoseThatTakePart) {
  run_ranks(2, [](Group& world) {
    ReplicaCheck check(world, "key", 1);
    const auto parameters = model();
    if (world.rank() == 0) {
      check.begin_step(1, parameters);
    }
    world.barrier();
    EXPECT_NO_THROW(check.end_step(parameters));
  });
}

}  // namespace
}  // namespace lockstep::parallel
