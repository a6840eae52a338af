// Schedules beside torch's: the same doubles, and states that go from one to the other.
#include "lockstep/train/optim/lr_scheduler.h"

#include <gmock/gmock.h>

#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"
#include "lockstep/base/fd.h"
#include "tests/support/python.h"
#include "tests/support/temporary_folder.h"
#include "tests/train/optim/schedules.h"

namespace lockstep::optim {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
json json_of(const SchedulerState& state) {
  json result = json::object();
  for (const auto& [name, value] : state.values) {
    if (const auto* counts = std::get_if<std::map<std::int64_t, std::int64_t>>(&value)) {
      for (const auto& [milestone, count] : *counts) {
        result[name][std::to_string(milestone)] = count;
      }
    } else {
      std::visit([&, &key = name](const auto& held) { result[key] = held; }, value);
    }
  }
  for (const auto& inner : state.schedulers) {
    result["_schedulers"].push_back(json_of(inner));
  }
  return result;
}

SchedulerState state_of(const json& saved) {
  SchedulerState state;
  for (const auto& [name, value] : saved.items()) {
    if (name == "_schedulers") {
      for (const auto& inner : value) {
        state.schedulers.push_back(state_of(inner));
      }
    } else if (value.is_object()) {
      std::map<std::int64_t, std::int64_t> counts;
      for (const auto& [milestone, count] : value.items()) {
        counts[std::stoll(milestone)] = count;
      }
      state.values[name] = counts;
    } else if (value.is_boolean()) {
      state.values[name] = value.get<bool>();
    } else if (value.is_number_integer()) {
      state.values[name] = value.get<std::int64_t>();
    } else if (value.is_number()) {
      state.values[name] = value.get<double>();
    } else if (value[0].is_number_integer()) {
      state.values[name] = value.get<std::vector<std::int64_t>>();
    } else {
      state.values[name] = value.get<std::vector<double>>();
    }
  }
  return state;
}

void expect_rates(const LRScheduler& schedule, const Optimizer& optimizer, const json& expected) {
  for (std::size_t group = 0; group < 2; ++group) {
    const double rate = std::strtod(expected.at(group).get<std::string>().c_str(), nullptr);
    ASSERT_EQ(optimizer.lr(group), rate);
    ASSERT_EQ(schedule.get_last_lr().at(group), rate);
  }
}

TEST(LRScheduler, HasTheRatesOfPythonAndGoesOnFromItsState) {
  const test::TemporaryFolder folder;
  test::run_python("train/optim/run_schedules.py", {folder.file("")});
  const auto pythons = json::parse(read_file(folder.file("pythons")));
  ASSERT_EQ(pythons.size(), cases().size());
  for (const auto& [name, make] : cases()) {
    SCOPED_TRACE(name);
    const auto& rates = pythons.at(name).at("rates");
    const auto optimizer = make_optimizer();
    const auto schedule = make(*optimizer);
    expect_rates(*schedule, *optimizer, rates.at(0));
    for (int epoch = 1; epoch <= kEpochs; ++epoch) {
      SCOPED_TRACE(epoch);
      schedule->step();
      expect_rates(*schedule, *optimizer, rates.at(epoch));
    }

    const auto again = make_optimizer();
    const auto continued = make(*again);
    const auto& half = pythons.at(name).at("half");
    for (std::size_t group = 0; group < 2; ++group) {
      again->set_lr(group, half.at("lr").at(group).get<double>());
    }
    continued->load_state_dict(state_of(half.at("state")));
    for (int epoch = kHalf + 1; epoch <= kEpochs; ++epoch) {
      SCOPED_TRACE(epoch);
      continued->step();
      expect_rates(*continued, *again, rates.at(epoch));
    }
  }
}

TEST(LRScheduler, PythonGoesOnFromItsState) {
  const test::TemporaryFolder folder;
  json states;
  std::map<std::string, std::vector<std::vector<double>>> expected;
  for (const auto& [name, make] : cases()) {
    const auto optimizer = make_optimizer();
    const auto schedule = make(*optimizer);
    for (int epoch = 1; epoch <= kEpochs; ++epoch) {
      schedule->step();
      if (epoch == kHalf) {
        states[name] = {{"state", json_of(schedule->state_dict())},
                        {"lr", schedule->get_last_lr()}};
      } else if (epoch > kHalf) {
        expected[name].push_back(schedule->get_last_lr());
      }
    }
  }
  std::ofstream(folder.file("ours")) << states;
  test::run_python("train/optim/run_schedules.py", {folder.file(""), "continue"});
  const auto continued = json::parse(read_file(folder.file("continued")));
  for (const auto& [name, rates] : expected) {
    SCOPED_TRACE(name);
    ASSERT_EQ(continued.at(name).size(), rates.size());
    for (std::size_t i = 0; i < rates.size(); ++i) {
      for (std::size_t group = 0; group < 2; ++group) {
        const auto text = continued.at(name)[i][group].get<std::string>();
        ASSERT_EQ(rates[i][group], std::strtod(text.c_str(), nullptr)) << i;
      }
    }
  }
}

TEST(LRScheduler, SenselessOptionsAreErrors) {
  const auto optimizer = make_optimizer();
  const auto refused = [](const std::function<void()>& make, const char* what) {
    EXPECT_THAT(make, ThrowsMessage<UsageError>(HasSubstr(what)));
  };
  refused([&] { StepLR(*optimizer, {.step_size = 0}); }, "step_size is 0");
  refused([&] { CosineAnnealingLR(*optimizer, {.t_max = 0}); }, "t_max is 0");
  refused([&] { LinearLR(*optimizer, {.start_factor = 0}); }, "start_factor is 0");
  refused([&] { LinearLR(*optimizer, {.end_factor = 2}); }, "end_factor is 2");
  refused([&] { LinearLR(*optimizer, {.total_iters = 0}); }, "total_iters is 0");
}

TEST(LRScheduler, SenselessOptionsOfAStateAreErrorsToo) {
  const auto optimizer = make_optimizer();
  const auto refused = [](LRScheduler& schedule, const char* name, const char* what) {
    const auto before = json_of(schedule.state_dict());
    auto state = schedule.state_dict();
    state.values[name] = std::int64_t{0};
    EXPECT_THAT([&] { schedule.load_state_dict(state); },
                ThrowsMessage<UsageError>(HasSubstr(what)));
    EXPECT_EQ(json_of(schedule.state_dict()), before) << "nothing changed";
    schedule.step();
  };
  StepLR step(*optimizer);
  refused(step, "step_size", "StepLR: step_size is 0");
  CosineAnnealingLR cosine(*optimizer);
  refused(cosine, "T_max", "CosineAnnealingLR: t_max is 0");
  LinearLR linear(*optimizer);
  refused(linear, "start_factor", "LinearLR: start_factor is 0");
  refused(linear, "total_iters", "LinearLR: total_iters is 0");
}

TEST(LRScheduler, AStateOfAnotherScheduleIsRefused) {
  const auto optimizer = make_optimizer();
  StepLR step(*optimizer);
  CosineAnnealingLR cosine(*optimizer);
  EXPECT_THAT([&] { step.load_state_dict(cosine.state_dict()); },
              ThrowsMessage<UsageError>(HasSubstr("has no 'step_size'")));
  auto state = step.state_dict();
  state.values["base_lrs"] = std::vector<double>{0.1};
  EXPECT_THAT([&] { step.load_state_dict(state); },
              ThrowsMessage<UsageError>(HasSubstr("a state of 1 parameter groups, expected 2")));
}

}  // namespace
}  // namespace lockstep::optim
