// Runs where there is a GPU.
#include "lockstep/device/gpu.h"

#include <gmock/gmock.h>

namespace lockstep::device {
namespace {

TEST(Gpu, HasANameAndAPlaceOnTheBus) {
  EXPECT_NE(gpu_name({at::kCUDA, 0}), "");
  EXPECT_THAT(pci_bus_id({at::kCUDA, 0}),
              ::testing::MatchesRegex("[0-9A-Fa-f]+:[0-9A-Fa-f]+:[0-9A-Fa-f]+\\.0"));
}

TEST(Gpu, TheCpuAndAMissingOneHaveNone) {
  EXPECT_EQ(gpu_name(at::kCPU), "");
  EXPECT_EQ(pci_bus_id(at::kCPU), "");
  EXPECT_EQ(gpu_name({at::kCUDA, 99}), "");
  EXPECT_EQ(pci_bus_id({at::kCUDA, 99}), "");
}

}  // namespace
}  // namespace lockstep::device
