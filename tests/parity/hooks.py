"""PyTorch's communication hooks, by the names of hooks.h: what register_comm_hook() takes for a group."""

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import debugging_hooks, default_hooks, powerSGD_hook
from torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook import PostLocalSGDState, post_localSGD_hook

START_LOCAL = 2


def power_sgd_hook(state, bucket):
    """PyTorch's seeds the generators of GPUs, too, and leaves them so: dropout would go on from there."""
    with torch.random.fork_rng(enabled=bucket.buffer().is_cuda):
        return powerSGD_hook.powerSGD_hook(state, bucket)


def power_sgd(group, wrap=lambda hook: hook, **options):
    return powerSGD_hook.PowerSGDState(group, **options), wrap(power_sgd_hook)


def pair_of(group):
    """This rank's of the groups {0, 1}, {2, 3}: their sums have one order."""
    own = group
    for first in range(0, group.size() if group.size() > 2 else 0, 2):
        ranks = list(range(first, min(first + 2, group.size())))
        pair = dist.new_group(ranks)
        own = pair if group.rank() in ranks else own
    return own


def local(group, subgroup, **options):
    return PostLocalSGDState(group, subgroup, START_LOCAL, **options), post_localSGD_hook


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
    "local_pairs": lambda group: local(group, pair_of(group)),
    "local_alone": lambda group: local(group, group, post_local_gradient_allreduce=False),
    "noop": lambda group: (group, debugging_hooks.noop_hook),
}
