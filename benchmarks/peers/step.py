#!/usr/bin/env python3
"""PyTorch's contenders in `lockstep bench step`, which starts them: what benchmarks/step does in C++.

    lockstep run --nproc-per-node 2 step.py BACKEND PIPE MODEL BATCH_SIZE DEVICE [WORD...]
    step.py plain PIPE MODEL BATCH_SIZE DEVICE [WORD...]

Orders and answers are those of benchmarks/step/ranks.cpp. Without torchvision, ResNets answer
every order with {"missing": reason}. The backend "rank_order" is Gloo, but adds in the order of ranks.
"""

import contextlib
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from rank_order import RankOrderGroup

ORDER_BYTES = 48  # As in benchmarks/orders.h.
SGD = {"lr": 0.01, "momentum": 0.9, "weight_decay": 1e-4}


def mlp():
    widths = (784, 256, 256, 256)
    hidden = [layer for pair in zip(widths, widths[1:]) for layer in (nn.Linear(*pair), nn.ReLU())]
    return nn.Sequential(*hidden, nn.Linear(256, 10))


def convnet():
    def block(inputs, outputs):
        return nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)

    return nn.Sequential(*block(1, 16), *block(16, 32), nn.Flatten(), nn.Linear(32 * 7 * 7, 10))


def resnet(name, classes):
    from torchvision import models

    return getattr(models, name)(num_classes=classes)


class Training:
    """Forward, loss, backward and SGD of one network on one batch, as in benchmarks/step/training.h."""

    def __init__(self, model, batch_size, device, backend, words):
        is_resnet = model.startswith("resnet")
        large = device == "cuda" and is_resnet
        reduced = large and not {"fp32", "tf32"} & words
        reduced_type = torch.float16 if "fp16" in words else torch.bfloat16
        torch.backends.cuda.matmul.allow_tf32 = "tf32" in words
        torch.backends.cudnn.allow_tf32 = "fp32" not in words
        pixels, classes = (224, 1000) if large else (32, 10)
        shape = (3, pixels, pixels) if is_resnet else {"mlp": (784,), "convnet": (1, 28, 28)}[model]
        layout = torch.channels_last if large else torch.contiguous_format

        torch.manual_seed(0)
        net = resnet(model, classes) if is_resnet else {"mlp": mlp, "convnet": convnet}[model]()
        net = net.to(device, memory_format=layout)
        if "spoiled" in words:
            with torch.no_grad():
                next(net.parameters()).mul_(2)
        # Fused is what PyTorch is best with on a GPU; on CPU it is left to its default.
        sgd = {**SGD, "fused": device == "cuda" or None}
        self.optimizer = torch.optim.SGD(net.parameters(), **sgd)
        rank = 0
        self.net = net
        if backend == "lockstep":
            import lockstep  # noqa: F401  Before 2.14 torch does not find it by itself.
        if backend != "plain":
            dist.init_process_group("gloo" if backend == "rank_order" else backend)
            rank = dist.get_rank()
            group = RankOrderGroup() if backend == "rank_order" else None
            self.net = DistributedDataParallel(net, process_group=group)
            if "bf16-hook" in words:
                self.net.register_comm_hook(None, default_hooks.bf16_compress_hook)
            if "power_sgd-hook" in words:
                state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
                self.net.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
            if "zero" in words:
                self.optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.SGD, **sgd)
        torch.manual_seed(1 + rank)
        self.images = torch.randn(batch_size, *shape).to(device, memory_format=layout)
        self.labels = torch.randint(classes, (batch_size,)).to(device)
        self.autocast = (
            (lambda: torch.autocast("cuda", reduced_type)) if reduced else contextlib.nullcontext
        )
        # A first step that is skipped leaves the fused SGD of torch 2.11 with momentum that was never set.
        uses_half = reduced and reduced_type == torch.float16
        self.scaler = torch.amp.GradScaler(device, init_scale=1024, enabled=uses_half)
        self.is_first = rank == 0

    def step(self):
        self.optimizer.zero_grad(set_to_none=True)
        with self.autocast():
            loss = nn.functional.cross_entropy(self.net(self.images), self.labels)
        self.scaler.scale(loss).backward()
        self.scaler.step(self.optimizer)
        self.scaler.update()
        return loss


def peak_bytes(device):
    if device == "cuda":
        return torch.cuda.max_memory_allocated()
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM:"))


def optimizer_bytes(optimizer):
    own = optimizer.optim if isinstance(optimizer, ZeroRedundancyOptimizer) else optimizer  # This rank's share.
    tensors = [value for state in own.state.values() for value in state.values() if torch.is_tensor(value)]
    return sum(tensor.nbytes for tensor in tensors)


def timed_steps(training, device, warm, steps):
    for group in training.optimizer.param_groups:  # As hold_weights() of benchmarks/step/training.h.
        group["lr"] = 0
    for _ in range(warm):
        loss = training.step()
    seconds = []
    if device == "cuda":
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            loss = training.step()
        torch.cuda.synchronize()
        seconds.append((time.perf_counter() - start) / steps)
    else:
        for _ in range(steps):
            start = time.perf_counter()
            loss = training.step()
            seconds.append(time.perf_counter() - start)
    memory = {"peak_bytes": peak_bytes(device), "optimizer_bytes": optimizer_bytes(training.optimizer)}
    return {"seconds": seconds, "loss": loss.item(), **memory}


def carry_out(order, training, device):
    what, *numbers = order.split()
    if what == "check":
        return {"losses": [training.step().item() for _ in range(int(numbers[0]))]}
    if what == "time":
        return timed_steps(training, device, *map(int, numbers))
    raise ValueError(f"{order!r} is no order")


def main():
    backend, pipe, model, batch_size, device = sys.argv[1:6]
    orders = os.open(pipe, os.O_RDONLY)
    torch.set_num_threads(1)
    torch.backends.cudnn.benchmark = True
    training, missing = None, None
    try:
        training = Training(model, int(batch_size), device, backend, set(sys.argv[6:]))
    except ModuleNotFoundError as error:
        missing = {"missing": str(error)}
    is_first = training.is_first if training else os.environ.get("RANK", "0") == "0"
    while order := os.read(orders, ORDER_BYTES):
        answer = missing or carry_out(order.decode(), training, device)
        if is_first:
            print(json.dumps(answer, allow_nan=False), flush=True)
    if dist.is_initialized():
        dist.destroy_process_group()


main()
