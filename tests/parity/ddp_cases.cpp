// Trains the networks of models.h with DistributedDataParallel; ddp_cases.py is its twin.
//
//   ddp_cases BACKEND INPUTS OUTPUTS [CASE...]    one rank of a job
//
// INPUTS has a file of tensors per network. For each case a rank writes
// OUTPUTS/BACKEND/CASE.RANK. With the backend nccl everything is on the GPU.
#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>
#include <functional>

#include "lockstep/comm/init_process_group.h"
#include "lockstep/models/resnet.h"
#include "tests/parity/models.h"
#include "tests/parity/run.h"

namespace lockstep::parity {
namespace {

struct Entry {
  std::string name;
  Case the_case;
  std::function<Tensors(const Case&, const Group&, Tensors data)> run;
};

// Runs of what `make` makes: a holder or a shared pointer.
template <class Loss = LossOfOutputs, class Make>
auto training(Make make) {
  return [make](const Case& the_case, const Group& group, Tensors data) {
    const auto net = make();
    using Module = parallel::ModuleOf<decltype(net)>;
    return Run<Module, Loss>(the_case, group, std::move(data), net).train();
  };
}

torch::nn::Sequential frozen_mlp() {
  auto net = mlp();
  net->named_parameters()["3.weight"].set_requires_grad(false);
  net->named_parameters()["0.bias"].set_requires_grad(false);
  return net;
}

torch::nn::Sequential channels_last_convnet() {
  auto net = convnet();
  for (auto& parameter : net->parameters()) {
    if (parameter.dim() == 4) {
      // Unlike contiguous(), this changes strides of dimensions of size one too, as Python does.
      parameter.set_data(parameter.to(at::kFloat, false, false, at::MemoryFormat::ChannelsLast));
    }
  }
  return net;
}

class Table {
 public:
  void add(const std::string& name, Case the_case, const decltype(Entry::run)& run) {
    the_case.options.gradient_as_bucket_view = false;  // PyTorch's default.
    entries_.push_back({name, the_case, run});
  }
  // With gradients of their own and with views of the buckets.
  void add_both(const std::string& name, const Case& the_case, const decltype(Entry::run)& run) {
    add(name, the_case, run);
    entries_.push_back({name + "_views", the_case, run});
    entries_.back().the_case.options.gradient_as_bucket_view = true;
  }
  [[nodiscard]] const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

Table table() {
  const auto on_mlp = training(mlp);
  const auto on_convnet = training(convnet);
  const auto on_branches = training<LossOfBranch>(std::make_shared<Branches>);
  const auto on_fixed = training(std::make_shared<Fixed>);
  const auto on_mixed = training(std::make_shared<Mixed>);
  const DistributedDataParallelOptions find{.find_unused_parameters = true};
  const DistributedDataParallelOptions fixed{.static_graph = true};
  const std::vector<double> caps{0.001, 0.01, 0.002};

  Table t;
  t.add_both("mlp", {.model = "mlp"}, on_mlp);
  t.add_both("mlp_kept_gradients", {.model = "mlp", .set_to_none = false}, on_mlp);
  t.add_both("convnet", {.model = "convnet"}, on_convnet);
  t.add_both("accumulate", {.model = "mlp", .passes = 3}, on_mlp);
  t.add_both("accumulate_kept_gradients", {.model = "convnet", .passes = 3, .set_to_none = false},
             on_convnet);
  t.add_both("unused", {.model = "Branches", .options = find}, on_branches);
  t.add_both("unused_kept_gradients", {.model = "Branches", .set_to_none = false, .options = find},
             on_branches);
  t.add_both("unused_accumulate", {.model = "Branches", .passes = 2, .options = find}, on_branches);
  t.add("unused_none", {.model = "mlp", .options = find}, on_mlp);
  t.add_both("shared", {.model = "Shared"}, training(std::make_shared<Shared>));
  t.add_both("static", {.model = "Fixed", .options = fixed}, on_fixed);
  t.add("static_kept_gradients", {.model = "Fixed", .set_to_none = false, .options = fixed},
        on_fixed);
  t.add("static_all_used",
        {.model = "mlp", .steps = 5, .options = {.bucket_cap_mb = 0.01, .static_graph = true}},
        on_mlp);
  t.add_both("mixed", {.model = "Mixed"}, on_mixed);
  t.add("mixed_small_caps", {.model = "Mixed", .options = {.bucket_cap_mb = 0.002}}, on_mixed);
  t.add_both("sparse", {.model = "Words", .momentum = 0, .weight_decay = 0},
             training(std::make_shared<Words>));
  t.add("two_forwards", {.model = "convnet"}, training<LossOfTwoForwards>(convnet));
  t.add_both("two_buckets", {.model = "wide"}, training(wide));
  t.add_both("small_cap", {.model = "mlp", .options = {.bucket_cap_mb = 0.002}}, on_mlp);
  t.add_both("caps", {.model = "mlp", .options = {.bucket_cap_mb_list = caps}}, on_mlp);
  t.add("unused_caps",
        {.model = "Branches",
         .options = {.bucket_cap_mb_list = caps, .find_unused_parameters = true}},
        on_branches);
  t.add("frozen", {.model = "mlp"}, training(frozen_mlp));
  t.add("ignored", {.model = "mlp", .options = {.parameters_to_ignore = {"3.weight", "5.bias"}}},
        on_mlp);
  t.add("channels_last", {.model = "convnet"}, training(channels_last_convnet));
  t.add("evaluate", {.model = "convnet", .evaluate = true}, on_convnet);
  t.add("evaluate_accumulate", {.model = "convnet", .passes = 2, .evaluate = true}, on_convnet);
  t.add("local_buffers",
        {.model = "convnet", .evaluate = true, .options = {.forward_sync_buffers = false}},
        on_convnet);
  t.add_both("resnet18", {.model = "resnet18", .steps = 2, .largest_world = 2},
             training([] { return models::resnet18({.num_classes = 10}); }));
  return t;
}

Case on(at::Device device, Case the_case) {
  the_case.device = device;
  return the_case;
}

void run(const std::string& backend, const std::filesystem::path& inputs,
         const std::filesystem::path& outputs, const std::vector<std::string>& names) {
  at::set_num_threads(1);
  const at::Device device = backend == "nccl" ? at::kCUDA : at::kCPU;
  at::globalContext().setDeterministicAlgorithms(device.is_cuda(), /*warn_only=*/false);
  const auto world = init_process_group({.backend = backend});
  const auto cases = table();
  for (const auto& [name, the_case, train] : cases.entries()) {
    if (world.size() <= the_case.largest_world &&
        (names.empty() || std::count(names.begin(), names.end(), name) > 0)) {
      write(outputs / backend / (name + "." + std::to_string(world.rank())),
            train(on(device, the_case), world, read(inputs / the_case.model)));
    }
  }
}

}  // namespace
}  // namespace lockstep::parity

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() < 3) {
    std::fputs("usage: ddp_cases BACKEND INPUTS OUTPUTS [CASE...]\n", stderr);
    return 2;
  }
  lockstep::parity::run(words[0], words[1], words[2], {words.begin() + 3, words.end()});
}
