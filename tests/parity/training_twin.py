"""The training of `lockstep train DATA` in Python: DDP over Gloo, torch.optim, torch's sampler.

    lockstep run --nproc-per-node N python training_twin.py FILE

FILE has a line of words for each training: DATA OUT [--opt NAME --accum N --smoothing X --clip X --warmup N].
Rank 0 writes the mean loss of each step over all ranks to OUT, a number a line.
"""

import argparse
import os
import shlex
import struct
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def read_idx(folder):
    images = open(f"{folder}/train-images-idx3-ubyte", "rb").read()
    labels = open(f"{folder}/train-labels-idx1-ubyte", "rb").read()
    _, count, height, width = struct.unpack(">4i", images[:16])
    pixels = torch.frombuffer(bytearray(images[16:]), dtype=torch.uint8).view(count, 1, height, width)
    return TensorDataset(pixels.float().div(255), torch.frombuffer(bytearray(labels[8:]), dtype=torch.uint8).long())


def convnet(num_classes=10):
    def stage(inputs, outputs):
        return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]

    return nn.Sequential(*stage(1, 16), *stage(16, 32), nn.Flatten(), nn.Linear(32 * 7 * 7, num_classes))


def optimizer_of(options, params):
    if options.opt == "adamw":
        return torch.optim.AdamW(params, lr=0.001, weight_decay=1e-4)
    return torch.optim.SGD(params, lr=0.02, momentum=0.9, weight_decay=1e-4, nesterov=options.opt == "nesterov")


def schedule_of(optimizer, total, warmup):
    if warmup == 0:
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=total)
    start = 1e-5 / optimizer.param_groups[0]["lr"]
    linear = torch.optim.lr_scheduler.LinearLR(optimizer, start, 1, warmup)
    cosine = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=total - warmup)
    return torch.optim.lr_scheduler.SequentialLR(optimizer, [linear, cosine], [warmup])


def train(options):
    rank, world = dist.get_rank(), dist.get_world_size()
    data = read_idx(options.data)
    sampler = DistributedSampler(data, world, rank, shuffle=True, seed=0, drop_last=True)
    loader = DataLoader(data, options.batch_size, sampler=sampler, drop_last=True)
    steps = len(data) // (options.batch_size * world * options.accum)
    torch.manual_seed(0)
    ddp = DistributedDataParallel(convnet())
    optimizer = optimizer_of(options, ddp.parameters())
    schedule = schedule_of(optimizer, options.epochs * steps, options.warmup * steps)
    losses = []
    for epoch in range(options.epochs):
        sampler.set_epoch(epoch)
        batches = iter(loader)
        for _ in range(steps):
            optimizer.zero_grad()
            total = 0.0
            for number in range(options.accum):
                images, labels = next(batches)
                ddp.require_backward_grad_sync = number + 1 == options.accum
                loss = nn.functional.cross_entropy(ddp(images), labels, label_smoothing=options.smoothing)
                total += loss.item() * len(labels)
                (loss / options.accum if options.accum > 1 else loss).backward()
            if options.clip:
                nn.utils.clip_grad_norm_(ddp.parameters(), options.clip)
            optimizer.step()
            schedule.step()
            losses.append(total)
    return losses, options.batch_size * world * options.accum


def options_of(line):
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("out")
    parser.add_argument("--opt", default="sgd")
    for name, default in (("batch-size", 16), ("epochs", 5), ("accum", 1), ("warmup", 0)):
        parser.add_argument("--" + name, type=int, default=default)
    for name in ("smoothing", "clip"):
        parser.add_argument("--" + name, type=float, default=0.0)
    return parser.parse_args(shlex.split(line))


def write_losses(options):
    losses, samples = train(options)
    everyone = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, losses)
    if dist.get_rank() == 0:
        with open(options.out, "w") as out:
            for parts in zip(*everyone):
                total = 0.0
                for part in parts:
                    total += part
                print(repr(total / samples), file=out)


def main(path):
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    for line in open(path):
        write_losses(options_of(line))
    dist.barrier()
    dist.destroy_process_group()
    os._exit(0)  # Gloo's threads may abort at a usual exit.


if __name__ == "__main__":
    main(sys.argv[1])
