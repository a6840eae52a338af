#include "lockstep/train/run/closing_summary.h"

#include <gmock/gmock.h>

namespace lockstep::train {
namespace {

TEST(ClosingText, TellsHowGoodHowFastAndWhatIsNext) {
  EXPECT_EQ(closing_text({.headline = "finished 3 epochs of convnet on fashion-mnist",
                          .loss = 0.2549,
                          .top1 = 90.61,
                          .top5 = 99.78,
                          .best_top1 = 90.8,
                          .best_epoch = 2,
                          .wall_seconds = 130.4,
                          .samples_per_second = 1503.2,
                          .ranks = 2,
                          .compute = 0.85,
                          .communication = 0.07,
                          .data_wait = 0.015,
                          .files = {"runs/x/summary.csv", "runs/x/checkpoints/best.pt"},
                          .next_command = "lockstep train --epochs 5"}),
            "finished 3 epochs of convnet on fashion-mnist\n"
            "  accuracy   Acc@1 90.61 %, Acc@5 99.78 %, loss 0.2549\n"
            "  best       Acc@1 90.80 % in epoch 2\n"
            "  time       2:10, 1503 images/s on 2 ranks\n"
            "  spent on   compute 85 %, communication 7 %, data wait 2 %, other 6 %\n"
            "  files      runs/x/summary.csv\n"
            "             runs/x/checkpoints/best.pt\n"
            "  next       lockstep train --epochs 5\n");
}

TEST(ClosingText, LeavesOutWhatIsNotKnown) {
  EXPECT_EQ(closing_text({.headline = "stopped by SIGINT", .wall_seconds = 4.26}),
            "stopped by SIGINT\n"
            "  time       4.3 s\n");
}

TEST(ClosingText, TellsWhatRestartsCostAndWhatWasLost) {
  EXPECT_EQ(closing_text({.headline = "finished",
                          .wall_seconds = 10,
                          .time_note = "with restarts",
                          .samples_per_second = 20000,
                          .unit = "rows",
                          .ranks = 1,
                          .gpu = GpuUse{.utilization = 96,
                                        .memory_bytes = std::uint64_t{23} << 30,
                                        .memory_total = std::uint64_t{139} << 30,
                                        .watts = 611.7},
                          .restarts = 3,
                          .restart_seconds = 7.25,
                          .warnings = {"2 bad files", "no space left"}}),
            "finished\n"
            "  time       10.0 s with restarts, 20.0k rows/s on 1 rank\n"
            "  GPU        96 % busy, 23 GiB of 139 GiB, 612 W\n"
            "  restarts   3, which took 7.2 s\n"
            "  warnings   2 bad files\n"
            "             no space left\n");
}

}  // namespace
}  // namespace lockstep::train
