"""PyTorch's communication hooks, by the names of hooks.h: what register_comm_hook() takes for a group."""

from torch.distributed.algorithms.ddp_comm_hooks import debugging_hooks, default_hooks, powerSGD_hook



def power_sgd(group, wrap=lambda hook: hook, **options):
    return powerSGD_hook.PowerSGDState(group, **options), wrap(powerSGD_hook.powerSGD_hook)


RANK_4 = {
    "matrix_approximation_rank": 4,
    "start_powerSGD_iter": 3,
    "min_compression_rate": 1,
    "use_error_feedback": False,
    "warm_start": False,
    "random_seed": 7,
    "batch_tensors_with_same_shape": True,
}
HOOKS = {
    "allreduce": lambda group: (group, default_hooks.allreduce_hook),
    "fp16": lambda group: (group, default_hooks.fp16_compress_hook),
    "bf16": lambda group: (group, default_hooks.bf16_compress_hook),
    "fp16_wrapper": lambda group: (group, default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook)),
    "bf16_wrapper": lambda group: (group, default_hooks.bf16_compress_wrapper(default_hooks.allreduce_hook)),
    "power_sgd": lambda group: power_sgd(group, matrix_approximation_rank=2, start_powerSGD_iter=2),
    "power_sgd_rank_4": lambda group: power_sgd(group, **RANK_4),
    "power_sgd_bf16": lambda group: power_sgd(group, default_hooks.bf16_compress_wrapper, start_powerSGD_iter=2),
    "noop": lambda group: (group, debugging_hooks.noop_hook),
}
