// Schedules that go on in Python, and Python's that go on here, through checkpoint files.
#include "lockstep/train/checkpoint/scheduler_value.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "lockstep/train/checkpoint/checkpoint_writer.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/optim/schedules.h"

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Rates = std::vector<std::vector<double>>;

Rates rates_until_end(optim::LRScheduler& schedule) {
  Rates rates;
  for (int epoch = optim::kHalf; epoch < optim::kEpochs; ++epoch) {
    schedule.step();
    rates.push_back(schedule.get_last_lr());
  }
  return rates;
}

// Rates are hexadecimal texts.
std::map<std::string, Rates> rates_of_python(const test::TemporaryFolder& folder) {
  std::map<std::string, Rates> all;
  const auto read = nlohmann::json::parse(read_file(folder.file("continued")));
  for (const auto& [name, epochs] : read.items()) {
    for (const auto& epoch : epochs) {
      std::vector<double> rates;
      for (const auto& text : epoch) {
        rates.push_back(std::strtod(text.get<std::string>().c_str(), nullptr));
      }
      all[name].push_back(rates);
    }
  }
  return all;
}

TEST(SchedulerValue, PythonGoesOnFromOurs) {
  const test::TemporaryFolder folder;
  std::map<std::string, Rates> ours;
  for (const auto& [name, make] : optim::cases()) {
    const auto optimizer = optim::make_optimizer();
    const auto schedule = make(*optimizer);
    for (int epoch = 0; epoch < optim::kHalf; ++epoch) {
      schedule->step();
    }
    Checkpoint checkpoint;
    checkpoint.optimizer = optimizer->state_dict();
    checkpoint.lr_scheduler = to_value(schedule->state_dict());
    CheckpointWriter writer(folder.file(name));
    writer.save(checkpoint);
    writer.wait();
    ours[name] = rates_until_end(*schedule);
  }
  test::run_python("train/optim/run_schedules.py", {folder.file(""), "resume"});
  EXPECT_EQ(rates_of_python(folder), ours);
}

TEST(SchedulerValue, WeGoOnFromPythons) {
  const test::TemporaryFolder folder;
  test::run_python("train/optim/run_schedules.py", {folder.file(""), "save"});
  const auto pythons = rates_of_python(folder);
  ASSERT_EQ(pythons.size(), optim::cases().size());
  for (const auto& [name, make] : optim::cases()) {
    SCOPED_TRACE(name);
    const auto optimizer = optim::make_optimizer();
    const auto schedule = make(*optimizer);
    const auto saved = load_checkpoint(folder.file(name + ".pt")).checkpoint;
    optimizer->load_state_dict(saved.optimizer.value());
    schedule->load_state_dict(scheduler_from_value(saved.lr_scheduler));
    EXPECT_EQ(rates_until_end(*schedule), pythons.at(name));
  }
}

TEST(SchedulerValue, NumbersThatPythonHasAsIntegersAreNumbers) {
  const auto state = scheduler_from_value(checkpoint::Dict{{"base_lrs", checkpoint::List{1, 0.5}},
                                                           {"_milestones", checkpoint::Tuple{{3}}},
                                                           {"name", "x"}});
  EXPECT_EQ(std::get<std::vector<double>>(state.values.at("base_lrs")),
            (std::vector<double>{1, 0.5}));
  EXPECT_EQ(std::get<std::vector<std::int64_t>>(state.values.at("_milestones")),
            std::vector<std::int64_t>{3});
  EXPECT_FALSE(state.values.contains("name"));
}

TEST(SchedulerValue, SomethingElseIsAnError) {
  EXPECT_THAT([] { scheduler_from_value(checkpoint::Value(3)); },
              ThrowsMessage<IoError>(HasSubstr("the schedule's state is an integer, expected")));
}

}  // namespace
}  // namespace lockstep
