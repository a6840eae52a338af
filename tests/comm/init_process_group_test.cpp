#include "lockstep/comm/init_process_group.h"

#include <ATen/ops/full.h>
#include <gmock/gmock.h>

#include <cstdlib>
#include <thread>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/sockets/socket.h"
#include "lockstep/comm/spawn.h"

namespace lockstep {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

// Two processes that know nothing but what the call says.
void expect_two_ranks_meet(const std::string& init_method) {
  EXPECT_NO_THROW(spawn(2, [&](int rank) {
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK",
                             "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_USE_AGENT_STORE"}) {
      ::unsetenv(name);
    }
    auto world = init_process_group({.init_method = init_method,
                                     .rank = rank,
                                     .world_size = 2,
                                     .timeout = std::chrono::seconds(30)});
    const auto tensor = at::full({1}, rank + 1, at::kLong);
    world.all_reduce(tensor).wait();
    if (tensor.item<std::int64_t>() != 3 || world.found_by() != init_method ||
        world.local_size() != 2) {
      throw std::runtime_error("wrong: " + world.description());
    }
  }));
}

TEST(InitProcessGroup, MeetsOverTcp) {
  const int free_port = listen_on({"127.0.0.1", 0}).port;
  expect_two_ranks_meet("tcp://127.0.0.1:" + std::to_string(free_port));
}

TEST(InitProcessGroup, MeetsInAFileAndLeavesNone) {
  const std::string path = ::testing::TempDir() + "meeting" + std::to_string(::getpid());
  expect_two_ranks_meet("file://" + path);
  EXPECT_NE(::access(path.c_str(), F_OK), 0);
}

TEST(InitProcessGroup, ANamedBackendMakesARealGroupOfOne) {
  EXPECT_NO_THROW(spawn(1, [](int) {
    for (const char* name : {"RANK", "WORLD_SIZE"}) {
      ::unsetenv(name);
    }
    auto world = init_process_group({.backend = "gloo"});
    if (!world.is_distributed() || world.size() != 1 || world.found_by() != "alone") {
      throw std::runtime_error("wrong: " + world.description());
    }
    world.barrier();
  }));
}

TEST(InitProcessGroup, WrongOptionsAreNamed) {
  const auto expect_usage = [](const InitOptions& options, const char* text) {
    EXPECT_THAT([&] { init_process_group(options); }, ThrowsMessage<UsageError>(HasSubstr(text)))
        << text;
  };
  expect_usage({.init_method = "udp://h:1"}, "expected env://, tcp://host:port or file:///path");
  expect_usage({.init_method = "tcp://h:1"}, "rank is missing");
  expect_usage({.init_method = "tcp://h:1", .rank = 0}, "world_size is missing");
  expect_usage({.init_method = "tcp://h:1", .rank = 2, .world_size = 2}, "the rank is 2");
  expect_usage({.init_method = "tcp://h:1", .rank = 0, .world_size = 0}, "the world size is 0");
  expect_usage({.init_method = "tcp://h:http", .rank = 0, .world_size = 1}, "'http' is not a port");
  expect_usage({.init_method = "tcp://h", .rank = 0, .world_size = 1}, "no port");
  expect_usage({.init_method = "file://relative", .rank = 0, .world_size = 1}, "absolute");
  expect_usage({.init_method = "env://"}, "RANK");
  expect_usage({.backend = "glou"}, "'glou'");
  expect_usage({.timeout = std::chrono::milliseconds(0)}, "timeout");
}

TEST(InitProcessGroup, AnUnreachableMasterIsNamedAtTheDeadline) {
  const int nobody = listen_on({"127.0.0.1", 0}).port;
  EXPECT_THAT(
      [&] {
        init_process_group({.init_method = "tcp://127.0.0.1:" + std::to_string(nobody),
                            .rank = 1,
                            .world_size = 2,
                            .timeout = std::chrono::milliseconds(300)});
      },
      ThrowsMessage<PeerError>(AllOf(HasSubstr("rank 1"), HasSubstr(std::to_string(nobody)),
                                     HasSubstr("300 ms"), HasSubstr("MASTER_ADDR"))));
}

TEST(InitProcessGroup, ARankThatAsksForAnotherBackendOrSizeIsNamed) {
  const std::string path = ::testing::TempDir() + "differs" + std::to_string(::getpid());
  const auto join = [&](int rank, int size, const char* backend) {
    return init_process_group({.backend = backend,
                               .init_method = "file://" + path,
                               .rank = rank,
                               .world_size = size,
                               .timeout = std::chrono::seconds(3)});
  };
  std::thread first([&] {
    EXPECT_THAT([&] { join(0, 2, "lockstep"); },
                ThrowsMessage<PeerError>(
                    AllOf(HasSubstr("on rank 0 of 2"),
                          HasSubstr("rank 1 asks for the backend 'gloo' and a group of 3"))));
  });
  c10d::FileStore(path, 2).wait({"default_pg/0//lockstep/rank_info/first"},
                                std::chrono::seconds(30));
  EXPECT_THAT([&] { join(1, 3, "gloo"); },
              ThrowsMessage<UsageError>(
                  HasSubstr("rank 0 asks for the backend 'lockstep' and a group of 2")));
  first.join();
  ::unlink(path.c_str());
}

TEST(InitProcessGroup, ATakenPortIsNamed) {
  const auto taken = listen_on({"127.0.0.1", 0});
  EXPECT_THAT(
      [&] {
        init_process_group({.init_method = "tcp://127.0.0.1:" + std::to_string(taken.port),
                            .rank = 0,
                            .world_size = 2});
      },
      ThrowsMessage<UsageError>(AllOf(HasSubstr("taken"), HasSubstr(std::to_string(taken.port)))));
}

TEST(InitProcessGroup, AMeetingFileThatCannotBeMadeIsNamed) {
  EXPECT_THAT(
      [] {
        init_process_group({.init_method = "file:///no/such/folder/f", .rank = 0, .world_size = 2});
      },
      ThrowsMessage<IoError>(HasSubstr("/no/such/folder/f")));
}

}  // namespace
}  // namespace lockstep
