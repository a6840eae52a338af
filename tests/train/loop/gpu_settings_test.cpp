#include "lockstep/train/loop/gpu_settings.h"

#include <ATen/Context.h>
#include <gmock/gmock.h>

#include <cstdlib>

#include "lockstep/comm/init_process_group.h"

namespace lockstep::train {
namespace {

// Other tests of the process compute as before.
class GpuSettings : public ::testing::Test {
 protected:
  ~GpuSettings() override {
    at::globalContext().setDeterministicAlgorithms(false, false);
    apply_gpu_settings({.cudnn_benchmark = false});
  }
  static at::Context& context() { return at::globalContext(); }
};

TEST_F(GpuSettings, Tf32IsForConvolutionsUnlessToldOtherwise) {
  apply_gpu_settings({});
  EXPECT_FALSE(context().allowTF32CuBLAS());
  EXPECT_TRUE(context().allowTF32CuDNN());
  apply_gpu_settings({.tf32 = "off"});
  EXPECT_FALSE(context().allowTF32CuDNN());
  apply_gpu_settings({.tf32 = "on"});
  EXPECT_TRUE(context().allowTF32CuBLAS());
  EXPECT_TRUE(context().allowTF32CuDNN());
}

TEST_F(GpuSettings, TheFastestAlgorithmsAreTriedUnlessTheyMustBeDeterministic) {
  apply_gpu_settings({});
  EXPECT_TRUE(context().benchmarkCuDNN());
  apply_gpu_settings({.deterministic = true});
  EXPECT_FALSE(context().benchmarkCuDNN());
  EXPECT_TRUE(context().deterministicAlgorithms());
  EXPECT_NE(std::getenv("CUBLAS_WORKSPACE_CONFIG"), nullptr);
}

TEST_F(GpuSettings, OnTheCpuThereIsNothingToSay) {
  EXPECT_EQ(describe_gpu({}, {}, init_process_group()), "");
}

TEST(DescribeComputing, SaysPrecisionLayoutAndWhetherStepsAreRecorded) {
  const BatchPlan batches{.accumulation = 1};
  EXPECT_EQ(describe_computing({}, batches),
            "float32, contiguous, TF32 in convolutions, cuDNN's fastest algorithms, steps to be "
            "recorded as a CUDA graph");
  EXPECT_EQ(describe_computing({.amp = "bf16", .channels_last = true, .tf32 = "on"}, batches),
            "amp bf16, channels_last, TF32, cuDNN's fastest algorithms, steps to be recorded as a "
            "CUDA graph");
  EXPECT_THAT(describe_computing({.nonfinite = "skip", .tf32 = "off"}, batches),
              ::testing::AllOf(::testing::HasSubstr("no TF32"),
                               ::testing::HasSubstr("steps run eagerly (--nonfinite skip)")));
}

TEST(RecordingNews, ComeWhenTheFirstRecordingWorkedOrFailed) {
  RecordingNews works(true);
  EXPECT_EQ(works.after_step(false, "").text, "");
  const auto recorded = works.after_step(true, "");
  EXPECT_THAT(recorded.text, ::testing::HasSubstr("are recorded as a CUDA graph"));
  EXPECT_FALSE(recorded.is_warning);
  EXPECT_EQ(works.after_step(true, "").text, "");

  RecordingNews fails(true);
  const auto eager = fails.after_step(false, "it waits for the GPU");
  EXPECT_THAT(eager.text, ::testing::AllOf(::testing::HasSubstr("run eagerly"),
                                           ::testing::HasSubstr("it waits for the GPU")));
  EXPECT_TRUE(eager.is_warning);
  EXPECT_EQ(fails.after_step(false, "it waits for the GPU").text, "");

  EXPECT_EQ(RecordingNews(false).after_step(false, "the step runs on 'cpu'").text, "");
}

TEST(RecordsSteps, OnAGpuUnlessAFlagForbidsIt) {
  const at::Device gpu("cuda:0");
  EXPECT_TRUE(records_steps({}, {.accumulation = 1}, gpu));
  EXPECT_FALSE(records_steps({}, {.accumulation = 1}, at::kCPU));
  EXPECT_FALSE(records_steps({.cuda_graph = false}, {.accumulation = 1}, gpu));
  EXPECT_FALSE(records_steps({}, {.accumulation = 2}, gpu));
  EXPECT_FALSE(records_steps({.nonfinite = "skip"}, {.accumulation = 1}, gpu));
}

}  // namespace
}  // namespace lockstep::train
