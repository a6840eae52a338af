// What every collective checks before it starts.
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"
#include "tests/comm/ranks.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using testing::run_ranks;
using ::testing::ThrowsMessage;

at::Tensor three_of(std::int64_t value) { return at::full({3}, value, at::kLong); }

TEST(Call, RejectWrongArgumentsByName) {
  run_ranks(2, [](Group& world) {
    const auto tensor = three_of(1);
    const auto expect_usage = [](const std::function<void()>& call, const char* text) {
      EXPECT_THAT(call, ThrowsMessage<UsageError>(HasSubstr(text)));
    };
    expect_usage([&] { world.all_reduce(at::Tensor()).wait(); }, "undefined");
    expect_usage([&] { world.broadcast(tensor, 2).wait(); }, "the root is 2, expected 0 to 1");
    expect_usage([&] { world.send(tensor, -1).wait(); }, "the destination is -1");
    expect_usage([&] { world.send(tensor, world.rank()).wait(); }, "this rank itself");
    expect_usage([&] { world.all_gather({tensor}, tensor).wait(); }, "there are 1 outputs");
    expect_usage([&] { world.all_gather({tensor, at::zeros({3})}, tensor).wait(); },
                 "outputs[1] is Float");
    expect_usage([&] { world.all_to_all({}, {}).wait(); }, "undefined");
    expect_usage(
        [&] { world.all_reduce(tensor, {.timeout = std::chrono::milliseconds(0)}).wait(); },
        "the timeout is 0 ms");
    expect_usage([&] { world.all_reduce(at::zeros({2}), {.op = ReduceOp::kBand}).wait(); },
                 "band is not defined for Float");
    if (world.rank() == 1) {
      expect_usage([&] { world.gather({tensor, tensor}, tensor, 0).wait(); }, "only the root");
    }
    world.all_reduce(tensor).wait();  // None of it harmed the group.
    EXPECT_EQ(tensor[0].item<std::int64_t>(), 2);
  });
}

}  // namespace
}  // namespace lockstep
