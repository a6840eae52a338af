#include "lockstep/data/samplers/random_samplers.h"

#include <ATen/Context.h>
#include <gmock/gmock.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <memory>
#include <sstream>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/data/samplers/batch_sampler.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

struct PythonLine {
  std::string kind;
  std::int64_t size = 0;
  std::int64_t num_samples = 0;
  bool replacement = false;
  std::uint64_t seed = 0;
  bool default_generator = false;
  std::int64_t batch_size = 0;
  bool drop_last = false;
  std::vector<double> weights;
  std::vector<std::int64_t> indices;
};

PythonLine parse(const std::string& text) {
  PythonLine line;
  std::istringstream fields(text);
  fields >> line.kind >> line.size >> line.num_samples >> line.replacement >> line.seed >>
      line.default_generator >> line.batch_size >> line.drop_last;
  for (std::int64_t i = 0; line.kind == "weighted" && i < line.size; ++i) {
    fields >> line.weights.emplace_back();
  }
  if (!fields) {
    throw std::runtime_error("not a line of random_indices.py: " + text.substr(0, 80));
  }
  line.indices = {std::istream_iterator<std::int64_t>(fields), {}};
  return line;
}

std::shared_ptr<Sampler> make_sampler(const PythonLine& line) {
  std::optional<at::Generator> generator;
  if (line.default_generator) {
    at::manual_seed(line.seed);
  } else {
    generator = seeded_generator(line.seed);
  }
  if (line.kind == "random") {
    RandomSamplerOptions options{.replacement = line.replacement, .generator = generator};
    if (line.num_samples > 0) {
      options.num_samples = line.num_samples;
    }
    return std::make_shared<RandomSampler>(line.size, options);
  }
  if (line.kind == "subset") {
    std::vector<std::int64_t> subset;
    for (std::int64_t i = 0; i < line.size; ++i) {
      subset.push_back(7 * i + 3);
    }
    return std::make_shared<SubsetRandomSampler>(subset, generator);
  }
  return std::make_shared<WeightedRandomSampler>(
      line.weights, WeightedRandomSamplerOptions{.num_samples = line.num_samples,
                                                 .replacement = line.replacement,
                                                 .generator = generator});
}

std::vector<std::int64_t> three_epochs(const PythonLine& line) {
  const auto sampler = make_sampler(line);
  std::vector<std::int64_t> indices;
  for (int epoch = 0; epoch < 3; ++epoch) {
    if (line.batch_size == 0) {
      const auto drawn = sampler->indices();
      EXPECT_EQ(sampler->size(), static_cast<std::int64_t>(drawn.size()));
      indices.insert(indices.end(), drawn.begin(), drawn.end());
      continue;
    }
    const BatchSampler batches(sampler,
                               {.batch_size = line.batch_size, .drop_last = line.drop_last});
    for (const auto& batch : batches.batches()) {
      indices.insert(indices.end(), batch.begin(), batch.end());
    }
  }
  return indices;
}

TEST(RandomSamplers, GiveTheIndicesOfPython) {
  const test::TemporaryFolder folder;
  test::run_python("data/samplers/random_indices.py", {folder.file("indices")});
  std::ifstream file(folder.file("indices"));
  int lines = 0;
  for (std::string text; std::getline(file, text); ++lines) {
    const PythonLine line = parse(text);
    ASSERT_EQ(three_epochs(line), line.indices) << text.substr(0, 80);
  }
  EXPECT_EQ(lines, 600);
}

TEST(RandomSampler, NothingToDrawFromIsRefused) {
  EXPECT_THAT([] { RandomSampler(0); },
              ThrowsMessage<UsageError>(HasSubstr("0 samples from a data set of 0")));
  EXPECT_THAT([] { RandomSampler(0, {.num_samples = 5}); },
              ThrowsMessage<UsageError>(HasSubstr("5 samples from a data set of 0")));
  EXPECT_THAT([] { RandomSampler(5, {.num_samples = 0}); },
              ThrowsMessage<UsageError>(HasSubstr("0 samples from a data set of 5")));
}

TEST(WeightedRandomSampler, WeightsThatCannotBeDrawnFromAreNamed) {
  const auto make = [](std::vector<double> weights, std::int64_t samples, bool replacement) {
    return [=] {
      WeightedRandomSampler(weights, {.num_samples = samples, .replacement = replacement});
    };
  };
  EXPECT_THAT(make({1, -2}, 1, true), ThrowsMessage<UsageError>(HasSubstr("weight 1 is -2")));
  EXPECT_THAT(make({std::nan(""), 1}, 1, true),
              ThrowsMessage<UsageError>(HasSubstr("weight 0 is")));
  EXPECT_THAT(make({0, 0}, 1, true),
              ThrowsMessage<UsageError>(HasSubstr("0 are positive, expected at least 1")));
  EXPECT_THAT(make({1, 0, 1}, 3, false),
              ThrowsMessage<UsageError>(HasSubstr("2 are positive, expected at least 3")));
  EXPECT_THAT(make({1}, 0, true), ThrowsMessage<UsageError>(HasSubstr("num_samples is 0")));
}

}  // namespace
}  // namespace lockstep::data
