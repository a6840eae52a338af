"""torch.distributed.optim.ZeroRedundancyOptimizer with AdamW, for a comparison bit by bit.

    run_zero.py FOLDER         writes FOLDER/WORLD for 1, 2 and 3 ranks: parameters and gradients of each step
                               (init.I, grad.STEP.I), the rank of each parameter (owner.I), the parameters at
                               the end (param.I) and the consolidated state (state.I.NAME); and that state as
                               torch.save has it, FOLDER/WORLD.pt
    run_zero.py FOLDER load    loads FOLDER/WORLD.ours.pt, which lockstep wrote, and fails unless it is that state
"""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer

sys.path.insert(0, str(Path(__file__).parents[2] / "parity"))
import tensor_file  # noqa: E402

# Two groups; some parameters are of one size.
SHAPES = [[(7, 5), (3,), (35,), (2, 3, 4)], [(1,), (24,), (6, 6)]]
STEPS = 5


def make_groups():
    return [[torch.randn(shape).requires_grad_() for shape in shapes] for shapes in SHAPES]


def options_of(groups):
    return [{"params": groups[0]}, {"params": groups[1], "lr": 0.02}]


def load(world, folder):
    """Options first: a group that is loaded has those of the file and no others."""
    ours = torch.load(folder / f"{world}.ours.pt", weights_only=True)
    expected = torch.load(folder / f"{world}.pt", weights_only=True)
    optimizer = torch.optim.AdamW(options_of(make_groups()), lr=0.1)
    optimizer.load_state_dict(ours)
    found = optimizer.state_dict()
    assert found["param_groups"] == expected["param_groups"], (found["param_groups"], expected["param_groups"])
    assert found["state"].keys() == expected["state"].keys()
    for i, state in expected["state"].items():
        assert found["state"][i].keys() == state.keys()
        for name, value in state.items():
            assert torch.equal(found["state"][i][name], value), f"state {i} {name}"


def train(rank, world, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store{world}", rank=rank, world_size=world)
    torch.manual_seed(4)
    groups = make_groups()
    params = [param for group in groups for param in group]
    result = {f"init.{i}": param.detach().clone() for i, param in enumerate(params)}
    optimizer = ZeroRedundancyOptimizer(options_of(groups), optimizer_class=torch.optim.AdamW, lr=0.1)
    for step in range(STEPS):
        for i, param in enumerate(params):
            param.grad = torch.randn(param.shape) if i != 2 or step > 1 else None  # One begins later.
            if param.grad is not None:
                result[f"grad.{step}.{i}"] = param.grad
        optimizer.step()
    optimizer.consolidate_state_dict(0)
    if rank == 0:
        result |= {f"owner.{i}": torch.tensor(optimizer._param_to_rank[param]) for i, param in enumerate(params)}
        result |= {f"param.{i}": param.detach() for i, param in enumerate(params)}
        for i, state in optimizer.state_dict()["state"].items():
            result |= {f"state.{i}.{name}": value for name, value in state.items()}
        tensor_file.write(Path(folder) / str(world), result)
        torch.save(optimizer.state_dict(), Path(folder) / f"{world}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    for world in (1, 2, 3):
        if sys.argv[2:] == ["load"]:
            load(world, Path(sys.argv[1]))
            continue
        torch.multiprocessing.start_processes(train, (world, sys.argv[1]), world, start_method="fork")
