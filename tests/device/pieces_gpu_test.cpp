// Runs where there is a GPU.
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include "lockstep/device/graph.h"
#include "lockstep/device/pieces.h"
#include "lockstep/device/stream.h"

namespace lockstep::device {
namespace {

TEST(PiecesOnAGpu, CoverEachTensorOnceWhileAGraphIsRecorded) {
  const c10::Device gpu(at::kCUDA, 0);
  const std::vector<at::Tensor> from{at::randn({300, 400}, gpu), at::randn({7}, gpu),
                                     at::randn({64, 100}, gpu).t()};
  const std::vector<at::Tensor> small{from[0], from[1]};
  std::vector<at::Tensor> to;
  to.reserve(small.size());
  for (const auto& tensor : small) {
    to.push_back(at::empty_like(tensor).zero_());
  }
  std::size_t pieces = 0;
  std::size_t with_gaps = 0;
  {
    const OnStream on_stream(device::side_stream(gpu));
    Graph graph([&] {
      const Pieces cut(to);
      pieces = cut.of(to).size();
      with_gaps = Pieces(from).of(from).size();
      at::_foreach_copy_(cut.of(to), cut.of(small));
    });
    graph.replay();
  }
  torch::cuda::synchronize();
  EXPECT_GT(pieces, 30U);  // Enough for many blocks.
  EXPECT_EQ(with_gaps, from.size());
  EXPECT_TRUE(to[0].equal(small[0]));
  EXPECT_TRUE(to[1].equal(small[1]));
}

}  // namespace
}  // namespace lockstep::device
