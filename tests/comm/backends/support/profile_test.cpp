#include "lockstep/comm/backends/support/profile.h"

#include <ATen/ops/ones.h>
#include <ATen/record_function.h>
#include <gmock/gmock.h>

#include <mutex>

#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::on_ranks;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

// What a profiler is told while it lives: names as events begin, and "end NAME".
class Listener {
 public:
  Listener() {
    told().clear();
    handle_ = at::addGlobalCallback(at::RecordFunctionCallback(&Listener::begin, &Listener::end)
                                        .scopes({at::RecordScope::USER_SCOPE}));
  }
  ~Listener() { at::removeCallback(handle_); }
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  static std::vector<std::string>& told() {
    static std::vector<std::string> names;
    return names;
  }

 private:
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& event) {
    const std::lock_guard lock(mutex());
    told().emplace_back(event.name());
    return nullptr;
  }
  static void end(const at::RecordFunction& event, at::ObserverContext* /*context*/) {
    const std::lock_guard lock(mutex());
    told().push_back(std::string("end ") + event.name());
  }
  static std::mutex& mutex() {
    static std::mutex instance;
    return instance;
  }

  at::CallbackHandle handle_;
};

TEST(BeginProfile, IsNothingWhereNobodyLooks) {
  EXPECT_EQ(begin_profile(c10d::OpType::ALLREDUCE, {}), nullptr);
}

TEST(BeginProfile, AnEventEndsWhenTheCollectiveIsDone) {
  on_ranks(1, [](Group& world) {
    const Listener listener;
    auto tensor = at::ones({4});
    auto work = lockstep::testing::all_reduce(world, tensor);
    work->wait();
    EXPECT_THAT(Listener::told(), ElementsAre("lockstep:all_reduce", "end lockstep:all_reduce"));
  });
}

TEST(BeginProfile, MessagesHaveEventsToo) {
  on_ranks(1, [](Group& world) {
    const Listener listener;
    std::vector<at::Tensor> tensors{at::ones({4})};
    world.backend()->send(tensors, 0, 7);
    world.backend()->recv(tensors, 0, 7)->wait();
    EXPECT_THAT(Listener::told(), ElementsAre("lockstep:send", "end lockstep:send", "lockstep:recv",
                                              "end lockstep:recv"));
  });
}

TEST(BeginProfile, AGroupOverHostsHasTheSameEvents) {
  lockstep::testing::run_ranks(
      2,
      [](Group& world) {
        const Listener listener;
        auto tensor = at::ones({4});
        lockstep::testing::all_reduce(world, tensor)->wait();
        EXPECT_THAT(Listener::told(),
                    IsSupersetOf({"lockstep:all_reduce", "end lockstep:all_reduce"}));
      },
      lockstep::testing::kTwoHosts);
}

TEST(BeginProfile, NothingIsToldAfterTheProfilerHasGone) {
  {
    const Listener listener;
  }
  EXPECT_EQ(begin_profile(c10d::OpType::BARRIER, {}), nullptr);
  EXPECT_THAT(Listener::told(), IsEmpty());
}

}  // namespace
}  // namespace lockstep::comm
