"""Trains each network of models.py with PyTorch's DistributedDataParallel; ddp_cases.cpp is its twin.

    ddp_cases.py BACKENDS DEVICE INPUTS OUTPUTS [CASE...]    one rank of a job

BACKENDS is "gloo", "lockstep", "rank_order", "gloo,rank_order" or "nccl"; DEVICE is "cpu" or "cuda".
INPUTS has a file of tensors per network, as models.generate() makes them. For each case a rank writes OUTPUTS/BACKEND/CASE.RANK: every loss, and at
the end all parameters, gradients and buffers.
"""

import dataclasses
import importlib
import inspect
import pathlib
import sys
from typing import Callable

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

import models
import tensor_file
from run import Run

sys.path.append(str(pathlib.Path(__file__).parents[2] / "benchmarks" / "peers"))
from rank_order import RankOrderGroup


def loss_of_outputs(ddp, x, y, step, rank):
    return F.cross_entropy(ddp(x), y)


def loss_of_branch(ddp, x, y, step, rank):
    branch = "left" if (step + rank) % 2 == 0 else "right"
    if step == 2:
        branch = "rare" if rank == 0 else ""
    logits, _ = ddp(x, branch)
    return F.cross_entropy(logits, y)


def loss_of_two_forwards(ddp, x, y, step, rank):
    first = ddp(x)
    return F.cross_entropy(first + ddp(x.flip(0)), y)


@dataclasses.dataclass
class Case:
    model: Callable
    loss: Callable = loss_of_outputs
    steps: int = 4
    passes: int = 1  # Backward passes per step; all but the last under no_sync().
    set_to_none: bool = True  # For zero_grad().
    momentum: float = 0.9
    weight_decay: float = 1e-2
    prepare: Callable = lambda net: net
    evaluate: bool = False  # Two forwards without gradients after each step.
    views: bool = False
    threads: int = 1
    hook: str = ""  # A communication hook of hooks.py.
    delayed: tuple = ()  # Parameters whose gradients are averaged when `hooked` is ready.
    hooked: str = ""
    averaged: bool = False  # The parameters of all ranks, every second step after local steps begin.
    zero: bool = False  # Each rank has a share of the optimizer's state.
    in_backward: bool = False  # Our backward makes the optimizer's steps; in PyTorch they follow it.
    sync_bn: bool = False  # Batch normalization over all ranks, which PyTorch has on GPUs alone.
    replicas: int = 0  # For DataParallel in one process; 0: DistributedDataParallel.
    samples: tuple = ()  # In each step those of each rank, whose gradients count as much; empty: all have models.BATCH.
    options: dict = dataclasses.field(default_factory=dict)
    join: dict | None = None  # Options of join(); rank r has r steps less.
    largest_world: int = 3

    def steps_of(self, rank):
        return self.steps if self.join is None else self.steps - rank

    @property
    def throws(self):
        """All ranks end with the first that has no more inputs."""
        return bool(self.join and self.join.get("throw_on_early_termination"))


def both(name, case):
    """A case with gradients of their own and with views of the buckets."""
    return {name: case, name + "_views": dataclasses.replace(case, views=True)}


def freeze(net):
    net[3].weight.requires_grad_(False)
    net[0].bias.requires_grad_(False)


def ignore(net):
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(net, ["3.weight", "5.bias"])


def channels_last(net):
    net.to(memory_format=torch.channels_last)


def transpose(net):
    """The gradient of a parameter lies as the parameter does."""
    net[3].weight.data = net[3].weight.data.t().contiguous().t()


FIND = {"find_unused_parameters": True}
STATIC = {"static_graph": True}
CAPS = {"bucket_cap_mb_list": [0.001, 0.01, 0.002]}
DELAYED = {"delayed": ("3.weight", "5.bias"), "hooked": "0.weight"}
ACTIVE = {"divide_by_initial_world_size": False}
UNEVEN = ((3, 1, 4), (2, 4, 0), (4, 0, 1), (1, 3, 2))  # kUneven in run.h.
CASES = {
    **both("mlp", Case(models.mlp)),
    **both("mlp_kept_gradients", Case(models.mlp, set_to_none=False)),
    **both("convnet", Case(models.convnet)),
    **both("accumulate", Case(models.mlp, passes=3)),
    **both("accumulate_kept_gradients", Case(models.convnet, passes=3, set_to_none=False)),
    **both("unused", Case(models.Branches, loss_of_branch, options=FIND)),
    **both("unused_kept_gradients", Case(models.Branches, loss_of_branch, set_to_none=False, options=FIND)),
    **both("unused_accumulate", Case(models.Branches, loss_of_branch, passes=2, options=FIND)),
    "unused_none": Case(models.mlp, options=FIND),
    **both("shared", Case(models.Shared)),
    **both("static", Case(models.Fixed, options=STATIC)),
    "static_kept_gradients": Case(models.Fixed, set_to_none=False, options=STATIC),
    "static_all_used": Case(models.mlp, steps=5, options={**STATIC, "bucket_cap_mb": 0.01}),
    **both("mixed", Case(models.Mixed)),
    "mixed_small_caps": Case(models.Mixed, options={"bucket_cap_mb": 0.002}),
    **both("sparse", Case(models.Words, momentum=0, weight_decay=0)),
    "two_forwards": Case(models.convnet, loss_of_two_forwards),
    **both("two_buckets", Case(models.wide)),
    **both("small_cap", Case(models.mlp, options={"bucket_cap_mb": 0.002})),
    **both("caps", Case(models.mlp, options=CAPS)),
    "unused_caps": Case(models.Branches, loss_of_branch, options={**FIND, **CAPS}),
    "frozen": Case(models.mlp, prepare=freeze),
    "ignored": Case(models.mlp, prepare=ignore),
    "channels_last": Case(models.convnet, prepare=channels_last),
    "evaluate": Case(models.convnet, evaluate=True),
    "evaluate_accumulate": Case(models.convnet, passes=2, evaluate=True),
    "local_buffers": Case(models.convnet, evaluate=True, options={"forward_sync_buffers": False}),
    # Gradients that lockstep allocates in their buckets, with its defaults.
    "broad": Case(models.broad, views=True),
    "broad_threads": Case(models.broad_convnet, views=True, threads=2),
    "broad_small_cap": Case(models.broad, views=True, options={"bucket_cap_mb": 0.1}),
    "broad_kept_gradients": Case(models.broad, views=True, set_to_none=False),
    "broad_accumulate": Case(models.broad, views=True, steps=5, passes=2),
    "broad_unused": Case(models.broad_branches, loss_of_branch, views=True, steps=6, options=FIND),
    "broad_unused_accumulate": Case(models.broad_branches, loss_of_branch, views=True, passes=2, options=FIND),
    "broad_static": Case(models.broad_fixed, views=True, steps=6, options=STATIC),
    "broad_shared": Case(models.broad_shared, views=True),
    "broad_mixed": Case(models.broad_mixed, views=True),
    "broad_frozen": Case(models.broad, views=True, prepare=freeze),
    "broad_ignored": Case(models.broad, views=True, prepare=ignore),
    "broad_channels_last": Case(models.broad_convnet, views=True, prepare=channels_last),
    "broad_evaluate": Case(models.broad_convnet, views=True, evaluate=True),
    "broad_two_forwards": Case(models.broad_convnet, loss_of_two_forwards, views=True),
    "broad_recomputed": Case(models.Recomputed, views=True),
    **both("recomputed_static", Case(models.RecomputedTwice, steps=6, options=STATIC)),
    "caps_broad": Case(models.broad, views=True, options=CAPS),
    # Ranks with different numbers of inputs.
    **both("join", Case(models.mlp, join={}, steps=5)),
    **both("join_active", Case(models.mlp, join=ACTIVE, steps=5)),
    "join_buffers": Case(models.convnet, join={}, steps=5),
    "join_unused": Case(models.Branches, loss_of_branch, join={}, steps=6, options=FIND),
    "join_hook": Case(models.mlp, join={}, steps=5, hook="fp16", options={"bucket_cap_mb": 0.01}),
    "join_accumulate": Case(models.mlp, join={}, steps=5, passes=2, set_to_none=False),
    **both("join_throws", Case(models.convnet, join={"throw_on_early_termination": True}, steps=5)),
    "join_broad": Case(models.broad, join={}, steps=5, views=True),
    "join_active_broad": Case(models.broad, join=ACTIVE, steps=5, views=True),
    "join_bf16_broad": Case(models.broad, join={}, steps=5, hook="bf16", views=True),
    "join_unused_broad": Case(models.broad_branches, loss_of_branch, join={}, steps=6, views=True, options=FIND),
    # Parameters apart from the buckets.
    **both("delayed", Case(models.mlp, **DELAYED)),
    "delayed_kept_gradients": Case(models.mlp, set_to_none=False, **DELAYED),
    "delayed_accumulate": Case(models.mlp, passes=3, **DELAYED),
    "delayed_small_cap": Case(models.mlp, options={"bucket_cap_mb": 0.002}, **DELAYED),
    "delayed_hook": Case(models.mlp, hook="fp16", **DELAYED),
    "delayed_frozen": Case(models.mlp, prepare=freeze, delayed=("5.weight",), hooked="0.weight"),
    "delayed_buffers": Case(models.convnet, evaluate=True, delayed=("4.weight", "9.bias"), hooked="0.bias"),
    "delayed_unused": Case(
        models.Branches, loss_of_branch, options=FIND, delayed=("head.weight", "left.bias"), hooked="trunk.weight"
    ),
    "delayed_broad": Case(models.broad, views=True, **DELAYED),
    # Communication hooks.
    **both("hook_allreduce", Case(models.mlp, hook="allreduce", options={"bucket_cap_mb": 0.01})),
    **both("hook_fp16", Case(models.mlp, hook="fp16", options={"bucket_cap_mb": 0.01})),
    **both("hook_bf16", Case(models.convnet, hook="bf16")),
    "hook_allreduce_broad": Case(models.broad, hook="allreduce", views=True),
    "hook_fp16_broad": Case(models.broad, hook="fp16", views=True),
    "hook_fp16_accumulate": Case(models.mlp, hook="fp16", passes=2, set_to_none=False),
    "hook_fp16_wrapper": Case(models.broad, hook="fp16_wrapper", views=True),
    "hook_bf16_wrapper": Case(models.broad, hook="bf16_wrapper", views=True),
    "hook_mixed": Case(models.Mixed, hook="fp16"),
    "hook_unused": Case(models.Branches, loss_of_branch, hook="allreduce", options=FIND),
    "hook_static": Case(models.broad_fixed, hook="bf16", views=True, steps=6, options=STATIC),
    "hook_channels_last": Case(models.broad_convnet, hook="fp16", views=True, prepare=channels_last),
    "hook_power_sgd": Case(models.mlp, hook="power_sgd", steps=6),
    "hook_power_sgd_transposed": Case(models.broad, hook="power_sgd", steps=6, views=True, prepare=transpose),
    "hook_power_sgd_broad": Case(models.broad, hook="power_sgd", steps=6, views=True),
    "hook_power_sgd_rank_4": Case(models.broad, hook="power_sgd_rank_4", steps=6, views=True),
    "hook_power_sgd_bf16": Case(models.broad, hook="power_sgd_bf16", steps=6, views=True),
    **both("hook_local_pairs", Case(models.mlp, hook="local_pairs", averaged=True, steps=6)),
    **both("hook_local_alone", Case(models.mlp, hook="local_alone", averaged=True, steps=6)),
    "hook_local_broad": Case(models.broad, hook="local_pairs", averaged=True, steps=6, views=True),
    **both("hook_noop", Case(models.broad, hook="noop")),
    # The optimizer.
    **both("zero", Case(models.mlp, zero=True)),
    "zero_accumulate": Case(models.mlp, zero=True, passes=2, set_to_none=False),
    "zero_broad": Case(models.broad, zero=True, views=True),
    **both("in_backward", Case(models.mlp, in_backward=True, options={"bucket_cap_mb": 0.01})),
    "in_backward_accumulate": Case(models.mlp, in_backward=True, passes=2),
    "in_backward_unused": Case(models.Branches, loss_of_branch, in_backward=True, options=FIND),
    "in_backward_hook": Case(models.broad, in_backward=True, hook="fp16", views=True),
    "in_backward_broad": Case(models.broad, in_backward=True, views=True, options={"bucket_cap_mb": 0.1}),
    **both("resnet18", Case(models.resnet18, steps=2, largest_world=2)),
}
# Four ranks, the next power of two, oversubscribe a small machine: their jobs take longest, and run one case of a kind.
IN_FOUR = ["mlp", "mlp_views", "convnet_views", "accumulate_views", "unused_views", "static_views", "mixed", "mixed_views"]
IN_FOUR += ["sparse_views", "two_buckets", "small_cap_views", "caps_views", "frozen", "local_buffers", "broad", "convnet"]
IN_FOUR += ["broad_unused", "broad_static", "broad_mixed", "broad_frozen", "broad_recomputed", "join_broad", "join_active"]
IN_FOUR += ["delayed_broad", "hook_fp16_broad", "hook_power_sgd", "hook_local_pairs_views", "zero_broad", "in_backward_broad"]
for _name in IN_FOUR:
    CASES[_name].largest_world = models.RANKS
# What PyTorch does not do on the CPU: alone.py is the oracle, and only C++ runs them.
WHOLE = {
    **both("sync_bn", Case(models.convnet, sync_bn=True)),
    "sync_bn_broad": Case(models.broad_convnet, sync_bn=True, views=True),
    **both("mean_over_samples", Case(models.Shared, samples=UNEVEN)),
    "mean_over_samples_broad": Case(models.wide, samples=UNEVEN, views=True),
    **{f"data_parallel_{count}": Case(models.wide, replicas=count, largest_world=1) for count in (1, 2, 3)},
}
KNOWN = inspect.signature(DistributedDataParallel).parameters
VERSION = tuple(map(int, torch.__version__.split(".")[:2]))
# Cases that this version of PyTorch cannot run, and why; conftest.py tells them.
LEFT_OUT = {
    name: "no option " + ", ".join(case.options.keys() - KNOWN.keys())
    for name, case in CASES.items()
    if not case.options.keys() <= KNOWN.keys()
}
if VERSION < (2, 15):
    REFUSED = ["two_forwards", "broad_two_forwards", "delayed_small_cap"]
    LEFT_OUT |= dict.fromkeys(REFUSED, "2.11 refuses it; 2.12 to 2.14 were not tried")
CASES = {name: case for name, case in CASES.items() if name not in LEFT_OUT}


def main(backends, device, inputs, outputs, *names):
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(device == "cuda")
    if backends == "lockstep" and VERSION < (2, 14):
        importlib.import_module(backends)  # Newer ones find it by its entry point.
    dist.init_process_group(backends if backends in ("lockstep", "nccl") else "gloo")
    rank = dist.get_rank()
    for backend in backends.split(","):  # One after the other: a start takes longer than all cases.
        group = RankOrderGroup() if backend == "rank_order" else dist.group.WORLD
        for name, case in CASES.items():
            if dist.get_world_size() <= case.largest_world and (not names or name in names):
                left = Run(case, rank, inputs, group, device).train()
                tensor_file.write(f"{outputs}/{backend}/{name}.{rank}", left)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
