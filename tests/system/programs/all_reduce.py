"""A Python rank: the sum over all ranks through torch.distributed, printed like examples/all_reduce.

    all_reduce.py FILE    makes this file when torch has been imported, which takes seconds
"""
import pathlib
import sys

import torch
import torch.distributed as dist

pathlib.Path(sys.argv[1]).touch()
dist.init_process_group("gloo")
t = torch.full((4,), float(dist.get_rank() + 1))
dist.all_reduce(t)
sys.stdout.write(f"rank {dist.get_rank()} of {dist.get_world_size()}: the sum is {t[0].item():g}\n")
sys.stdout.flush()
dist.barrier()
dist.destroy_process_group()
