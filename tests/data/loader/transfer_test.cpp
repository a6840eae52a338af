// On a machine without a GPU: what it does there. The copy itself needs one.
#include "lockstep/data/loader/transfer.h"

#include <ATen/Context.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Transfer, LeavesABatchOnTheCpu) {
  for (const auto device : {std::optional<c10::Device>(), std::optional<c10::Device>("cpu")}) {
    const Transfer transfer(/*pin_memory=*/false, device);
    const at::Tensor data = at::ones({2});
    Transferred started = transfer.start({data, {}});
    EXPECT_FALSE(started.copied);
    const Sample batch = Transfer::finish(std::move(started));
    EXPECT_TRUE(batch.data.is_same(data));
    EXPECT_FALSE(batch.target.defined());
  }
}

TEST(Transfer, PinsWhereThereIsAGpu) {
  const Transfer transfer(/*pin_memory=*/true, std::nullopt);
  const Sample batch = Transfer::finish(transfer.start({at::ones({2}), at::ones({1})}));
  EXPECT_EQ(batch.data.is_pinned(), at::hasCUDA());
  EXPECT_EQ(batch.target.is_pinned(), at::hasCUDA());
}

TEST(Transfer, CopiesToAGpuThatIsThere) {
  if (!at::hasCUDA()) {
    EXPECT_THAT([] { Transfer(false, c10::Device("cuda")); },
                ThrowsMessage<UsageError>(HasSubstr("DataLoader: device is cuda, ")));
    return;
  }
  EXPECT_THAT([] { Transfer(false, c10::Device("cuda:64")); },
              ThrowsMessage<UsageError>(HasSubstr("DataLoader: device is cuda:64, but there are")));
  const Transfer transfer(/*pin_memory=*/false, c10::Device("cuda:0"));
  for (int i = 0; i < 100; ++i) {
    const Sample batch =
        Transfer::finish(transfer.start({at::ones({1 << 20}).mul_(i), at::ones({1})}));
    EXPECT_TRUE(batch.data.is_cuda());
    EXPECT_TRUE(batch.target.is_cuda());
    EXPECT_EQ(batch.data.min().item<float>(), static_cast<float>(i));
    EXPECT_EQ(batch.data.max().item<float>(), static_cast<float>(i));
  }
}

}  // namespace
}  // namespace lockstep::data
