#include "tests/parity/optimizer_cases.h"

#include "tests/parity/models.h"
#include "tests/parity/replicas_run.h"

namespace lockstep::parity {

void add_optimizers(Table& t) {
  const DistributedDataParallelOptions small{.bucket_cap_mb = 0.01};
  t.add_both("zero", {.model = "mlp", .zero = true}, training(mlp));
  t.add("zero_accumulate", {.model = "mlp", .passes = 2, .set_to_none = false, .zero = true},
        training(mlp));
  t.add_default("zero_broad", {.model = "broad", .zero = true}, training(broad));
  t.add_both("in_backward", {.model = "mlp", .in_backward = true, .options = small}, training(mlp));
  t.add("in_backward_accumulate", {.model = "mlp", .passes = 2, .in_backward = true},
        training(mlp));
  t.add("in_backward_unused",
        {.model = "Branches", .in_backward = true, .options = {.find_unused_parameters = true}},
        training<LossOfBranch>([] { return std::make_shared<Branches>(); }));
  t.add_default("in_backward_hook", {.model = "broad", .hook = "fp16", .in_backward = true},
                training(broad));
  t.add_default("in_backward_broad",
                {.model = "broad", .in_backward = true, .options = {.bucket_cap_mb = 0.1}},
                training(broad));
}

void add_whole(Table& t) {
  t.add_both("sync_bn", {.model = "convnet", .sync_bn = true}, training(convnet));
  t.add_default("sync_bn_broad", {.model = "broad_convnet", .sync_bn = true},
                training(broad_convnet));
  const DistributedDataParallelOptions over_samples{.mean_over_samples = true};
  t.add_both("mean_over_samples", {.model = "Shared", .options = over_samples, .largest_world = 3},
             training([] { return std::make_shared<Shared>(); }));
  t.add_default("mean_over_samples_broad",
                {.model = "wide", .options = over_samples, .largest_world = 3}, training(wide));
  for (const int count : {1, 2, 3}) {
    t.add("data_parallel_" + std::to_string(count),
          {.model = "wide", .replicas = count, .largest_world = 1}, training_replicas(wide));
  }
}

}  // namespace lockstep::parity
