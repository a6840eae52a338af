#include "lockstep/models/network.h"

#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::models {
namespace {

std::shared_ptr<torch::nn::Module> not_null(std::shared_ptr<torch::nn::Module> body) {
  if (body == nullptr) {
    throw UsageError("Network: the pointer to the body is null");
  }
  return body;
}

}  // namespace

Network::Network(std::shared_ptr<torch::nn::Module> body, Forward forward)
    : torch::nn::Module(not_null(body)->name()),
      body_(std::move(body)),
      forward_(std::move(forward)) {
  for (const auto& item : body_->named_parameters(/*recurse=*/false)) {
    register_parameter(item.key(), item.value(), item.value().requires_grad());
  }
  for (const auto& item : body_->named_buffers(/*recurse=*/false)) {
    register_buffer(item.key(), item.value());
  }
  for (const auto& item : body_->named_children()) {
    register_module(item.key(), item.value());
  }
  torch::nn::Module::train(body_->is_training());
}

void Network::train(bool on) {
  body_->train(on);  // Its children are this one's.
  torch::nn::Module::train(on);
}

std::shared_ptr<torch::nn::Module> Network::clone(const std::optional<at::Device>& device) const {
  auto copy = std::make_shared<Network>(body_->clone(device), forward_);
  copy->train(is_training());  // LibTorch's clones are in training mode, whatever they are of.
  return copy;
}

}  // namespace lockstep::models
