// Any network behind one type, for programs that learn while they run which one it is.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <memory>
#include <optional>

namespace lockstep::models {

// Has the parameters, buffers and children of another module, its body, under the same names: they
// are the same tensors, and a checkpoint of one fits the other.
class Network : public torch::nn::Module {
 public:
  using Forward = std::function<at::Tensor(torch::nn::Module& body, const at::Tensor& input)>;

  // `forward` is called with the body, or with a clone of it. The body may not register anything
  // later. Throws UsageError if there is none.
  Network(std::shared_ptr<torch::nn::Module> body, Forward forward);

  // Calls the body's own forward.
  template <class Body>
  explicit Network(const std::shared_ptr<Body>& body)
      : Network(body, [](torch::nn::Module& module, const at::Tensor& input) {
          return module.as<Body>()->forward(input);
        }) {}

  at::Tensor forward(const at::Tensor& input) { return forward_(*body_, input); }

  [[nodiscard]] const std::shared_ptr<torch::nn::Module>& body() const { return body_; }

  void train(bool on = true) override;
  [[nodiscard]] std::shared_ptr<torch::nn::Module> clone(
      const std::optional<at::Device>& device = std::nullopt) const override;

 private:
  std::shared_ptr<torch::nn::Module> body_;
  Forward forward_;
};

}  // namespace lockstep::models
