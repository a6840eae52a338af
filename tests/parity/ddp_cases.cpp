// Trains the networks of models.h with DistributedDataParallel; ddp_cases.py is its twin.
//
//   ddp_cases BACKEND DEVICE INPUTS OUTPUTS [CASE...]    one rank of a job
//
// DEVICE is "cpu" or "cuda". INPUTS has a file of tensors per network. For each case a rank writes
// OUTPUTS/BACKEND/CASE.RANK, and a line of OUTPUTS/BACKEND/copied.RANK: the case, and how many
// bytes of gradients its last step copied into buckets, of how many.
#include <ATen/Context.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "lockstep/comm/init_process_group.h"
#include "lockstep/models/resnet.h"
#include "tests/parity/models.h"
#include "tests/parity/optimizer_cases.h"
#include "tests/parity/table.h"

namespace lockstep::parity {
namespace {

const std::vector<double> kCaps{0.001, 0.01, 0.002};  // MiB.

torch::nn::Sequential frozen(torch::nn::Sequential net) {
  net->named_parameters()["3.weight"].set_requires_grad(false);
  net->named_parameters()["0.bias"].set_requires_grad(false);
  return net;
}

torch::nn::Sequential channels_last(torch::nn::Sequential net) {
  for (auto& parameter : net->parameters()) {
    if (parameter.dim() == 4) {
      // Unlike contiguous(), this changes strides of dimensions of size one too, as Python does.
      parameter.set_data(parameter.to(at::kFloat, false, false, at::MemoryFormat::ChannelsLast));
    }
  }
  return net;
}

// The gradient of a parameter lies as the parameter does.
torch::nn::Sequential transposed(torch::nn::Sequential net) {
  auto weight = net->named_parameters()["3.weight"];
  weight.set_data(weight.t().contiguous().t());
  return net;
}

// Gradients that are large enough to be allocated in their buckets.
void add_broad(Table& t) {
  const auto on_broad = training(broad);
  const auto on_branches = training<LossOfBranch>([] { return std::make_shared<Branches>(128); });
  const DistributedDataParallelOptions find{.find_unused_parameters = true};

  t.add_default("broad", {.model = "broad"}, on_broad);
  // Activations larger than LibTorch's grain of 32,768 elements, so that all kinds of work are
  // split.
  t.add_default("broad_threads", {.model = "broad_convnet", .threads = 2}, training(broad_convnet));
  t.add_default("broad_small_cap", {.model = "broad", .options = {.bucket_cap_mb = 0.1}}, on_broad);
  t.add_default("broad_kept_gradients", {.model = "broad", .set_to_none = false}, on_broad);
  t.add_default("broad_accumulate", {.model = "broad", .steps = 5, .passes = 2}, on_broad);
  t.add_default("broad_unused", {.model = "broad_branches", .steps = 6, .options = find},
                on_branches);
  t.add_default("broad_unused_accumulate",
                {.model = "broad_branches", .passes = 2, .options = find}, on_branches);
  t.add_default("broad_static",
                {.model = "broad_fixed", .steps = 6, .options = {.static_graph = true}},
                training([] { return std::make_shared<Fixed>(128); }));
  t.add_default("broad_shared", {.model = "broad_shared"},
                training([] { return std::make_shared<Shared>(128); }));
  t.add_default("broad_mixed", {.model = "broad_mixed"},
                training([] { return std::make_shared<Mixed>(128); }));
  t.add_default("broad_frozen", {.model = "broad"}, training([] { return frozen(broad()); }));
  t.add_default("broad_ignored",
                {.model = "broad", .options = {.parameters_to_ignore = {"3.weight", "5.bias"}}},
                on_broad);
  t.add_default("broad_channels_last", {.model = "broad_convnet"},
                training([] { return channels_last(broad_convnet()); }));
  t.add_default("broad_evaluate", {.model = "broad_convnet", .evaluate = true},
                training(broad_convnet));
  t.add_default("broad_two_forwards", {.model = "broad_convnet"},
                training<LossOfTwoForwards>(broad_convnet));
  t.add_default("broad_recomputed", {.model = "Recomputed"},
                training(std::make_shared<Recomputed>));
  t.add_both("recomputed_static",
             {.model = "RecomputedTwice", .steps = 6, .options = {.static_graph = true}},
             training(std::make_shared<RecomputedTwice>));
  t.add_default("caps_broad", {.model = "broad", .options = {.bucket_cap_mb_list = kCaps}},
                on_broad);
}

// Rank r has r steps less than rank 0.
void add_joins(Table& t) {
  const JoinOptions all;
  const JoinOptions active{.divide_by_initial_world_size = false};
  const JoinOptions throws{.throw_on_early_termination = true};
  const DistributedDataParallelOptions find{.find_unused_parameters = true};
  const DistributedDataParallelOptions small{.bucket_cap_mb = 0.01};
  t.add_both("join", {.model = "mlp", .steps = 5, .join = all}, training(mlp));
  t.add_both("join_active", {.model = "mlp", .steps = 5, .join = active}, training(mlp));
  t.add("join_buffers", {.model = "convnet", .steps = 5, .join = all}, training(convnet));
  t.add("join_unused", {.model = "Branches", .steps = 6, .join = all, .options = find},
        training<LossOfBranch>([] { return std::make_shared<Branches>(); }));
  t.add("join_hook", {.model = "mlp", .steps = 5, .join = all, .hook = "fp16", .options = small},
        training(mlp));
  t.add("join_accumulate",
        {.model = "mlp", .steps = 5, .passes = 2, .set_to_none = false, .join = all},
        training(mlp));
  t.add_both("join_throws", {.model = "convnet", .steps = 5, .join = throws}, training(convnet));
  t.add_default("join_broad", {.model = "broad", .steps = 5, .join = all}, training(broad));
  t.add_default("join_active_broad", {.model = "broad", .steps = 5, .join = active},
                training(broad));
  t.add_default("join_bf16_broad", {.model = "broad", .steps = 5, .join = all, .hook = "bf16"},
                training(broad));
  t.add_default("join_unused_broad",
                {.model = "broad_branches", .steps = 6, .join = all, .options = find},
                training<LossOfBranch>([] { return std::make_shared<Branches>(128); }));
}

// Parameters apart from the buckets.
void add_delayed(Table& t) {
  const auto on_mlp = training(mlp);
  const Case on_first{.model = "mlp", .delayed = {"3.weight", "5.bias"}, .hooked = "0.weight"};
  const auto with = [&](const auto& change) {
    auto changed = on_first;
    change(changed);
    return changed;
  };
  t.add_both("delayed", on_first, on_mlp);
  t.add("delayed_kept_gradients", with([](Case& c) { c.set_to_none = false; }), on_mlp);
  t.add("delayed_accumulate", with([](Case& c) { c.passes = 3; }), on_mlp);
  t.add("delayed_small_cap", with([](Case& c) { c.options.bucket_cap_mb = 0.002; }), on_mlp);
  t.add("delayed_hook", with([](Case& c) { c.hook = "fp16"; }), on_mlp);
  t.add("delayed_frozen", with([](Case& c) { c.delayed = {"5.weight"}; }),
        training([] { return frozen(mlp()); }));
  t.add(
      "delayed_buffers",
      {.model = "convnet", .evaluate = true, .delayed = {"4.weight", "9.bias"}, .hooked = "0.bias"},
      training(convnet));
  t.add("delayed_unused",
        {.model = "Branches",
         .delayed = {"head.weight", "left.bias"},
         .hooked = "trunk.weight",
         .options = {.find_unused_parameters = true}},
        training<LossOfBranch>([] { return std::make_shared<Branches>(); }));
  t.add_default("delayed_broad", with([](Case& c) { c.model = "broad"; }), training(broad));
}

void add_hooks(Table& t) {
  const DistributedDataParallelOptions small{.bucket_cap_mb = 0.01};
  const DistributedDataParallelOptions find{.find_unused_parameters = true};
  t.add_both("hook_allreduce", {.model = "mlp", .hook = "allreduce", .options = small},
             training(mlp));
  t.add_both("hook_fp16", {.model = "mlp", .hook = "fp16", .options = small}, training(mlp));
  t.add_both("hook_bf16", {.model = "convnet", .hook = "bf16"}, training(convnet));
  for (const std::string name : {"allreduce", "fp16"}) {
    t.add_default("hook_" + name + "_broad", {.model = "broad", .hook = name}, training(broad));
  }
  t.add("hook_fp16_accumulate", {.model = "mlp", .passes = 2, .set_to_none = false, .hook = "fp16"},
        training(mlp));
  t.add_default("hook_fp16_wrapper", {.model = "broad", .hook = "fp16_wrapper"}, training(broad));
  t.add_default("hook_bf16_wrapper", {.model = "broad", .hook = "bf16_wrapper"}, training(broad));
  t.add("hook_mixed", {.model = "Mixed", .hook = "fp16"},
        training([] { return std::make_shared<Mixed>(); }));
  t.add("hook_unused", {.model = "Branches", .hook = "allreduce", .options = find},
        training<LossOfBranch>([] { return std::make_shared<Branches>(); }));
  t.add_default(
      "hook_static",
      {.model = "broad_fixed", .steps = 6, .hook = "bf16", .options = {.static_graph = true}},
      training([] { return std::make_shared<Fixed>(128); }));
  t.add_default("hook_channels_last", {.model = "broad_convnet", .hook = "fp16"},
                training([] { return channels_last(broad_convnet()); }));
  t.add("hook_power_sgd", {.model = "mlp", .steps = 6, .hook = "power_sgd"}, training(mlp));
  t.add_default("hook_power_sgd_transposed", {.model = "broad", .steps = 6, .hook = "power_sgd"},
                training([] { return transposed(broad()); }));
  for (const std::string name : {"", "_rank_4", "_bf16"}) {
    t.add_default("hook_power_sgd" + (name.empty() ? "_broad" : name),
                  {.model = "broad", .steps = 6, .hook = "power_sgd" + name}, training(broad));
  }
  for (const std::string name : {"local_pairs", "local_alone"}) {
    t.add_both("hook_" + name, {.model = "mlp", .steps = 6, .hook = name, .averaged = true},
               training(mlp));
  }
  t.add_default("hook_local_broad",
                {.model = "broad", .steps = 6, .hook = "local_pairs", .averaged = true},
                training(broad));
  t.add_both("hook_noop", {.model = "broad", .hook = "noop"}, training(broad));
}

Table table() {
  const auto on_mlp = training(mlp);
  const auto on_convnet = training(convnet);
  const auto on_branches = training<LossOfBranch>([] { return std::make_shared<Branches>(); });
  const auto on_fixed = training([] { return std::make_shared<Fixed>(); });
  const auto on_mixed = training([] { return std::make_shared<Mixed>(); });
  const DistributedDataParallelOptions find{.find_unused_parameters = true};
  const DistributedDataParallelOptions fixed{.static_graph = true};

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
  t.add_both("shared", {.model = "Shared"}, training([] { return std::make_shared<Shared>(); }));
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
  t.add_both("caps", {.model = "mlp", .options = {.bucket_cap_mb_list = kCaps}}, on_mlp);
  t.add("unused_caps",
        {.model = "Branches",
         .options = {.bucket_cap_mb_list = kCaps, .find_unused_parameters = true}},
        on_branches);
  t.add("frozen", {.model = "mlp"}, training([] { return frozen(mlp()); }));
  t.add("ignored", {.model = "mlp", .options = {.parameters_to_ignore = {"3.weight", "5.bias"}}},
        on_mlp);
  t.add("channels_last", {.model = "convnet"}, training([] { return channels_last(convnet()); }));
  t.add("evaluate", {.model = "convnet", .evaluate = true}, on_convnet);
  t.add("evaluate_accumulate", {.model = "convnet", .passes = 2, .evaluate = true}, on_convnet);
  t.add("local_buffers",
        {.model = "convnet", .evaluate = true, .options = {.forward_sync_buffers = false}},
        on_convnet);
  add_broad(t);
  add_joins(t);
  add_delayed(t);
  add_hooks(t);
  add_optimizers(t);
  add_whole(t);
  t.add_both("resnet18", {.model = "resnet18", .steps = 2, .largest_world = 2},
             training([] { return models::resnet18({.num_classes = 10}); }));
  return t;
}

Case on(at::Device device, Case the_case) {
  the_case.device = device;
  return the_case;
}

void run(const std::string& backend, const at::Device& device, const std::filesystem::path& inputs,
         const std::filesystem::path& outputs, const std::vector<std::string>& names) {
  at::set_num_threads(1);
  at::globalContext().setDeterministicAlgorithms(device.is_cuda(), /*warn_only=*/false);
  // Only NCCL takes tensors on GPUs without being told so.
  const bool shared_gpu = device.is_cuda() && backend != "nccl";
  const auto world =
      init_process_group({.backend = shared_gpu ? "cpu:" + backend + ",cuda:" + backend : backend});
  const auto cases = table();
  std::ofstream copied(outputs / backend / ("copied." + std::to_string(world.rank())));
  for (const auto& [name, the_case, train] : cases.entries()) {
    if (world.size() <= the_case.largest_world &&
        (names.empty() || std::count(names.begin(), names.end(), name) > 0)) {
      const auto result = train(on(device, the_case), world, read(inputs / the_case.model));
      write(outputs / backend / (name + "." + std::to_string(world.rank())), result.left);
      copied << name << ' ' << result.stats.copied << ' ' << result.stats.bytes << '\n';
    }
  }
}

}  // namespace
}  // namespace lockstep::parity

int main(int count, char** arguments) {
  const std::vector<std::string> words(arguments + 1, arguments + count);
  if (words.size() < 4) {
    std::fputs("usage: ddp_cases BACKEND DEVICE INPUTS OUTPUTS [CASE...]\n", stderr);
    return 2;
  }
  lockstep::parity::run(words[0], words[1], words[2], words[3], {words.begin() + 4, words.end()});
}
