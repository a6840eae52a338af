#include "lockstep/train/report/run_log.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/log/read_events.h"
#include "tests/train/toys.h"

namespace lockstep::train {
namespace {

std::string content(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

using GpuScalar = std::pair<std::string, std::pair<std::int64_t, float>>;  // Tag, step and value.

// Those of the GPU, as TensorBoard reads them.
std::vector<GpuScalar> gpu_scalars_in(const std::string& folder) {
  std::vector<GpuScalar> found;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (!file.path().filename().string().starts_with("events")) {
      continue;
    }
    for (const auto& event : log::read_events(file.path()).events) {
      for (const auto& [tag, value] : event.summary) {
        if (tag.starts_with("GPU/")) {
          found.push_back({tag, {event.step, std::get<float>(value)}});
        }
      }
    }
  }
  return found;
}

void write_some(RunLog& log, std::int64_t step, std::int64_t epoch) {
  Interval interval;
  interval.position = {.epoch = epoch, .step = step};
  log.on_interval(interval);
}

TEST(RunLog, ResumedRunHasEachStepOnce) {
  const toys::Folder folder;
  const auto fail = [](const std::string& text) { FAIL() << text; };
  {
    RunLog log(folder.path, Position{}, fail);
    write_some(log, 1, 0);
    log.on_epoch({.position = {.epoch = 0, .step = 1}});
    write_some(log, 2, 1);
    log.on_epoch({.position = {.epoch = 1, .step = 2}});
  }
  RunLog log(folder.path, Position{.epoch = 1, .step = 1}, fail);
  EXPECT_EQ(content(folder.path + "/summary.csv"),
            "epoch,train_loss,eval_loss,eval_top1,eval_top5,lr\n0,0,0,0,0,0\n");
  write_some(log, 2, 1);
  const auto lines = content(folder.path + "/metrics.jsonl");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 3);
  EXPECT_THAT(log.files(), ::testing::Contains(::testing::HasSubstr("events.out.tfevents")));
}

TEST(RunLog, TellsHowBusyTheGpuIsWhereADriverTells) {
  const toys::Folder folder;
  const auto fail = [](const std::string& text) { FAIL() << text; };
  {
    RunLog log(folder.path, Position{}, fail);
    write_some(log, 1, 0);
    Interval interval;
    interval.position = {.epoch = 0, .step = 2};
    interval.gpu =
        GpuUse{.utilization = 97, .memory_bytes = 1024, .memory_total = {}, .watts = 650};
    log.on_interval(interval);
    interval.position.step = 3;
    interval.gpu->utilization = 50;
    interval.gpu->memory_bytes.reset();  // What the driver does not tell is not there.
    interval.gpu->watts.reset();
    log.on_interval(interval);
  }
  const auto lines = content(folder.path + "/metrics.jsonl");
  EXPECT_THAT(lines.substr(0, lines.find('\n')), ::testing::Not(::testing::HasSubstr("gpu")));
  EXPECT_THAT(lines, ::testing::HasSubstr("\"gpu_utilization\": 97, \"gpu_memory_bytes\": 1024, "
                                          "\"gpu_watts\": 650}"));
  EXPECT_THAT(
      gpu_scalars_in(folder.path),
      ::testing::ElementsAre(::testing::Pair("GPU/utilization", ::testing::Pair(2, 97.F)),
                             ::testing::Pair("GPU/memory_bytes", ::testing::Pair(2, 1024.F)),
                             ::testing::Pair("GPU/watts", ::testing::Pair(2, 650.F)),
                             ::testing::Pair("GPU/utilization", ::testing::Pair(3, 50.F))));
}

TEST(RunLog, AValidationThatIsMadeAgainIsThereOnce) {
  const toys::Folder folder;
  const auto fail = [](const std::string& text) { FAIL() << text; };
  const Epoch first{.position = {.epoch = 0, .step_in_epoch = 2, .step = 2}};
  const Epoch second{.position = {.epoch = 1, .step_in_epoch = 2, .step = 4}};
  {
    RunLog log(folder.path, Position{}, fail);
    write_some(log, 2, 0);
    log.on_epoch(first);
    write_some(log, 4, 1);
    log.on_epoch(second);
  }
  // From the checkpoint before the validation, which was not replaced by the one after it.
  {
    RunLog log(folder.path, second.position, fail);
    log.on_epoch(second);
  }
  const auto lines = content(folder.path + "/metrics.jsonl");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 4);
  int found = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder.path)) {
    if (file.path().filename().string().starts_with("events")) {
      for (const auto& event : log::read_events(file.path()).events) {
        found += static_cast<int>(
            std::ranges::count(event.summary, "Loss/val", &log::SummaryValue::tag));
      }
    }
  }
  EXPECT_EQ(found, 2);
}

// A training that is finished may be started again, and scores its test part again.
TEST(RunLog, TheTestIsThereOnce) {
  const toys::Folder folder;
  const auto fail = [](const std::string& text) { FAIL() << text; };
  const Position end{.epoch = 1, .step = 2};
  {
    RunLog log(folder.path, Position{}, fail);
    write_some(log, 2, 0);
    log.on_epoch({.position = {.epoch = 0, .step_in_epoch = 2, .step = 2}});
    log.on_test(end, {.loss = 0.5, .top1 = 75, .top5 = 100, .samples = 4});
  }
  {
    RunLog log(folder.path, end, fail);
    log.on_test(end, {.loss = 0.5, .top1 = 75, .top5 = 100, .samples = 4});
  }
  const auto lines = content(folder.path + "/metrics.jsonl");
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 3);
  EXPECT_THAT(lines, ::testing::EndsWith("{\"step\": 2, \"test_loss\": 0.5, \"test_top1\": 75, "
                                         "\"test_top5\": 100, \"test_samples\": 4}\n"));
  std::map<std::string, int> found;
  for (const auto& file : std::filesystem::directory_iterator(folder.path)) {
    if (file.path().filename().string().starts_with("events")) {
      for (const auto& event : log::read_events(file.path()).events) {
        for (const auto& value : event.summary) {
          ++found[value.tag];
        }
      }
    }
  }
  for (const char* tag : {"Loss/test", "acc1/test", "acc5/test", "Loss/val", "Loss/train"}) {
    EXPECT_EQ(found[tag], 1) << tag;
  }
}

}  // namespace
}  // namespace lockstep::train
