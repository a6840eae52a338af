// A network that was scripted or traced in Python, as a module that trains here.
//
//   torch.jit.script(net).save("net.pt")                        # in Python
//
//   auto net = lockstep::models::load_script_module("net.pt");
//   lockstep::DistributedDataParallel ddp(net, world);
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace torch::jit {
struct Module;
}

namespace lockstep::models {

// Has the parameters and buffers of the script under Python's names: they are the same tensors, so
// an optimizer, DistributedDataParallel and state_dict() see what the script computes with.
class ScriptModule : public torch::nn::Module {
 public:
  // Throws UsageError if it has no parameters, as a frozen one.
  explicit ScriptModule(const torch::jit::Module& script);
  ~ScriptModule() override;

  // For a script that takes a tensor and returns one. Both throw UsageError if it returns something
  // else.
  at::Tensor forward(const at::Tensor& input);
  // For any number of tensors; what the script returns is one, or a tuple or list of them.
  std::vector<at::Tensor> forward(const std::vector<at::Tensor>& inputs);

  [[nodiscard]] const torch::jit::Module& script() const { return *script_; }
  // A file that Python's torch.jit.load() reads, with the weights as they are. Throws IoError.
  void save_script(const std::string& path) const;

  void train(bool on = true) override;
  [[nodiscard]] std::shared_ptr<torch::nn::Module> clone(
      const std::optional<at::Device>& device = std::nullopt) const override;

 private:
  struct Buffers;
  void keep_buffers();

  std::unique_ptr<torch::jit::Module> script_;
  std::unique_ptr<Buffers> buffers_;
};

// Whether it is a child of a ScriptModule that is batch normalization of torch.nn in Python.
bool is_script_batch_norm(const torch::nn::Module& module);

// What torch.jit.save() wrote. It is a program: load only what you would run. Throws IoError that
// names the file.
std::shared_ptr<ScriptModule> load_script_module(const std::string& path,
                                                 at::Device device = at::kCPU);

}  // namespace lockstep::models
