#!/usr/bin/env python3
"""torch.distributed.all_reduce in `lockstep bench python`, which starts it.

    lockstep run --nproc-per-node 2 allreduce.py BACKEND PIPE

Each rank reads orders "BYTES REPETITIONS" from the pipe; rank 0 answers with the seconds of each.
"""

import json
import os
import sys
import time

import torch
import torch.distributed as dist

ORDER_BYTES = 48  # As in benchmarks/orders.h.


def timed(tensor, repetitions):
    rank, expected = dist.get_rank(), sum(range(1, dist.get_world_size() + 1))
    seconds = []
    for _ in range(repetitions):
        tensor.fill_(rank + 1)
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(tensor)
        seconds.append(time.perf_counter() - start)
        if not tensor.eq(expected).all():
            raise SystemExit(f"allreduce.py: the sum on rank {rank} is {tensor}, expected {expected} everywhere")
    return seconds


def main():
    backend, pipe = sys.argv[1:]
    orders = os.open(pipe, os.O_RDONLY)
    torch.set_num_threads(1)
    if backend == "lockstep":
        import lockstep  # noqa: F401  Before 2.14 torch does not find it by itself.
    dist.init_process_group(backend)
    tensors = {}
    while order := os.read(orders, ORDER_BYTES):
        size, repetitions = map(int, order.split())
        if size not in tensors:
            tensors[size] = torch.ones(size // 4)
        seconds = timed(tensors[size], repetitions)
        if dist.get_rank() == 0:
            print(json.dumps({"seconds": seconds}), flush=True)
    dist.destroy_process_group()


main()
