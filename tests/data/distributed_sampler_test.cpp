#include "lockstep/data/distributed_sampler.h"

#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "lockstep/base/error.h"
#include "tests/base/child.h"
#include "tests/python.h"

namespace lockstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

TEST(DistributedSampler, GivesTheIndicesOfPython) {
  const test::TemporaryFolder folder;
  test::run_python("data/sampler_indices.py", {folder.file("indices")});
  std::ifstream file(folder.file("indices"));
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    std::istringstream fields(line);
    std::int64_t size = 0;
    std::int64_t epoch = 0;
    std::int64_t length = 0;
    DistributedSamplerOptions options;
    fields >> size >> options.num_replicas >> options.rank >> options.shuffle >> options.seed >>
        options.drop_last >> epoch >> length;
    ASSERT_TRUE(fields);
    const std::vector<std::int64_t> expected{std::istream_iterator<std::int64_t>(fields), {}};

    DistributedSampler sampler(size, options);
    sampler.set_epoch(epoch);
    ASSERT_EQ(sampler.size(), length) << line.substr(0, 80);
    ASSERT_EQ(sampler.indices(), expected) << line.substr(0, 80);
  }
  EXPECT_EQ(lines, 7926);
}

TEST(DistributedSampler, RanksTakeTurns) {
  EXPECT_THAT(DistributedSampler(5, {.num_replicas = 2, .rank = 0, .shuffle = false}).indices(),
              ElementsAre(0, 2, 4));
  EXPECT_THAT(DistributedSampler(5, {.num_replicas = 2, .rank = 1, .shuffle = false}).indices(),
              ElementsAre(1, 3, 0));
}

TEST(DistributedSampler, FewerSamplesThanRanksComeSeveralTimesOrNotAtAll) {
  DistributedSamplerOptions options{.num_replicas = 5, .rank = 4, .shuffle = false};
  EXPECT_THAT(DistributedSampler(2, options).indices(), ElementsAre(0));
  options.drop_last = true;
  EXPECT_THAT(DistributedSampler(2, options).indices(), IsEmpty());
}

TEST(DistributedSampler, LeavesTheGlobalGeneratorAlone) {
  at::manual_seed(3);
  const at::Tensor expected = at::randn({4});
  at::manual_seed(3);
  (void)DistributedSampler(100).indices();
  EXPECT_TRUE(at::equal(at::randn({4}), expected));
}

TEST(DistributedSampler, AnOptionThatMakesNoSenseIsNamed) {
  const auto make = [](std::int64_t replicas, std::int64_t rank) {
    return [=] { DistributedSampler(10, {.num_replicas = replicas, .rank = rank}); };
  };
  EXPECT_THAT(make(4, 4), ThrowsMessage<UsageError>(HasSubstr("rank is 4, expected 0 to 3")));
  EXPECT_THAT(make(4, -1), ThrowsMessage<UsageError>(HasSubstr("rank is -1")));
  EXPECT_THAT(make(0, 0), ThrowsMessage<UsageError>(HasSubstr("num_replicas is 0")));
  EXPECT_THAT([] { DistributedSampler(-1); }, ThrowsMessage<UsageError>(HasSubstr("size is -1")));
}

}  // namespace
}  // namespace lockstep::data
