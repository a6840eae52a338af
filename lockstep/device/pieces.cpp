#include "lockstep/device/pieces.h"

#include <algorithm>

#include "lockstep/device/graph.h"

namespace lockstep::device {

Pieces::Pieces(const std::vector<at::Tensor>& params) {
  constexpr std::int64_t kPieces = 40;
  constexpr std::int64_t kLarge = std::int64_t{1} << 22;
  std::int64_t total = 0;
  bool dense = !params.empty() && params.front().is_cuda();
  for (const auto& param : params) {
    total += param.numel();
    dense = dense && param.is_contiguous();
  }
  if (dense && total <= kLarge && Graph::is_stream_recorded()) {
    elements_ = (total / kPieces / 1024 + 1) * 1024;
  }
  for (const auto& param : params) {
    pieces_.push_back(elements_ == 0
                          ? 1
                          : std::max<std::int64_t>(1, (param.numel() + elements_ - 1) / elements_));
  }
}

std::vector<at::Tensor> Pieces::of(const std::vector<at::Tensor>& tensors) const {
  if (elements_ == 0) {
    return tensors;
  }
  std::vector<at::Tensor> cut;
  for (const auto& tensor : tensors) {
    for (const auto& piece : tensor.contiguous().view(-1).split(elements_)) {
      cut.push_back(piece);
    }
  }
  return cut;
}

std::vector<at::Tensor> Pieces::repeated(const std::vector<at::Tensor>& tensors) const {
  std::vector<at::Tensor> result;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    result.insert(result.end(), static_cast<std::size_t>(pieces_[i]), tensors[i]);
  }
  return result;
}

}  // namespace lockstep::device
