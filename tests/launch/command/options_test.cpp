#include "lockstep/launch/command/options.h"

#include <gmock/gmock.h>

#include <csignal>

#include "lockstep/base/error.h"
#include "lockstep/base/host.h"

namespace lockstep::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

constexpr Machine kFourGpus{.cores = 8, .gpus = 4, .visible_gpus = 4};

RunOptions parse(std::vector<std::string> arguments, const Machine& machine = {.cores = 8},
                 std::map<std::string, std::string, std::less<>> variables = {}) {
  arguments.emplace_back("prog");
  return parse_run_options(arguments, Environment(std::move(variables)), machine);
}

void expect_error(const std::vector<std::string>& arguments, const std::string& text) {
  EXPECT_THAT([&] { parse(arguments); }, ThrowsMessage<UsageError>(HasSubstr(text)));
}

TEST(RunOptions, DefaultsAreOneWorkerOnLoopback) {
  const auto options = parse({});
  EXPECT_EQ(options.workers, 1);
  EXPECT_EQ(options.nodes.count, 1);
  EXPECT_EQ(options.nodes.endpoint.host, "127.0.0.1");
  EXPECT_EQ(options.nodes.endpoint.port, 0);
  EXPECT_EQ(options.nodes.name, host_name());
  EXPECT_EQ(options.run_id.size(), 36U);
  EXPECT_NE(options.run_id, parse({}).run_id);
  EXPECT_EQ(options.shutdown_timeout, std::chrono::seconds(30));
  EXPECT_THAT(options.signals, ElementsAre(SIGTERM, SIGINT, SIGHUP, SIGQUIT));
}

TEST(RunOptions, OneNodeStaysOnLoopbackWhateverTheAddress) {
  const auto options = parse({"--master-addr", "10.0.0.1", "--master-port", "1234"});
  EXPECT_EQ(to_text(options.nodes.endpoint), "127.0.0.1:1234");
  EXPECT_EQ(options.run_id, "none");
  EXPECT_EQ(parse({"--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"}).nodes.endpoint.port, 0);
  EXPECT_EQ(parse({"--rdzv-backend=c10d", "--rdzv-endpoint=h:77"}).nodes.endpoint.port, 77);
}

TEST(RunOptions, SeveralNodesWithAStaticMaster) {
  const auto options = parse({"--nnodes", "2:2", "--node_rank", "1", "--master_addr", "10.0.0.1"});
  EXPECT_EQ(options.nodes.count, 2);
  EXPECT_EQ(options.nodes.rank, 1);
  EXPECT_EQ(to_text(options.nodes.endpoint), "10.0.0.1:29500");
  EXPECT_FALSE(options.nodes.first_to_listen_leads);
  EXPECT_EQ(to_text(parse({"--nnodes=2", "--master-addr=[::1]"}).nodes.endpoint), "[::1]:29500");
  EXPECT_EQ(to_text(parse({"--nnodes=2", "--master-addr=fe::1"}).nodes.endpoint), "[fe::1]:29500");
}

TEST(RunOptions, SeveralNodesWithC10d) {
  const auto options = parse({"--nnodes", "2", "--rdzv-backend", "c10d", "--rdzv-endpoint", "a"});
  EXPECT_EQ(to_text(options.nodes.endpoint), "a:29400");
  EXPECT_FALSE(options.nodes.rank.has_value());
  EXPECT_TRUE(options.nodes.first_to_listen_leads);
  expect_error({"--nnodes=2", "--rdzv-backend=c10d"}, "needs --rdzv-endpoint");
  expect_error({"--nnodes=2", "--rdzv-backend=c10d", "--rdzv-endpoint=a:0"}, "port 0");
}

using Variables = std::map<std::string, std::string, std::less<>>;

Variables second_of_two_slurm_nodes() {
  return {{"SLURM_JOB_ID", "17"}, {"SLURM_STEP_ID", "0"},        {"SLURM_PROCID", "1"},
          {"SLURM_NODEID", "1"},  {"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_STEP_NODELIST", "n[1-2]"}};
}

TEST(RunOptions, WithoutFlagsAboutNodesTheSchedulerTells) {
  const auto options = parse({"--nproc-per-node=2"}, {.cores = 8}, second_of_two_slurm_nodes());
  EXPECT_EQ(options.workers, 2);
  EXPECT_EQ(options.nodes.found_by, "Slurm step 17.0");
  EXPECT_EQ(options.nodes.count, 2);
  EXPECT_EQ(options.nodes.rank, 1);
  EXPECT_EQ(options.nodes.endpoint.host, "n1");
  EXPECT_FALSE(options.nodes.first_to_listen_leads);
  EXPECT_EQ(options.run_id, "slurm-17.0");
}

TEST(RunOptions, ARunIdGoesWithTheNodesOfTheScheduler) {
  const auto options = parse({"--rdzv-id=mine"}, {.cores = 8}, second_of_two_slurm_nodes());
  EXPECT_EQ(options.nodes.count, 2);
  EXPECT_EQ(options.run_id, "mine");
}

TEST(RunOptions, AnyFlagAboutNodesTakesAllOfThemFromTheUser) {
  for (const char* flag :
       {"--nnodes=1", "--node-rank=0", "--master-addr=10.0.0.1", "--master-port=1234",
        "--standalone", "--rdzv-backend=static", "--rdzv-endpoint=localhost:0"}) {
    const auto options = parse({flag}, {.cores = 8}, second_of_two_slurm_nodes());
    EXPECT_EQ(options.nodes.count, 1) << flag;
    EXPECT_EQ(options.nodes.found_by, "") << flag;
  }
  auto variables = second_of_two_slurm_nodes();
  variables["PET_NNODES"] = "1";
  EXPECT_EQ(parse({}, {.cores = 8}, variables).nodes.count, 1);
}

TEST(RunOptions, TutorialAliases) {
  const auto options = parse({"--nodes", "4", "--gpus", "2", "--nr", "3"});
  EXPECT_EQ(options.nodes.count, 4);
  EXPECT_EQ(options.workers, 2);
  EXPECT_EQ(options.nodes.rank, 3);
}

TEST(RunOptions, GpuIdsGiveTheWorkerCount) {
  const auto options = parse({"--gpu-ids", "1,3,0"}, kFourGpus);
  EXPECT_THAT(options.gpu_ids, ElementsAre(1, 3, 0));
  EXPECT_EQ(options.workers, 3);
  EXPECT_EQ(parse({"--gpu-idx=1,3", "--nproc-per-node=5"}, kFourGpus).workers, 5);
}

TEST(RunOptions, ShutdownTimeoutFromFlagThenVariable) {
  EXPECT_EQ(parse({}, {}, {{"TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "7"}}).shutdown_timeout,
            std::chrono::seconds(7));
  EXPECT_EQ(parse({"--shutdown-timeout=0.5"}).shutdown_timeout, std::chrono::milliseconds(500));
}

TEST(RunOptions, NodeTimeoutInBothSpellings) {
  EXPECT_EQ(parse({}).nodes.node_timeout, std::chrono::seconds(15));
  EXPECT_EQ(parse({"--node-timeout", "2.5"}).nodes.node_timeout, std::chrono::milliseconds(2500));
  EXPECT_EQ(parse({"--node_timeout=86400"}).nodes.node_timeout, std::chrono::hours(24));
  expect_error({"--node-timeout", "1.9"}, "--node-timeout is '1.9', expected 2 to 86400 seconds");
  expect_error({"--node-timeout", "86401"}, "--node-timeout is '86401'");
  expect_error({"--node-timeout", "x"}, "--node-timeout is 'x'");
}

TEST(RunOptions, NamesThatOtherNodesSeeHaveNoControlCharacters) {
  expect_error({"--rdzv-id", "a\x1b[2J"}, "--rdzv-id is 'a[2J' with control characters");
  expect_error({"--local-addr", "a\nb"}, "--local-addr is 'ab'");
  expect_error({"--role", "a\rb"}, "--role is 'ab'");
}

TEST(RunOptions, PrefixTemplateFromFlagThenVariable) {
  const std::map<std::string, std::string, std::less<>> variable{
      {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE", "v"}};
  EXPECT_EQ(parse({}, {}, variable).logs.prefix_template, "v");
  EXPECT_EQ(parse({"--log-line-prefix-template=f"}, {}, variable).logs.prefix_template, "f");
}

TEST(RunOptions, WrongValuesNameTheFlag) {
  expect_error({"--nnodes", "1:2"}, "not yet");
  expect_error({"--nnodes", "0"}, "--nnodes is '0'");
  expect_error({"--nnodes", "2:1"}, "--nnodes is '2:1'");
  expect_error({"--nnodes", "x"}, "--nnodes is 'x'");
  expect_error({"--node-rank", "1"}, "--node-rank is '1'");
  expect_error({"--nnodes=2", "--node-rank", "-1"}, "--node-rank is '-1'");
  expect_error({"--nnodes=2", "--standalone"}, "--standalone");
  expect_error({"--rdzv-backend", "etcd-v2"}, "etcd-v2");
  expect_error({"--max-restarts", "-1"}, "--max-restarts is '-1'");
  expect_error({"--monitor-interval", "soon"}, "--monitor-interval is 'soon'");
  expect_error({"--shutdown-timeout", "nan"}, "--shutdown-timeout is 'nan'");
  expect_error({"--signals-to-handle", "SIGKILL"}, "'SIGKILL' is no signal");
  expect_error({"--local-ranks-filter", "0,x"}, "--local-ranks-filter is '0,x'");
  expect_error({"--redirects", "0:9"}, "--redirects is '0:9'");
  expect_error({"--rdzv-endpoint", "a:b"}, "--rdzv-endpoint is 'a:b'");
}

TEST(RunOptions, LocalRanksThatDoNotExistNameFlagValueAndRange) {
  const std::string range = "expected local ranks from 0 to 1 (--nproc-per-node is 2)";
  expect_error({"--nproc-per-node=2", "-r", "0:3,5:1"}, "--redirects is '0:3,5:1', " + range);
  expect_error({"--nproc-per-node=2", "-t", "2:1"}, "--tee is '2:1', " + range);
  expect_error({"--nproc-per-node=2", "--local-ranks-filter=0,7"},
               "--local-ranks-filter is '0,7', " + range);
  EXPECT_EQ(parse({"--nproc-per-node=2", "-r", "1:3"}).logs.redirects.highest_rank(), 1);
}

TEST(RunOptions, NodesWithFewerWorkersMayBeGivenTheSameLocalRanks) {
  const auto options = parse({"--nnodes=2", "-r", "5:1", "-t", "5:2", "--local-ranks-filter=7"});
  EXPECT_EQ(options.logs.redirects.of(5), Streams::kOut);
}

TEST(RunOptions, NoProgramIsAnError) {
  EXPECT_THAT([] { parse_run_options({"--standalone"}, {}, {}); },
              ThrowsMessage<UsageError>(HasSubstr("no program given")));
}

TEST(RunOptions, HelpNeedsNothingElse) { EXPECT_TRUE(parse_run_options({"--help"}, {}, {}).help); }

}  // namespace
}  // namespace lockstep::launch
