#include "lockstep/train/program/start.h"

#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(LaunchArguments, OneRankNeedsNoLauncher) {
  EXPECT_FALSE(launch_arguments({}, StartedBy::kNobody, 0, 0));
  EXPECT_FALSE(launch_arguments({.nproc = 1}, StartedBy::kNobody, 0, 4));
}

TEST(LaunchArguments, GpusAreRanks) {
  EXPECT_THAT(*launch_arguments({}, StartedBy::kNobody, 0, 2),
              ElementsAre("--nproc-per-node", "2", "--no-python"));
  EXPECT_THAT([] { launch_arguments({.nproc = 4}, StartedBy::kNobody, 0, 2); },
              ThrowsMessage<UsageError>(HasSubstr("HINT: --gpus 2")));
  EXPECT_TRUE(launch_arguments({.nproc = 4, .backend = "cpu:gloo"}, StartedBy::kNobody, 0, 2));
  EXPECT_THROW(
      launch_arguments({.nproc = 4, .backend = "cpu:gloo,cuda:nccl"}, StartedBy::kNobody, 0, 2),
      UsageError);
}

TEST(LaunchArguments, NodesAndRestartsAreTheLaunchers) {
  EXPECT_THAT(*launch_arguments(
                  {.nproc = 1, .nodes = 2, .node_rank = 1, .master_addr = "a", .max_restarts = 3},
                  StartedBy::kNobody, 0, 0),
              ElementsAre("--nproc-per-node", "1", "--nnodes", "2", "--node-rank", "1",
                          "--master-addr", "a", "--max-restarts", "3", "--no-restart-on",
                          "2,74,129,130,143", "--no-python"));
  EXPECT_THROW(launch_arguments({.nodes = 2, .node_rank = 2}, StartedBy::kNobody, 0, 0),
               UsageError);
}

TEST(LaunchArguments, ARankStartsNoOthers) {
  EXPECT_FALSE(launch_arguments({.nproc = 2}, StartedBy::kOther, 2, 0));
  EXPECT_THAT([] { launch_arguments({.nproc = 2}, StartedBy::kOther, 3, 0); },
              ThrowsMessage<UsageError>(HasSubstr("one of 3 already")));
}

// They came with the rest of the command line of the `lockstep train` that obeyed them.
TEST(LaunchArguments, ARankOfOursMayHaveFlagsOfItsLauncher) {
  const JobConfig job{.nproc = 2,
                      .nodes = 2,
                      .node_rank = 1,
                      .master_addr = "a",
                      .gpu_ids = "1,2",
                      .max_restarts = 3,
                      .join_timeout_seconds = 60,
                      .log_dir = "logs",
                      .shutdown_timeout_seconds = 60};
  EXPECT_FALSE(launch_arguments(job, StartedBy::kOwnLauncher, 2, 4));
}

TEST(LaunchArguments, ARankOfAnotherLauncherRefusesFlagsThatItWouldIgnore) {
  const auto refused = [](const JobConfig& job, const char* text) {
    EXPECT_THAT([&] { launch_arguments(job, StartedBy::kOther, 2, 4); },
                ThrowsMessage<UsageError>(::testing::AllOf(HasSubstr(text), HasSubstr("HINT: "))));
  };
  refused({.nodes = 2}, "--nodes would be ignored");
  refused({.node_rank = 1}, "--nr would be ignored");
  refused({.master_addr = "a"}, "--master-addr would be ignored");
  refused({.master_port = 1}, "--master-port would be ignored");
  refused({.max_restarts = 1}, "--max-restarts would be ignored");
  refused({.join_timeout_seconds = 1}, "--join-timeout would be ignored");
  refused({.log_dir = "logs"}, "--log-dir would be ignored");
  refused({.shutdown_timeout_seconds = 1}, "--shutdown-timeout would be ignored");
  refused({.rank = 0}, "--rank would be ignored");
  refused({.world_size = 2}, "--world-size would be ignored");
  refused({.gpu_ids = "1,2"}, "CUDA_VISIBLE_DEVICES=1,2");
  EXPECT_FALSE(
      launch_arguments({.backend = "gloo", .timeout_seconds = 9}, StartedBy::kOther, 2, 4));
}

TEST(RequireFewRanks, MoreThanTheCoresCanBearAreRefused) {
  EXPECT_NO_THROW(require_few_ranks(64, {.cores = 1}));
  EXPECT_NO_THROW(require_few_ranks(160, {.cores = 10}));
  EXPECT_NO_THROW(require_few_ranks(100, {.cores = 2, .gpus = 100})) << "each has a GPU";
  EXPECT_THAT([] { require_few_ranks(65, {.cores = 2}); },
              ThrowsMessage<UsageError>(::testing::AllOf(
                  HasSubstr("--nproc is 65, expected at most 64 ranks"),
                  HasSubstr("2 usable cores; HINT: --nproc 2, one for each usable core"))));
  EXPECT_THROW(require_few_ranks(161, {.cores = 10, .gpus = 8}), UsageError);
}

TEST(RanksOfJob, AreThoseOfAllMachines) {
  EXPECT_EQ(ranks_of_job({}, 0), 1);
  EXPECT_EQ(ranks_of_job({.nproc = 3, .nodes = 2}, 0), 6);
  EXPECT_EQ(ranks_of_job({.nodes = 2}, 4), 8);
  EXPECT_EQ(ranks_of_job({.gpu_ids = "1,6"}, 8), 2);
  EXPECT_EQ(ranks_of_job({.dist_url = "tcp://a:1", .rank = 0, .world_size = 5}, 0), 5);
}

TEST(StartedBy, OurOwnRanksAreToldByAVariable) {
  EXPECT_EQ(started_by(false, Environment{}), StartedBy::kNobody);
  EXPECT_EQ(started_by(false, Environment{{kOwnRanks, "1"}}), StartedBy::kNobody);
  EXPECT_EQ(started_by(true, Environment{}), StartedBy::kOther);
  EXPECT_EQ(started_by(true, Environment{{kOwnRanks, "1"}}), StartedBy::kOwnLauncher);
}

TEST(RequireFileForRanks, APipeIsRefused) {
  EXPECT_NO_THROW(require_file_for_ranks(""));
  EXPECT_NO_THROW(require_file_for_ranks("/proc/self/exe"));
  EXPECT_THAT([] { require_file_for_ranks("/dev/null"); },
              ThrowsMessage<UsageError>(HasSubstr("no file that each rank could read again")));
}

TEST(LaunchArguments, NumbersThatCannotBeAreRefused) {
  const auto refused = [](const JobConfig& job, const char* text) {
    EXPECT_THAT([&] { launch_arguments(job, StartedBy::kNobody, 0, 0); },
                ThrowsMessage<UsageError>(HasSubstr(text)));
  };
  refused({.master_port = -5}, "--master-port is -5");
  refused({.master_port = 65536}, "--master-port is 65536");
  refused({.rank = -5}, "--rank and --world-size are for --dist-url");
  refused({.world_size = -5}, "--rank and --world-size are for --dist-url");
}

TEST(LaunchArguments, TheTimeToJoinAndTheLogsAreTheLaunchers) {
  EXPECT_THAT(*launch_arguments({.nproc = 2, .join_timeout_seconds = 9}, StartedBy::kNobody, 0, 0),
              ElementsAre("--nproc-per-node", "2", "--join-timeout", "9", "--no-python"));
  EXPECT_THAT(*launch_arguments({.log_dir = "logs"}, StartedBy::kNobody, 0, 0),
              ElementsAre("--nproc-per-node", "1", "--log-dir", "logs", "--no-python"))
      << "one rank, too";
  EXPECT_THAT([] { launch_arguments({.join_timeout_seconds = -1}, StartedBy::kNobody, 0, 0); },
              ThrowsMessage<UsageError>(HasSubstr("--join-timeout")));
}

TEST(LaunchArguments, TheTimeToSaveIsTheLaunchers) {
  EXPECT_THAT(
      *launch_arguments({.nproc = 2, .shutdown_timeout_seconds = 600}, StartedBy::kNobody, 0, 0),
      ElementsAre("--nproc-per-node", "2", "--shutdown-timeout", "600", "--no-python"));
  EXPECT_THAT(*launch_arguments({.shutdown_timeout_seconds = 9}, StartedBy::kNobody, 0, 0),
              ElementsAre("--nproc-per-node", "1", "--shutdown-timeout", "9", "--no-python"))
      << "one rank, too";
  EXPECT_THAT([] { launch_arguments({.shutdown_timeout_seconds = -1}, StartedBy::kNobody, 0, 0); },
              ThrowsMessage<UsageError>(HasSubstr("--shutdown-timeout")));
}

TEST(LaunchArguments, DistUrlNeedsRankAndWorldSize) {
  const JobConfig job{.dist_url = "tcp://a:1", .rank = 1, .world_size = 2};
  EXPECT_FALSE(launch_arguments(job, StartedBy::kNobody, 0, 0));
  EXPECT_EQ(init_options(job).init_method, "tcp://a:1");
  EXPECT_EQ(init_options(job).rank, 1);
  EXPECT_THROW(launch_arguments({.dist_url = "tcp://a:1"}, StartedBy::kNobody, 0, 0), UsageError);
}

TEST(InitOptionsOfFlags, HaveTheBackendAndTheTimeout) {
  const auto options = init_options({.backend = "gloo", .timeout_seconds = 7});
  EXPECT_EQ(options.backend, "gloo");
  EXPECT_EQ(options.timeout, std::chrono::seconds(7));
  EXPECT_EQ(init_options({}).backend, "");
  EXPECT_EQ(init_options({}).timeout, std::chrono::minutes(30));
}

TEST(LaunchArguments, GpuIdsAreRanks) {
  EXPECT_THAT(*launch_arguments({.gpu_ids = "1,6"}, StartedBy::kNobody, 0, 8),
              ElementsAre("--nproc-per-node", "2", "--gpu-ids", "1,6", "--no-python"));
  EXPECT_THAT(*launch_arguments({.nproc = 1, .gpu_ids = "3"}, StartedBy::kNobody, 0, 8),
              ElementsAre("--nproc-per-node", "1", "--gpu-ids", "3", "--no-python"));
  EXPECT_THAT([] { launch_arguments({.nproc = 3, .gpu_ids = "3,4"}, StartedBy::kNobody, 0, 8); },
              ThrowsMessage<UsageError>(HasSubstr("--gpu-ids has 2 GPUs")));
}

TEST(LaunchArguments, FlagsThatWouldBeIgnoredAreRefused) {
  const auto refused = [](JobConfig job, const char* text, bool by_url = true) {
    if (by_url) {
      job.dist_url = "tcp://a:1";
      job.rank = 0;
      job.world_size = 2;
    }
    EXPECT_THAT([&] { launch_arguments(job, StartedBy::kNobody, 0, 4); },
                ThrowsMessage<UsageError>(::testing::AllOf(HasSubstr(text), HasSubstr("HINT: "))));
  };
  refused({.nproc = 2}, "--nproc is given with --dist-url");
  refused({.nodes = 2}, "--nodes is given with --dist-url");
  refused({.node_rank = 1}, "--nr is given with --dist-url");
  refused({.master_addr = "b"}, "--master-addr is given with --dist-url");
  refused({.master_port = 2}, "--master-port is given with --dist-url");
  refused({.max_restarts = 1}, "--max-restarts is given with --dist-url");
  refused({.shutdown_timeout_seconds = 1}, "--shutdown-timeout is given with --dist-url");
  refused({.gpu_ids = "1"}, "CUDA_VISIBLE_DEVICES=1");
  refused({.rank = 0}, "--rank and --world-size are for --dist-url", false);
  refused({.world_size = 2}, "--rank and --world-size are for --dist-url", false);
  refused({.dist_url = "tcp://a:1", .rank = 2, .world_size = 2}, "--rank is 2", false);
}

TEST(LaunchArguments, ATimeoutOfNothingIsRefusedWhoeverStartedTheRank) {
  const auto refused =
      ThrowsMessage<UsageError>(::testing::AllOf(HasSubstr("--timeout is 0"), HasSubstr("HINT: ")));
  const JobConfig by_url{.dist_url = "tcp://a:1", .rank = 0, .world_size = 2, .timeout_seconds = 0};
  EXPECT_THAT([&] { launch_arguments(by_url, StartedBy::kNobody, 0, 0); }, refused);
  EXPECT_THAT([&] { launch_arguments({.timeout_seconds = 0}, StartedBy::kOther, 2, 0); }, refused);
  EXPECT_THAT([&] { launch_arguments({.timeout_seconds = 0}, StartedBy::kNobody, 0, 0); }, refused);
}

TEST(WithCpuBackend, AddsOneWhereThereIsNone) {
  auto registry = BackendRegistry::built_in();
  registry.add("nccl", {c10::kCUDA}, nullptr);
  EXPECT_EQ(with_cpu_backend("nccl", registry), "cpu:lockstep,cuda:nccl");
  EXPECT_EQ(with_cpu_backend("cuda:nccl", registry), "cpu:lockstep,cuda:nccl");
  EXPECT_EQ(with_cpu_backend("cpu:gloo,cuda:nccl", registry), "cpu:gloo,cuda:nccl");
  EXPECT_EQ(with_cpu_backend("gloo", registry), "gloo");
  EXPECT_EQ(with_cpu_backend("", registry), "");
  EXPECT_THROW(with_cpu_backend("nothing", registry), UsageError);
}

// By what a backend can do, not by its name.
TEST(NeedsAGpuForEachRank, WhereTheBackendForGpusSharesNone) {
  BackendRegistry registry;
  registry.add("own", {c10::kCUDA}, nullptr);
  registry.add("sharing", {c10::kCPU, c10::kCUDA}, nullptr, {Capability::kSharesGpus});
  registry.add("host", {c10::kCPU}, nullptr);
  EXPECT_TRUE(needs_a_gpu_for_each_rank("", registry));
  EXPECT_TRUE(needs_a_gpu_for_each_rank("own", registry));
  EXPECT_TRUE(needs_a_gpu_for_each_rank("cpu:sharing,cuda:own", registry));
  EXPECT_FALSE(needs_a_gpu_for_each_rank("sharing", registry));
  EXPECT_FALSE(needs_a_gpu_for_each_rank("cpu:host,cuda:sharing", registry));
  EXPECT_FALSE(needs_a_gpu_for_each_rank("host", registry));
  EXPECT_THROW(needs_a_gpu_for_each_rank("nothing", registry), UsageError);
}

TEST(OfferOf, ABuildWithoutCudaLeavesGpusOutAndSaysSo) {
  const launch::Machine four{.cores = 8, .gpus = 4, .visible_gpus = 4};
  BackendRegistry without;
  auto with = without;
  with.add("nccl", {c10::kCUDA}, nullptr);

  const auto offer = offer_of(four, {}, without);
  EXPECT_EQ(offer.machine.visible_gpus, 0);
  EXPECT_EQ(offer.machine.cores, 8);
  EXPECT_THAT(offer.warning, HasSubstr("built without CUDA, so the 4 GPUs of this machine are not "
                                       "used; HINT: "));
  JobConfig job;
  job.gpu_ids = "1,3";
  EXPECT_THAT([&] { offer_of(four, job, without); },
              ThrowsMessage<UsageError>(HasSubstr("--gpu-ids is '1,3', but this lockstep was built "
                                                  "without CUDA")));

  EXPECT_EQ(offer_of(four, job, with).machine.visible_gpus, 4);
  EXPECT_EQ(offer_of(four, {}, with).warning, "");
  EXPECT_EQ(offer_of({.cores = 8}, {}, without).warning, "");
  job.backend = "cpu:gloo";  // It was chosen.
  EXPECT_EQ(offer_of(four, job, without).warning, "");
}

}  // namespace
}  // namespace lockstep::train
