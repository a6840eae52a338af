#include "lockstep/models/script_module.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/serialization/import.h>

#include "lockstep/base/error.h"

namespace lockstep::models {

// A script may put a new tensor in the place of a buffer. Others hold the old one.
struct ScriptModule::Buffers {
  struct Buffer {
    c10::intrusive_ptr<c10::ivalue::Object> owner;
    std::string name;
    at::Tensor tensor;
  };
  std::vector<Buffer> all;
};

namespace {

std::string name_of(const torch::jit::Module& script) {
  return script.type()->name() ? script.type()->name()->name() : "ScriptModule";
}

// A child of the script: its names, without a forward of its own.
class Child : public torch::nn::Module {
 public:
  explicit Child(const torch::jit::Module& script)
      : torch::nn::Module(name_of(script)),
        // "__torch__.torch.nn.modules.batchnorm.___torch_mangle_1.BatchNorm2d": the Python module
        // decides, because a class of the user's own may have the same name.
        is_batch_norm_(script.type()->name() && script.type()->name()->qualifiedName().starts_with(
                                                    "__torch__.torch.nn.modules.batchnorm.")) {}

  [[nodiscard]] bool is_batch_norm() const { return is_batch_norm_; }

 private:
  bool is_batch_norm_;
};

// A parameter or buffer that two modules share is one tensor, and stays one.
template <class Visit>
void copy_names(const torch::jit::Module& from, torch::nn::Module& to, const Visit& visit_buffer) {
  for (const auto& item : from.named_parameters(/*recurse=*/false)) {
    to.register_parameter(item.name, item.value, item.value.requires_grad());
  }
  for (const auto& item : from.named_buffers(/*recurse=*/false)) {
    to.register_buffer(item.name, item.value);
    visit_buffer(from, item.name, item.value);
  }
  for (const auto& item : from.named_children()) {
    const auto child = to.register_module(item.name, std::make_shared<Child>(item.value));
    copy_names(item.value, *child, visit_buffer);
  }
}

[[noreturn]] void reject(const torch::jit::Module& script, const at::IValue& output,
                         const char* expected) {
  throw UsageError("ScriptModule: forward of '" + name_of(script) + "' returns " +
                   output.tagKind() + ", expected " + expected);
}

}  // namespace

ScriptModule::ScriptModule(const torch::jit::Module& script)
    : torch::nn::Module(name_of(script)),
      script_(std::make_unique<torch::jit::Module>(script)),
      buffers_(std::make_unique<Buffers>()) {
  if (script.parameters().size() == 0) {
    throw UsageError("ScriptModule: '" + name_of(script) +
                     "' has no parameters; torch.jit.freeze() and optimize_for_inference() make "
                     "constants of them, so save the script without these");
  }
  copy_names(
      *script_, *this,
      [&](const torch::jit::Module& owner, const std::string& name, const at::Tensor& tensor) {
        buffers_->all.push_back({owner._ivalue(), name, tensor});
      });
  torch::nn::Module::train(!script.hasattr("training") || script.is_training());
}

ScriptModule::~ScriptModule() = default;

at::Tensor ScriptModule::forward(const at::Tensor& input) {
  const auto output = script_->forward({input});
  keep_buffers();
  if (!output.isTensor()) {
    reject(*script_, output, "a tensor; of several, call forward with a vector of inputs");
  }
  return output.toTensor();
}

std::vector<at::Tensor> ScriptModule::forward(const std::vector<at::Tensor>& inputs) {
  const auto output = script_->forward({inputs.begin(), inputs.end()});
  keep_buffers();
  if (output.isTensor()) {
    return {output.toTensor()};
  }
  if (output.isTensorList()) {
    return output.toTensorVector();
  }
  if (!output.isTuple()) {
    reject(*script_, output, "a tensor, or a tuple or list of them");
  }
  std::vector<at::Tensor> tensors;
  for (const auto& item : output.toTupleRef().elements()) {
    if (!item.isTensor()) {
      reject(*script_, item, "a tuple of nothing but tensors");
    }
    tensors.push_back(item.toTensor());
  }
  return tensors;
}

// The old tensor gets the new one's contents and its place.
void ScriptModule::keep_buffers() {
  for (const auto& buffer : buffers_->all) {
    const auto now = buffer.owner->getAttr(buffer.name).toTensor();
    if (!now.is_same(buffer.tensor)) {
      buffer.tensor.set_data(now.detach());
      buffer.owner->setAttr(buffer.name, buffer.tensor);
    }
  }
}

void ScriptModule::save_script(const std::string& path) const {
  try {
    script_->save(path);
  } catch (const c10::Error& error) {
    throw IoError("'" + path +
                  "': the script cannot be written: " + error.what_without_backtrace());
  }
}

void ScriptModule::train(bool on) {
  script_->train(on);
  torch::nn::Module::train(on);
}

std::shared_ptr<torch::nn::Module> ScriptModule::clone(
    const std::optional<at::Device>& device) const {
  const at::NoGradGuard no_grad;
  const auto copy = script_->deepcopy(device);
  auto own = script_->parameters().begin();
  for (const auto& parameter : copy.parameters()) {
    parameter.set_requires_grad((*own).requires_grad());
    ++own;
  }
  return std::make_shared<ScriptModule>(copy);
}

bool is_script_batch_norm(const torch::nn::Module& module) {
  const auto* child = dynamic_cast<const Child*>(&module);
  return child != nullptr && child->is_batch_norm();
}

std::shared_ptr<ScriptModule> load_script_module(const std::string& path, at::Device device) {
  try {
    return std::make_shared<ScriptModule>(torch::jit::load(path, device));
  } catch (const c10::Error& error) {
    throw IoError("'" + path +
                  "' is no file of torch.jit.save(): " + error.what_without_backtrace());
  }
}

}  // namespace lockstep::models
