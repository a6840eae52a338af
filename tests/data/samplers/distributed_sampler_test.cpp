#include "lockstep/data/samplers/distributed_sampler.h"

#include <ATen/Context.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "lockstep/base/error.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::ThrowsMessage;

TEST(DistributedSampler, GivesTheIndicesOfPython) {
  const test::TemporaryFolder folder;
  test::run_python("data/samplers/distributed_indices.py", {folder.file("indices")});
  std::ifstream file(folder.file("indices"));
  int lines = 0;
  for (std::string line; std::getline(file, line); ++lines) {
    std::istringstream fields(line);
    std::int64_t size = 0;
    std::int64_t epoch = 0;
    std::int64_t length = 0;
    std::int64_t replicas = 0;
    std::int64_t rank = 0;
    DistributedSamplerOptions options;
    fields >> size >> replicas >> rank >> options.shuffle >> options.seed >> options.drop_last >>
        epoch >> length;
    ASSERT_TRUE(fields);
    const std::vector<std::int64_t> expected{std::istream_iterator<std::int64_t>(fields), {}};

    DistributedSampler sampler(size, replicas, rank, options);
    sampler.set_epoch(epoch);
    ASSERT_EQ(sampler.size(), length) << line.substr(0, 80);
    ASSERT_EQ(sampler.indices(), expected) << line.substr(0, 80);
  }
  EXPECT_EQ(lines, 8526);
}

TEST(DistributedSampler, RanksTakeTurns) {
  EXPECT_THAT(DistributedSampler(5, 2, 0, {.shuffle = false}).indices(), ElementsAre(0, 2, 4));
  EXPECT_THAT(DistributedSampler(5, 2, 1, {.shuffle = false}).indices(), ElementsAre(1, 3, 0));
}

TEST(DistributedSampler, FewerSamplesThanRanksComeSeveralTimesOrNotAtAll) {
  DistributedSamplerOptions options{.shuffle = false};
  EXPECT_THAT(DistributedSampler(2, 5, 4, options).indices(), ElementsAre(0));
  options.drop_last = true;
  EXPECT_THAT(DistributedSampler(2, 5, 4, options).indices(), IsEmpty());
}

TEST(DistributedSampler, LeavesTheGlobalGeneratorAlone) {
  at::manual_seed(3);
  const at::Tensor expected = at::randn({4});
  at::manual_seed(3);
  (void)DistributedSampler(100, 2, 0).indices();
  EXPECT_TRUE(at::equal(at::randn({4}), expected));
}

TEST(DistributedSampler, AnOptionThatMakesNoSenseIsNamed) {
  const auto make = [](std::int64_t size, std::int64_t replicas, std::int64_t rank) {
    return [=] { DistributedSampler(size, replicas, rank); };
  };
  EXPECT_THAT(make(10, 4, 4), ThrowsMessage<UsageError>(HasSubstr("rank is 4, expected 0 to 3")));
  EXPECT_THAT(make(10, 4, -1), ThrowsMessage<UsageError>(HasSubstr("rank is -1")));
  EXPECT_THAT(make(10, 0, 0), ThrowsMessage<UsageError>(HasSubstr("num_replicas is 0")));
  EXPECT_THAT(make(-1, 1, 0), ThrowsMessage<UsageError>(HasSubstr("size is -1")));
  EXPECT_THAT([] { EvaluationSampler(10, 2, 2); },
              ThrowsMessage<UsageError>(HasSubstr("EvaluationSampler: rank is 2")));
}

TEST(DistributedSampler, ACopyFollowsTheEpoch) {
  DistributedSampler sampler(100, 2, 1);
  const DistributedSampler copy = sampler;
  const auto first = copy.indices();
  sampler.set_epoch(1);
  EXPECT_NE(copy.indices(), first);
  EXPECT_EQ(copy.indices(), sampler.indices());
}

TEST(EvaluationSampler, GivesEachSampleOnceOverAllRanks) {
  for (const std::int64_t size : {0, 1, 2, 7, 8, 9, 100}) {
    for (const std::int64_t replicas : {1, 2, 3, 8, 11}) {
      std::vector<int> seen(static_cast<std::size_t>(size));
      for (std::int64_t rank = 0; rank < replicas; ++rank) {
        const EvaluationSampler sampler(size, replicas, rank);
        ASSERT_EQ(sampler.size(), static_cast<std::int64_t>(sampler.indices().size()));
        for (const std::int64_t index : sampler.indices()) {
          ++seen.at(static_cast<std::size_t>(index));
        }
      }
      EXPECT_THAT(seen, Each(1)) << size << " samples on " << replicas << " ranks";
    }
  }
}

}  // namespace
}  // namespace lockstep::data
