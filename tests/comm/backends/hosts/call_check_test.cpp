#include "lockstep/comm/backends/hosts/call_check.h"

#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include "lockstep/base/error.h"
#include "lockstep/comm/backend_registry.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::all_reduce;
using lockstep::testing::Tensors;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(CallCheck, ARankWithoutALaneIsToldNothing) {
  const auto deadline = Deadline::in(std::chrono::seconds(1));
  const GlooWait waiter([] { return false; });
  const HostMap map({HostCard{"here", "box", {}}}, 0);
  EXPECT_NO_THROW(CallCheck(nullptr, "barrier", waiter, deadline).require(map));
}

// All sides, of two hosts and of more; of small tensors, of large ones, and of one of each.
TEST(CallCheck, DifferentCallsAreAnErrorThatShowsAllSides) {
  for (const auto& hosts : std::vector<std::vector<int>>{{1, 1}, {2, 2}, {1, 2, 3}}) {
    for (const auto& [here, there] :
         std::vector<std::pair<int, int>>{{10, 12}, {70000, 80000}, {10, 80000}}) {
      lockstep::testing::run_on_hosts(hosts, [&, here = here, there = there](Group& world) {
        const bool first = world.rank() < hosts[0];
        EXPECT_THAT(
            [&] { all_reduce(world, at::zeros({first ? here : there}))->wait(); },
            ThrowsMessage<PeerError>(AllOf(HasSubstr("calls do not match"), HasSubstr("host0"),
                                           HasSubstr(std::to_string(here) + " elements, sum"),
                                           HasSubstr(std::to_string(there) + " elements"))));
        ::usleep(500000);
      });
    }
  }
}

TEST(CallCheck, DifferentKindsAreAnErrorThatShowsBoth) {
  lockstep::testing::run_on_hosts({1, 1, 1}, [](Group& world) {
    Tensors tensors{at::zeros({10})};
    EXPECT_THAT(
        [&] {
          world.rank() == 2 ? world.backend()->broadcast(tensors, {})->wait()
                            : world.backend()->allreduce(tensors, {})->wait();
        },
        ThrowsMessage<PeerError>(AllOf(HasSubstr("calls broadcast"), HasSubstr("all_reduce"))));
    ::usleep(500000);
  });
}

// Gloo as a lane has it, with a count of the gathers: a check is one, and a sum has no other.
class CountedLane : public c10d::Backend {
 public:
  CountedLane(c10::intrusive_ptr<c10d::Backend> gloo, int& gathers)
      : Backend(gloo->getRank(), gloo->getSize()), gloo_(std::move(gloo)), gathers_(gathers) {}
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override {
    ++gathers_;
    return gloo_->_allgather_base(output, input, options);
  }
  c10::intrusive_ptr<c10d::Work> allreduce(Tensors& tensors,
                                           const c10d::AllreduceOptions& options) override {
    return gloo_->allreduce(tensors, options);
  }

 private:
  c10::intrusive_ptr<c10d::Backend> gloo_;
  int& gathers_;
};

TEST(CallCheck, CoalescedTensorsPayItOnce) {
  lockstep::testing::run_on_hosts({1, 1, 1}, [](Group& world) {
    int gathers = 0;
    auto registry = BackendRegistry::built_in();
    registry.add("gloo", {c10::kCPU}, [&, gloo = registry.factory("gloo")](const auto& request) {
      return c10::make_intrusive<CountedLane>(gloo(request), gathers);
    });
    register_lockstep(registry);
    const auto backend = registry.make(
        "lockstep", {.store = c10::make_intrusive<c10d::PrefixStore>("counted", world.store()),
                     .rank = world.rank(),
                     .size = world.size(),
                     .timeout = std::chrono::seconds(60),
                     .connect_timeout = std::chrono::seconds(60),
                     .interfaces = {}});
    // All in the payload of the check, some behind it, and several pieces of each.
    for (const int size : {10, 5000, 1500000}) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{6}}) {
        Tensors tensors;
        for (std::size_t i = 0; i < count; ++i) {
          tensors.push_back(at::full({size}, static_cast<float>(world.rank() + 1)));
        }
        gathers = 0;
        backend->allreduce_coalesced(tensors, {})->wait();
        EXPECT_EQ(gathers, 1) << count << " tensors of " << size;
        EXPECT_EQ(tensors.back()[size - 1].item<float>(), 6);
      }
    }
  });
}

}  // namespace
}  // namespace lockstep::comm
