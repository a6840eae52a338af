#include "lockstep/comm/host_links.h"

#include <ATen/ops/full.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include "lockstep/base/error.h"
#include "tests/comm/shm_ranks.h"

namespace lockstep::comm {
namespace {

using lockstep::testing::kTwoHosts;
using lockstep::testing::run_ranks;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(HostLinks, ARankThatIsKilledIsNamedOnEveryHostAndTheRestFormANewGroup) {
  EXPECT_THAT(
      [] {
        spawn(4, [](int rank) {
          ::setenv("LOCKSTEP_HOST_ID", rank < 2 ? "here" : "there", 1);
          auto world = init_process_group({.timeout = std::chrono::seconds(60)});
          const auto tensor = at::full({1000}, 1.0F);
          world.all_reduce(tensor).wait();
          if (rank == 3) {
            ::usleep(200000);
            ::raise(SIGKILL);
          }
          const auto begin = std::chrono::steady_clock::now();
          try {
            world.all_reduce(tensor).wait();
            throw std::runtime_error("it went through");
          } catch (const PeerError& error) {
            const std::string text = error.what();
            if (text.find("rank 3") == std::string::npos ||
                std::chrono::steady_clock::now() - begin > std::chrono::seconds(3)) {
              throw std::runtime_error("named too late or not at all: " + text);
            }
          }
          ::usleep(2000000);  // spawn() would end the others at the first that comes back.
        });
      },
      ThrowsMessage<SpawnError>(AllOf(HasSubstr("rank 3"), HasSubstr("SIGKILL"))));
}

TEST(HostLinks, ARankThatDoesNotComeIsAnErrorAtTheDeadlineOnAll) {
  run_ranks(
      4,
      [](Group& world) {
        if (world.rank() == 3) {
          ::usleep(1500000);
          return;
        }
        const auto tensor = at::full({10}, 1.0F);
        EXPECT_THAT(
            [&] { world.all_reduce(tensor, {.timeout = std::chrono::milliseconds(700)}).wait(); },
            ThrowsMessage<PeerError>(AllOf(HasSubstr("on rank " + std::to_string(world.rank())),
                                           AnyOf(HasSubstr("rank 3"), HasSubstr("ranks 2, 3")))));
        EXPECT_THROW(world.all_reduce(tensor).wait(), PeerError) << "it is broken now";
        ::usleep(1500000);
      },
      kTwoHosts);
}

}  // namespace
}  // namespace lockstep::comm
