#!/usr/bin/env python3
"""The tutorials' toy model, one DistributedDataParallel step over Gloo: what examples/toy_step does in C++."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
net = nn.Sequential(nn.Linear(10, 10), nn.ReLU(), nn.Linear(10, 5))
ddp = DistributedDataParallel(net)
optimizer = torch.optim.SGD(ddp.parameters(), lr=0.001)
loss = nn.functional.mse_loss(ddp(torch.randn(20, 10)), torch.randn(20, 5))
loss.backward()
optimizer.step()
dist.destroy_process_group()
